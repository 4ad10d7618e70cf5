"""A transport of httpx2, its mock among them, in the place of the network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self, cast

import httpx2

from antiphon.upstream.transport import HttpRequest


class ThroughHttpx:
    """Implements `Transport`."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def ask(self, request: HttpRequest) -> _Answer:
        lines = [line.split(b": ", 1) for line in request.lines.split(b"\r\n") if line]
        headers = [(name, value) for name, value in lines]
        sent = httpx2.Request(request.method.decode(), request.url, headers=headers, content=request.body or None)
        return _Answer(await self._transport.handle_async_request(sent))

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Answer:
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._chunks = aiter(cast(AsyncIterator[bytes], response.stream))
        self.status = response.status_code
        self.headers = response.headers.raw
        self.ended = False

    def header(self, name: bytes) -> str:
        return str(self._response.headers.get(name.decode(), ""))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            self.ended = True
            raise

    async def aclose(self) -> None:
        await self._response.aclose()
