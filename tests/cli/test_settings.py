"""Where settings come from, which goes first, and what is refused with which sentence (DESIGN 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StartupError
from antiphon.settings import Settings
from antiphon.settings.loading import load_settings
from tests.http.calling import key_of

KEY = f"[[key]]\nsha256='{key_of('x')['sha256']}'\n"


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("ANTIPHON_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def load(file: str | None = None, **flags: Any) -> Settings:
    if file is not None:
        Path("antiphon.toml").write_text(file)
    return load_settings(None, **flags)[0]


def refusal(file: str | None = None, **flags: Any) -> str:
    with pytest.raises(StartupError) as caught:
        load(file, **flags)
    return caught.value.message


def test_without_anything_the_defaults_serve_this_machine_only() -> None:
    settings = load()
    assert (settings.host, settings.port, settings.auth_required) == ("127.0.0.1", 8787, False)
    assert settings.data_path == Path("~/.antiphon").expanduser()
    assert settings.journal.mode == "relaxed" and settings.upstreams == ()


def test_flags_go_before_the_environment_and_the_environment_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = "port=1\nlog_level='error'\nhost='localhost'\n[journal]\nmode='strict'\nflush_ms=3\n"
    assert (load(file).port, load(file).journal.flush_ms) == (1, 3)
    monkeypatch.setenv("ANTIPHON_PORT", "2")
    monkeypatch.setenv("ANTIPHON_LOG_LEVEL", "debug")
    monkeypatch.setenv("ANTIPHON_JOURNAL__FLUSH_MS", "4")
    settings = load(file, port=3, log_level=None)
    assert (settings.port, settings.log_level, settings.host) == (3, "debug", "localhost")
    assert (settings.journal.flush_ms, settings.journal.mode) == (4, "strict"), "tables are merged key by key"


def test_the_file_is_the_one_named_else_the_one_here_else_the_one_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, named = tmp_path / "data", tmp_path / "named.toml"
    data.mkdir()
    (data / "antiphon.toml").write_text("port=3")
    named.write_text("port=1")
    assert load(data_dir=data).port == 3
    monkeypatch.setenv("ANTIPHON_DATA_DIR", str(data))
    assert load().port == 3
    assert load("port=2").port == 2
    settings, path = load_settings(named)
    assert (settings.port, path) == (1, named)


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("prot=1", "prot"),
        ("[jurnal]\nmode='strict'", "jurnal"),
        ("[journal]\nmod='strict'", "journal.mod"),
        ("[[upstream]]\nname='x'\nurl='http://x'\nkeyy='1'", "upstream.0.keyy"),
        ("[[key]]\nsha='x'", "key.0.sha"),
        ("[[tenant]]\nid='a b'", "tenant.0.id"),
        ("[limits]\nnamed_lanes=0", "limits.named_lanes"),
        ("port=70000", "port"),
        ("[journal]\nmode='lax'", "journal.mode"),
        ("[[key]]\nsha256='short'", "key.0.sha256"),
    ],
)
def test_a_wrong_key_in_the_file_is_an_error_that_names_it(file: str, named: str) -> None:
    assert f"  {named}: " in refusal(file)


def test_every_wrong_key_has_its_line() -> None:
    lines = refusal("prot=1\nhots='x'\n[journal]\nmod='x'").splitlines()
    assert lines[0] == "the configuration is not valid:" and len(lines) == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANTIPHON_PROT", "1"),
        ("ANTIPHON_JURNAL__MODE", "strict"),
        ("ANTIPHON_JOURNAL__MOD", "strict"),
        ("ANTIPHON_LIMITS__NAMED_LANES", "0"),
        ("ANTIPHON_PORT", "high"),
        ("ANTIPHON_JOURNAL", "nonsense"),
    ],
)
def test_a_wrong_variable_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    said = refusal().lower()
    assert "not valid" in said
    assert name.lower() in said or name.removeprefix("ANTIPHON_").lower().replace("__", ".") in said


def test_variables_of_example_clients_and_of_keys_that_the_file_names_are_none_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ANTIPHON_URL", "ANTIPHON_API_KEY", "ANTIPHON_MODEL", "ANTIPHON_MY_PROVIDERS_KEY"):
        monkeypatch.setenv(name, "x")
    file = "[[upstream]]\nname='u'\nurl='http://127.0.0.1:1/v1'\nkey_env='ANTIPHON_MY_PROVIDERS_KEY'"
    assert load(file).upstreams[0].key_env == "ANTIPHON_MY_PROVIDERS_KEY"


def test_a_file_that_is_no_toml_is_named() -> None:
    said = refusal("port = = 3")
    assert "antiphon.toml cannot be read" in said


def test_a_configuration_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"configuration file .*nowhere\.toml does not exist"):
        load_settings(tmp_path / "nowhere.toml")


def test_authentication_off_is_for_this_machine_unless_the_operator_insists() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "chat.example"):
        said = refusal(f"host='{host}'\nauth='off'")
        assert host in said and "--insecure" in said
        assert load(f"host='{host}'\nauth='off'", insecure=True).auth_required is False
    for host in ("127.0.0.1", "127.1.2.3", "localhost", "::1"):
        assert load(f"host='{host}'").auth_required is False


def test_off_this_machine_authentication_is_required() -> None:
    assert load("host='0.0.0.0'\n").auth_required is True
    assert load("auth='required'\n").auth_required is True
    assert load("host='127.0.0.1'\n").auth_required is False


def test_a_key_of_an_unknown_tenant_is_named_and_not_shown() -> None:
    said = refusal(KEY + "tenant='acme'\nname='ci'")
    assert "'ci'" in said and "'acme'" in said
    assert str(key_of("x")["sha256"]) not in refusal(KEY + "tenant='acme'")


def test_secrets_do_not_show_in_errors_or_in_the_settings_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_UPSTREAM_KEY", "SECRET")
    settings = load("upstream_url='http://127.0.0.1:1/v1'\n[[upstream]]\nname='u'\nurl='http://x'\nkey='SECRET'")
    assert "SECRET" not in repr(settings) and "SECRET" not in settings.model_dump_json()
    assert settings.upstreams[0].key is not None
    assert "SECRET" not in refusal("port=-1\n[[upstream]]\nname='u'\nurl='http://x'\nkey=['SECRET']")


@pytest.mark.parametrize(
    "url", ["sqlite:///", "sqlite://x", "nonsense", "mysql://u:s3cret@h/x", "/var/antiphon.db"]
)
def test_a_store_url_of_another_engine_is_refused_without_being_repeated(url: str) -> None:
    message = refusal(store_url=url)
    assert "store_url: " in message and "s3cret" not in message and message.count("\n") == 1


def test_a_store_url_names_the_engine() -> None:
    assert load().store_engine == "sqlite"
    assert load(store_url="sqlite:////tmp/x.db").database_path == Path("/tmp/x.db")
    assert load(store_url="postgres://h/x").store_engine == "postgresql"
    assert load(store_url="postgresql:///x?host=/run").store_engine == "postgresql"
