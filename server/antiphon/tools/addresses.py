"""Which machine a name leads to, decided once, and whether it is on the public internet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from antiphon.core.addresses import is_public
from antiphon.errors import ToolError

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to numeric addresses. Raises OSError."""


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """The system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


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
