"""How requests reach model servers: one seam, behind it our own HTTP/1.1 connections.

One read gives everything that has arrived. httpx2's client gives one HTTP chunk per read and costs about twice the
CPU per event of a paced stream and four times that of a short request (`bench/README.md`, ADR 4).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, Self

import httpx2

from antiphon.upstream.http1.connection import HttpAnswer, HttpConnection
from antiphon.upstream.http1.pool import ConnectionPool, Origin
from antiphon.upstream.http1.proxies import environment_proxy, proxy_authorization

_STALE_S = 1.0
"""A pooled connection that breaks this soon after a request was dead already, and the request is sent again."""

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """method: in upper case. lines: its headers, each with its line end, without `host` and the body's length."""

    method: bytes
    url: str
    lines: bytes
    body: bytes = b""


class Answer(Protocol):
    """The answer to a request: its head, and its body as it comes.

    Reading raises httpx2.TransportError. Closing it before its end ends the request.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    ended: bool
    """Whether all of it has arrived."""

    def header(self, name: bytes) -> str:
        """The value of a header, empty if there is none. name: in lower case."""
        ...

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> bytes: ...

    async def aclose(self) -> None: ...


class Transport(Protocol):
    """Sends requests."""

    async def ask(self, request: HttpRequest) -> Answer:
        """Send, and return when the head of the answer is there. Raises httpx2.TransportError."""
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class HttpTransport:
    """The network, through one pool of connections, unlimited in number.

    connect_s, first_byte_s, idle_s: longest wait for a connection, from the request to the first byte of the
    answer's body (None: as idle_s), and for the next byte.
    proxy: URL of a forward proxy; None takes the one of the environment, which is never used for loopback.
    """

    def __init__(
        self, *, connect_s: float, idle_s: float, first_byte_s: float | None = None, proxy: str | None = None
    ) -> None:
        self._pool = ConnectionPool(connect_s)
        self._first_byte_s = idle_s if first_byte_s is None else first_byte_s
        self._idle_s = idle_s
        self._proxy = proxy
        self._places: dict[str, tuple[Origin, bytes]] = {}
        """Where each URL leads, and what the head of a request says of it."""

    async def ask(self, request: HttpRequest) -> Answer:
        """See `Transport`."""
        origin, where = self._places.get(request.url) or self._place(request.url)
        size = len(request.body)
        head = b"%b %b%bcontent-length: %d\r\n\r\n" % (request.method, where, request.lines, size)
        connection = await self._pool.take(origin)
        begun, is_reused = asyncio.get_running_loop().time(), connection.is_reused
        try:
            return await self._answer(connection, head, request.body)
        except httpx2.ReadError:
            if not is_reused or asyncio.get_running_loop().time() - begun > _STALE_S:
                raise
        return await self._answer(await self._pool.open(origin), head, request.body)

    async def aclose(self) -> None:
        """See `Transport`."""
        self._pool.close()

    async def _answer(self, connection: HttpConnection, head: bytes, body: bytes) -> HttpAnswer:
        answer = connection.send(head, body, self._first_byte_s, self._idle_s)
        try:
            await answer.head()
        except BaseException:
            await answer.aclose()
            raise
        return answer

    def _place(self, given: str) -> tuple[Origin, bytes]:
        url = httpx2.URL(given)
        scheme, host = url.scheme, url.host
        proxy = self._proxy or environment_proxy(scheme, host)
        origin = Origin(scheme, host, url.port or _PORTS[scheme], proxy)
        target, lines = url.raw_path, b"host: %b\r\n" % url.netloc
        if proxy is not None and scheme == "http":
            target = b"http://%b%b" % (url.netloc, target)
            lines += proxy_authorization(proxy)
        place = self._places[given] = origin, b"%b HTTP/1.1\r\n%b" % (target, lines)
        return place
