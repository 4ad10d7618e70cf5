"""Whose address counts: the peer's, or what a proxy says that the operator named."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.transport.door.addresses import UNKNOWN, Addresses, is_forwarded

TRUSTED = Addresses(["10.0.0.1", "10.1.0.0/16", "fd00::/8"])


def scope(peer: str | None) -> dict[str, Any]:
    return {"type": "http", "client": None if peer is None else (peer, 1234)}


@pytest.mark.parametrize(
    ("peer", "headers", "address"),
    [
        ("192.0.2.7", {}, "192.0.2.7"),
        ("192.0.2.7", {"x-forwarded-for": "203.0.113.9"}, "192.0.2.7"),
        ("192.0.2.7", {"forwarded": "for=203.0.113.9"}, "192.0.2.7"),
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "203.0.113.9"}, "203.0.113.9"),
        ("10.0.0.1", {"x-forwarded-for": "203.0.113.9:4711"}, "203.0.113.9"),
        ("10.0.0.1", {"forwarded": "for=203.0.113.9"}, "203.0.113.9"),
        ("10.0.0.1", {"forwarded": 'proto=https;FOR="203.0.113.9:80";by=10.0.0.1'}, "203.0.113.9"),
        # What the client wrote itself stands before what the proxies added.
        ("10.0.0.1", {"x-forwarded-for": "1.1.1.1, 203.0.113.9"}, "203.0.113.9"),
        ("10.0.0.1", {"x-forwarded-for": "1.1.1.1, 203.0.113.9, 10.1.2.3"}, "203.0.113.9"),
        ("10.0.0.1", {"forwarded": "for=1.1.1.1, for=203.0.113.9, for=10.1.2.3"}, "203.0.113.9"),
        ("10.0.0.1", {"x-forwarded-for": "10.1.0.1, 10.1.0.2"}, "10.0.0.1"),
        # One header came through the proxy unread: neither says anything then.
        ("10.0.0.1", {"x-forwarded-for": "203.0.113.9", "forwarded": "for=1.1.1.1"}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": "203.0.113.9", "forwarded": "for=203.0.113.9"}, "203.0.113.9"),
        ("10.0.0.1", {"x-forwarded-for": "a page of text"}, "10.0.0.1"),
        ("10.0.0.1", {"x-forwarded-for": ""}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=unknown"}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=_hidden, for=10.1.0.9"}, "10.0.0.1"),
        ("10.0.0.1", {"forwarded": "for=1.1.1.1, proto=https"}, "10.0.0.1"),
        # A customer of IPv6 has a network, not an address.
        ("2001:db8:1:2:3:4:5:6", {}, "2001:db8:1:2::/64"),
        ("fd00::1", {"x-forwarded-for": "2001:db8:1:2::99"}, "2001:db8:1:2::/64"),
        ("fd00::1", {"forwarded": 'for="[2001:db8:1:2::99]:4711"'}, "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", {}, "192.0.2.7"),
        ("::ffff:10.0.0.1", {"x-forwarded-for": "203.0.113.9"}, "203.0.113.9"),
        (None, {"x-forwarded-for": "203.0.113.9"}, UNKNOWN),
        ("/run/socket", {}, UNKNOWN),
    ],
)
def test_the_address_that_counts(peer: str | None, headers: dict[str, str], address: str) -> None:
    assert TRUSTED.client(scope(peer), headers) == address


def test_nobody_is_trusted_who_was_not_named() -> None:
    nobody = Addresses([])
    assert nobody.client(scope("127.0.0.1"), {"x-forwarded-for": "203.0.113.9"}) == "127.0.0.1"
    assert not nobody.is_trusted(scope("127.0.0.1")) and not nobody.is_trusted(scope(None))
    assert TRUSTED.is_trusted(scope("10.1.255.255")) and not TRUSTED.is_trusted(scope("10.2.0.0"))


def test_what_a_proxy_adds_is_recognised() -> None:
    for name in ("forwarded", "x-real-ip", "x-forwarded-for", "x-forwarded-anything"):
        assert is_forwarded({"host": "x", name: ""})
    assert not is_forwarded({"host": "x", "x-forward": "", "forwarded-for": ""})
