"""Which machine a name leads to, decided once, and whether it is on the public internet."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

from antiphon.errors import ToolError

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to numeric addresses. Raises OSError."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """The system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_public(address: str) -> bool:
    """Whether anybody on the internet could reach it; false for what is no address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        inner = _inner(parsed)
        if inner is not None:
            return is_public(str(inner))
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 one stands for: each of these forms reaches it."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


class AddressGuard:
    """The addresses of one host of a request. A later answer of the name service changes nothing."""

    def __init__(self, host: str, port: int, *, allow_private: bool, resolve: Resolver) -> None:
        self.host = host
        self.port = port
        self._allow_private = allow_private
        self._resolve = resolve
        self._addresses: Sequence[str] = ()

    async def addresses(self) -> Sequence[str]:
        """Numeric addresses to connect to, in order. Raises ToolError if one of them is not public."""
        if not self._addresses:
            try:
                found = await self._resolve(self.host, self.port)
            except OSError as error:
                raise ToolError("its host name is not known") from error
            if not found:
                raise ToolError("its host name is not known")
            if not self._allow_private and not all(map(is_public, found)):
                raise ToolError("its host name leads to an address that is not on the public internet")
            self._addresses = found
        return self._addresses
