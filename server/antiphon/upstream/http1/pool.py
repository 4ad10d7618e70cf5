"""Connections to model servers: kept while they are young, opened where there is none, unlimited in number."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohappyeyeballs
import httpx2

from antiphon.upstream.http1.connection import HttpConnection
from antiphon.upstream.http1.proxies import proxy_authorization
from antiphon.upstream.http1.reasons import reason

_IDLE_S = 4.0
"""Shorter than the 5 s after which uvicorn, thus vLLM and many more, closes an idle connection."""

_NEXT_ADDRESS_S = 0.25
"""How long an address has before the next one of the same host is tried beside it (RFC 8305)."""

_HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class Origin:
    """Where requests go. proxy: the URL of the one between."""

    scheme: str
    host: str
    port: int
    proxy: str | None


class ConnectionPool:
    """connect_s: what opening a connection may take, its TLS and its proxy included."""

    def __init__(self, connect_s: float) -> None:
        self._connect_s = connect_s
        self._free: dict[Origin, list[HttpConnection]] = {}
        self._open_ones: set[HttpConnection] = set()
        self._sweeping: asyncio.TimerHandle | None = None

    async def take(self, origin: Origin) -> HttpConnection:
        """A connection for one request. Raises httpx2.TransportError."""
        free = self._free.get(origin)
        newest = asyncio.get_running_loop().time() - _IDLE_S
        while free:
            connection = free.pop()
            if connection.usable and connection.free_since >= newest:
                return connection
            connection.drop()
        return await self.open(origin)

    async def open(self, origin: Origin) -> HttpConnection:
        """A new connection. Raises httpx2.TransportError."""
        try:
            async with asyncio.timeout(self._connect_s):
                return await self._open(origin)
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("ConnectionTimeoutError") from error
        except (OSError, ssl.SSLError, UnicodeError) as error:
            kind = httpx2.ProxyError if origin.proxy is not None else httpx2.ConnectError
            raise kind(reason(error)) from error

    def close(self) -> None:
        """Drop every connection."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._free.clear()
        for connection in list(self._open_ones):
            connection.drop()

    async def _open(self, origin: Origin) -> HttpConnection:
        connection = HttpConnection(lambda one: self._freed(origin, one), self._open_ones.discard)
        tls = tls_context() if origin.scheme == "https" else None
        if origin.proxy is None:
            return await self._connect(origin.host, origin.port, tls, connection)
        proxy = httpx2.URL(origin.proxy)
        proxy_tls = tls_context() if proxy.scheme == "https" else None
        port = proxy.port or (_HTTPS_PORT if proxy_tls is not None else 80)
        if tls is None:
            return await self._connect(proxy.host, port, proxy_tls, connection)
        tunnel = await self._connect(proxy.host, port, proxy_tls, HttpConnection(_never_free))
        return await self._through(tunnel, origin, tls, connection)

    async def _through(
        self, tunnel: HttpConnection, origin: Origin, tls: ssl.SSLContext, connection: HttpConnection
    ) -> HttpConnection:
        """TLS to the origin inside a connection to its proxy."""
        assert origin.proxy is not None
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        where = f"{host}:{origin.port}".encode("ascii")
        head = b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n%b\r\n" % (where, where, proxy_authorization(origin.proxy))
        answer = tunnel.send(head, b"", self._connect_s, self._connect_s)
        try:
            await answer.head()
            if not 200 <= answer.status < 300:
                raise httpx2.ProxyError(f"the proxy answered {answer.status}")
            loop = asyncio.get_running_loop()
            answer.on_end()
            transport = await loop.start_tls(tunnel.transport, connection, tls, server_hostname=origin.host)
        except BaseException:
            await answer.aclose()
            raise
        assert transport is not None
        connection.connection_made(transport)
        self._open_ones.add(connection)
        return connection

    async def _connect(
        self, host: str, port: int, tls: ssl.SSLContext | None, connection: HttpConnection
    ) -> HttpConnection:
        loop = asyncio.get_running_loop()
        addresses: Sequence[Any] = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S, loop=loop)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            name = host if tls is not None else None
            await loop.create_connection(lambda: connection, sock=sock, ssl=tls, server_hostname=name)
        except BaseException:
            sock.close()
            raise
        self._open_ones.add(connection)
        return connection

    def _freed(self, origin: Origin, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        connection.free_since = loop.time()
        self._free.setdefault(origin, []).append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(_IDLE_S, self._sweep)

    def _sweep(self) -> None:
        """Close what has been free for too long."""
        loop = asyncio.get_running_loop()
        newest = loop.time() - _IDLE_S
        for origin, free in list(self._free.items()):
            for connection in free:
                if connection.free_since <= newest:
                    connection.drop()
            free[:] = [connection for connection in free if connection.usable]
            if not free:
                del self._free[origin]
        self._sweeping = loop.call_later(_IDLE_S, self._sweep) if self._free else None


@functools.cache
def tls_context() -> ssl.SSLContext:
    """What the system trusts; for HTTP/1.1."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _never_free(connection: HttpConnection) -> None:
    """It carries something else from now on."""
