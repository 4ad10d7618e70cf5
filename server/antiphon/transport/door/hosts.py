"""The names this server answers to: a name that was rebound to our address is not one of them."""

from __future__ import annotations

import ipaddress
import re

from antiphon.errors import RequestError
from antiphon.settings import Settings

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_EVERY_ADDRESS = frozenset({"", str(ipaddress.IPv4Address(0)), str(ipaddress.IPv6Address(0))})
"""What an operator binds to be reached on every address."""

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class KnownHosts:
    """What we are bound to, the loopback names where that is loopback, and what was configured."""

    def __init__(self, settings: Settings) -> None:
        names = {_canonical(name.strip("[]")) for name in (*settings.allowed_hosts, settings.host)}
        if settings.is_loopback or not settings.auth_required or settings.host in _EVERY_ADDRESS:
            names |= _LOOPBACK_NAMES
        self._names = frozenset(names)
        # Bound to every address of the machine, each of them is one we are bound to; a rebound name is not.
        self._any_address = settings.auth_required and settings.host in _EVERY_ADDRESS

    def check(self, host: str) -> None:
        """host: the Host header. Raises RequestError `host_not_allowed`."""
        name = host_name(host)
        if name is None or not (name in self._names or (self._any_address and _is_address(name))):
            raise RequestError(
                f"This server does not answer to the host {host[:80]!r}; add it to allowed_hosts if it should.",
                code="host_not_allowed",
            )


def host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None if it is none."""
    parts = _HOST.fullmatch(host)
    return _canonical(parts[1].strip("[]")) if parts is not None else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower().rstrip(".")
