"""Where a request comes from: the peer, or what a proxy we trust says about it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence

from starlette.types import Scope

_FORWARDING = frozenset({"forwarded", "x-real-ip"})
_FORWARDING_PREFIX = "x-forwarded-"
_FOR = re.compile(r'(?:^|;)\s*for\s*=\s*("[^"]*"|[^;\s]*)', re.IGNORECASE)
_NETWORK_BITS = 64
"""Of an IPv6 address: the rest belongs to one customer, who may choose among more than all of IPv4."""

UNKNOWN = "unknown"
"""The address of a peer that has none."""


class Addresses:
    """Believes forwarding headers of the named proxies only."""

    def __init__(self, trusted: Sequence[str]) -> None:
        """trusted: addresses or networks."""
        self._trusted = [ipaddress.ip_network(given) for given in trusted]

    def is_trusted(self, scope: Scope) -> bool:
        """Whether the peer is a proxy we believe."""
        return self._trusts(_peer(scope))

    def client(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """The address of the client, IPv6 as its network; `unknown` if there is none.

        The last hop that is not one of ours is it: what stands before that, the client may have written itself.
        Where both headers are there and differ, one of them was passed through unread, and neither is believed.
        """
        peer = _peer(scope)
        if not self._trusts(peer):
            return _account(peer)
        told = [self._hops(split(headers[name])) for name, split in _HEADERS.items() if name in headers]
        if not told or any(client != told[0] for client in told):
            return _account(peer)
        return _account(told[0] or peer)

    def _hops(self, hops: list[str]) -> str | None:
        """The last hop that is not trusted; None if it is not an address, or there is none."""
        for hop in reversed(hops):
            if not self._trusts(hop):
                return hop if _parsed(hop) is not None else None
        return None

    def _trusts(self, address: str) -> bool:
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._trusted)


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """Whether a proxy, or somebody who wants to look like one, has handled the request."""
    return any(name in _FORWARDING or name.startswith(_FORWARDING_PREFIX) for name in headers)


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else UNKNOWN


def _split_forwarded_for(value: str) -> list[str]:
    return [_without_port(hop) for hop in value.split(",")]


def _split_forwarded(value: str) -> list[str]:
    """RFC 7239: one element a hop; one without `for` is a hop nobody names."""
    found = [_FOR.search(element) for element in value.split(",")]
    return [_without_port(match[1].strip('"')) if match else "" for match in found]


_HEADERS = {"x-forwarded-for": _split_forwarded_for, "forwarded": _split_forwarded}


def _without_port(hop: str) -> str:
    hop = hop.strip()
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def _account(address: str) -> str:
    """Under which name an address is counted."""
    parsed = _parsed(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(parsed), _NETWORK_BITS), strict=False))
    return str(parsed) if parsed is not None else UNKNOWN
