"""MCP over streamable HTTP, with what its client leaves open closed: where it connects, how much it reads.

A fault of the network is given to the session as the answer to the one request it hit; the session lives on.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx2
import orjson
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from antiphon.errors import ToolError
from antiphon.tools.addresses import AddressGuard
from antiphon.tools.credentials import Credentials

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams as Streams

_CONNECT_S = 10.0
_READ_S = 300.0
_REFUSALS = {401, 403, 429} | set(range(500, 600))
"""Statuses that the session would report without their number."""


class _AnswerFault(httpx2.StreamError):
    """The kind of error that the session takes as the end of one answer, not of itself."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class _BoundedStream(httpx2.AsyncByteStream):
    """An answer's body, up to a limit."""

    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if size > self._max_bytes:
                    raise _AnswerFault(f"it is larger than {self._max_bytes} bytes")
                yield chunk
        except httpx2.TransportError as error:
            raise _AnswerFault("it broke off") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


class GuardedTransport(httpx2.AsyncBaseTransport):
    """guard: of a server that a request named; None for a configured one, which may be anywhere."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, max_bytes: int, guard: AddressGuard | None) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._guard = guard

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Never raises for the network: the answer then is a JSON-RPC error."""
        try:
            response = await self._send(request)
        except ToolError as error:
            return _fault(error.message)
        except httpx2.TimeoutException:
            return _fault("it did not answer in time")
        except httpx2.TransportError as error:
            return _fault(f"it could not be reached ({type(error).__name__})")
        kind = response.headers.get("content-type", "").lower()
        encoding = response.headers.get("content-encoding", "identity")
        refused = response.status_code in _REFUSALS and not kind.startswith("application/json")
        if refused or encoding != "identity":
            await response.aclose()
            return _fault(
                f"it answered HTTP {response.status_code}" if refused else "it compressed its answer unasked"
            )
        if not kind.startswith("text/event-stream") and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, self._max_bytes)
        return response

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        # Compressed answers could grow a thousandfold after they were counted.
        request.headers["accept-encoding"] = "identity"
        guard = self._guard
        if guard is None:
            return await self._inner.handle_async_request(request)
        url = request.url
        if (url.host, url.port or _default_port(url)) != (guard.host, guard.port):
            raise ToolError("it leads to another host")
        failure: httpx2.TransportError = httpx2.ConnectError("no address")
        for address in await guard.addresses():
            # The address stands in the URL, so that nothing resolves the name again; TLS still checks the name.
            pinned = httpx2.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": guard.host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()


def _default_port(url: httpx2.URL) -> int:
    return 443 if url.scheme == "https" else 80


def _fault(reason: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": reason}}
    return httpx2.Response(502, headers={"content-type": "application/json"}, content=orjson.dumps(error))


class HttpEndpoint:
    """Where an MCP server is found. tls: for tests with certificates of their own."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        max_bytes: int,
        guard: AddressGuard | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._max_bytes = max_bytes
        self._guard = guard
        self._tls = tls

    @asynccontextmanager
    async def connect(self, ended: Callable[[], None]) -> AsyncGenerator[Streams]:
        """Streams of a new session. `ended` is not needed: a session over HTTP has no connection to lose."""
        # With a transport of its own the client asks no proxy, which would resolve the name itself.
        inner = httpx2.AsyncHTTPTransport(verify=self._tls or True, trust_env=False)
        async with (
            httpx2.AsyncClient(
                transport=GuardedTransport(inner, self._max_bytes, self._guard),
                headers=self._credentials.headers(),
                timeout=httpx2.Timeout(_READ_S, connect=_CONNECT_S),
            ) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=self._max_bytes) as streams,
        ):
            yield streams
