"""An httpx2 transport on aiohttp's client: one read gives everything that has arrived.

httpx2's own transport gives one HTTP chunk per read and costs about twice the CPU per event of a paced
stream, and it cannot catch up with a backlog. PyPI `httpx-aiohttp` fits the API but reads in 16 KiB slices,
keeps at most 100 connections unless told otherwise, and loses what arrived just before a break.
"""

from __future__ import annotations

import asyncio
import functools
import io
import os
import time
import urllib.request

import aiohttp
import httpx2
from yarl import URL

_READ_BUFFER_BYTES = 256 * 1024
"""Reading pauses at twice this: a fast upstream is slowed by TCP when nobody takes its events."""

_POOL_IDLE_S = 4.0
"""Shorter than the 5 s after which uvicorn, thus vLLM and many more, closes an idle connection."""

_STALE_S = 1.0
"""A pooled connection that breaks this soon after a request was dead already, and the request is sent again."""

_FIRST_READ_S = 0.05
"""A head that came at the last moment leaves its body at least this long to begin."""

_LARGE_BODY_BYTES = 1024 * 1024
"""Beyond this aiohttp wants a file-like body, which it writes in slices that let the loop breathe."""

_AUTO_HEADERS = ("User-Agent", "Content-Type", "Accept", "Accept-Encoding")


class AiohttpStream(httpx2.AsyncByteStream):
    """The body of an answer. Closing it before its end drops the connection, after it returns it to the pool.

    first_byte_s, idle_s: longest silence while somebody waits for the first bytes, and for more of them. One
    coarse timer watches it, since moving a timer with each read costs a tenth of the whole read.
    """

    def __init__(self, response: aiohttp.ClientResponse, first_byte_s: float, idle_s: float) -> None:
        self._response = response
        self._content = response.content
        self._begun = False
        self._idle_s = idle_s
        self._patience_s = first_byte_s
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        self._watch = self._loop.call_later(first_byte_s, self._check)
        connection = response.connection
        protocol = connection.protocol if connection is not None else None
        self._lost = protocol.closed if protocol is not None else None
        if self._lost is not None:
            self._lost.add_done_callback(self._on_lost)

    def __aiter__(self) -> AiohttpStream:
        return self

    async def __anext__(self) -> bytes:
        """All bytes that are there, waiting for the first. Raises httpx2.TransportError."""
        self._waiting_since = self._loop.time()
        try:
            chunk = await self._content.readany()
        except (aiohttp.ClientError, OSError, RuntimeError) as error:  # RuntimeError: the connection is gone
            chunk = self._rest()
            if not chunk:
                raise _as_httpx(error) from error
        finally:
            self._waiting_since = None
        if not chunk:
            raise StopAsyncIteration
        if not self._begun:
            self._go_on()
        return chunk

    async def aclose(self) -> None:
        """Give the connection back, or drop it at once without waiting for unsent bytes."""
        self._watch.cancel()
        if self._lost is not None:
            self._lost.remove_done_callback(self._on_lost)
        connection = self._response.connection
        if connection is None or self._content.at_eof():
            self._response.release()
            return
        if connection.transport is not None:
            connection.transport.abort()
        self._response.close()

    def _rest(self) -> bytes:
        # aiohttp reports a break before it gives the bytes that came ahead of it; they belong to the answer.
        content = self._content
        broken, content._exception = content._exception, None
        try:
            return content.read_nowait()
        finally:
            content._exception = broken

    def _on_lost(self, lost: asyncio.Future[None]) -> None:
        # After bytes that are no HTTP aiohttp closes the connection and leaves the reader waiting.
        if not lost.cancelled():
            lost.exception()
        if self._content.exception() is None and not self._content.is_eof():
            self._content.set_exception(aiohttp.ClientPayloadError("connection lost"))

    def _go_on(self) -> None:
        self._begun = True
        self._patience_s = self._idle_s
        self._watch.cancel()
        self._watch = self._loop.call_later(self._idle_s, self._check)

    def _check(self) -> None:
        now = self._loop.time()
        since = now if self._waiting_since is None else self._waiting_since
        if now - since >= self._patience_s:
            self._content.set_exception(aiohttp.SocketTimeoutError("idle"))
        else:
            self._watch = self._loop.call_at(since + self._patience_s, self._check)


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends httpx2 requests through one pool of connections, unlimited in number.

    connect_s, first_byte_s, idle_s: longest wait for a connection, from the request to the first byte of the
    answer's body (None: as idle_s), and for the next byte.
    proxy: URL of a forward proxy; None takes the one of the environment, which is never used for loopback.
    """

    def __init__(
        self, *, connect_s: float, idle_s: float, first_byte_s: float | None = None, proxy: str | None = None
    ) -> None:
        self._timeout = aiohttp.ClientTimeout(total=None, connect=connect_s, sock_connect=connect_s)
        self._first_byte_s = idle_s if first_byte_s is None else first_byte_s
        self._idle_s = idle_s
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, and return when the head of the answer is there. Raises httpx2.TransportError."""
        reused: list[bool] = []
        begun = time.monotonic()
        try:
            response = await self._send(request, reused)
        except httpx2.ReadError:
            if not reused or time.monotonic() - begun > _STALE_S:
                raise
            response = await self._send(request, [])
        left_s = max(_FIRST_READ_S, begun + self._first_byte_s - time.monotonic())
        return httpx2.Response(
            response.status,
            headers=list(response.raw_headers),
            stream=AiohttpStream(response, left_s, self._idle_s),
            request=request,
        )

    async def _send(self, request: httpx2.Request, reused: list[bool]) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(self._first_byte_s):
                return await self._send_raw(request, reused)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _as_httpx(error) from error

    async def _send_raw(self, request: httpx2.Request, reused: list[bool]) -> aiohttp.ClientResponse:
        session = self._session or self._open()
        body = await request.aread()
        return await session.request(
            request.method,
            _yarl(str(request.url)),
            headers=request.headers,
            data=io.BytesIO(body) if len(body) > _LARGE_BODY_BYTES else body or None,
            allow_redirects=False,
            proxy=self._proxy or _environment_proxy(request.url.scheme, request.url.host),
            trace_request_ctx=reused,
        )

    def _open(self) -> aiohttp.ClientSession:
        # Here and not in __init__: aiohttp wants the running loop.
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_POOL_IDLE_S),
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_AUTO_HEADERS,
            auto_decompress=False,
            read_bufsize=_READ_BUFFER_BYTES,
            max_line_size=65_536,
            max_field_size=65_536,
            trace_configs=[trace],
        )
        return self._session

    async def aclose(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()


async def _note_reuse(session: aiohttp.ClientSession, context: object, params: object) -> None:
    context.trace_request_ctx.append(True)  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=64)
def _yarl(url: str) -> URL:
    return URL(url, encoded=True)


@functools.lru_cache(maxsize=64)
def _environment_proxy(scheme: str, host: str) -> str | None:
    if host in ("localhost", "127.0.0.1", "::1") or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(scheme) or proxies.get("all")


def _as_httpx(error: Exception) -> httpx2.TransportError:
    """The httpx2 name of an aiohttp fault. Its text never holds the URL, which may hold a secret."""
    text = _reason(error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return httpx2.ConnectTimeout(text)
    if isinstance(error, TimeoutError):
        return httpx2.ReadTimeout(text)
    if isinstance(error, (aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError)):
        return httpx2.ProxyError(text)
    if isinstance(error, aiohttp.ClientConnectorError):
        return httpx2.ConnectError(text)
    if isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, OSError, RuntimeError)):
        return httpx2.ReadError(text)
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.ClientResponseError)):
        return httpx2.RemoteProtocolError(text)
    return httpx2.ProtocolError(text)


def _reason(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host name is not known"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return "TLS failed"
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        # Not `error.strerror`: asyncio writes the address into it.
        return os.strerror(error.errno).lower()
    return type(error).__name__
