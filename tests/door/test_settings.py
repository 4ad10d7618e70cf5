"""What an operator can say about the door: what is in force, and what is refused with one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from antiphon.core.token_bucket import Rate
from antiphon.errors import StartupError
from antiphon.settings import Settings
from antiphon.settings.door import DoorSettings
from antiphon.settings.loading import load_settings


def test_without_authentication_nothing_is_limited_unless_it_is_said() -> None:
    limits = DoorSettings().in_force(auth_required=False)
    assert (limits.sockets_per_principal, limits.sockets_per_address, limits.accepts) == (None, None, None)
    assert (limits.creates, limits.creates_per_connection) == (None, None)
    said = DoorSettings(sockets_per_address=3, accepts_per_s=1, create_burst=5, connection_create_burst=2)  # type: ignore[call-arg]
    limits = said.in_force(auth_required=False)
    assert limits.sockets_per_address == 3
    assert limits.accepts == Rate(per_s=1, burst=500)
    assert limits.creates == Rate(per_s=100, burst=5)
    assert limits.creates_per_connection == Rate(per_s=100, burst=2)


def test_with_authentication_the_defaults_are_in_force() -> None:
    limits = DoorSettings().in_force(auth_required=True)
    assert (limits.sockets_per_principal, limits.sockets_per_address) == (1000, 1000)
    assert limits.accepts == Rate(per_s=100, burst=500)
    assert limits.creates == limits.creates_per_connection == Rate(per_s=100, burst=200)
    limits = DoorSettings(creates_per_s=7).in_force(auth_required=True)  # type: ignore[call-arg]
    assert limits.creates == limits.creates_per_connection == Rate(per_s=7, burst=200)


def test_an_origin_is_kept_as_browsers_send_it() -> None:
    given: Any = ("HTTPS://Chat.Example:443", "http://localhost:5173", "http://[::1]:80")
    settings = Settings(allowed_origins=given)
    assert settings.allowed_origins == ("https://chat.example", "http://localhost:5173", "http://[::1]")


@pytest.mark.parametrize(
    "origin",
    [
        "null", "*", "", "chat.example", "https://*.example", "https://chat.example/", "https://chat.example/page",
        "ftp://chat.example", "https://a@chat.example", "https://chat.example:x", "https://chat.example https://b",
    ],
)  # fmt: skip
def test_what_is_no_origin_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(ValidationError, match="is no origin; write https://name"):
        Settings(allowed_origins=(origin,))


@pytest.mark.parametrize("proxy", ["proxy.example", "10.0.0.0/33", "10.0.0.1/8", ""])
def test_a_trusted_proxy_is_an_address_or_a_network(proxy: str) -> None:
    with pytest.raises(ValidationError, match="neither an address nor a network"):
        Settings(trusted_proxies=(proxy,))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[door]\nsocket_per_address = 1\n", "door.socket_per_address"),
        ("[door]\nsockets_per_address = 0\n", "door.sockets_per_address"),
        ("[door]\ncreate_burst = 0.5\n", "door.create_burst"),
        ('[limits]\nprivate_input_urls = "maybe"\n', "limits.private_input_urls"),
        ("[[door]]\nhead_s = 1\n", "door"),
    ],
)
def test_a_wrong_key_or_value_of_the_file_is_named(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(text)
    with pytest.raises(StartupError, match=named):
        load_settings(file, data_dir=tmp_path)
