"""One HTTP/1.1 connection: sends a request, gives its answer as it comes; httptools parses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import httptools
import httpx2

from antiphon.upstream.http1.reasons import reason
from antiphon.upstream.http1.wakeup import Wakeup

READ_BUFFER_BYTES = 512 * 1024
"""Beyond this reading pauses: a fast upstream is slowed by TCP when nobody takes its events."""

_JOINED_BYTES = 16 * 1024
"""A shorter body is copied behind its head: one buffer costs less than two. A longer one is not."""

_HEAD_BYTES = 256 * 1024
"""The longest head of an answer, with everything that may come before it."""

_FIRST_READ_S = 0.05
"""A head that came at the last moment leaves its body at least this long to begin."""


class HttpAnswer(httpx2.AsyncByteStream):
    """The answer to one request, and its body as a stream: each read gives everything that has arrived.

    Closing it before its end drops the connection, after it returns it to the pool. status, headers: there once
    `head` has returned. first_byte_s: longest time from the request to the first byte of the body. idle_s: longest
    silence after it, while somebody waits. One coarse timer watches both, since moving a timer with each read
    would cost a tenth of the whole read.
    """

    def __init__(self, connection: HttpConnection, first_byte_s: float, idle_s: float) -> None:
        self.status = 0
        self.ended = False
        """Whether all of it has arrived."""
        self.head_at: float | None = None
        """Time of the loop at which its head was there."""
        self.headers: list[tuple[bytes, bytes]] = []
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._chunks: list[bytes] = []
        self._bytes = 0
        self._error: httpx2.TransportError | None = None
        self._wakeup = Wakeup(self._loop)
        self._is_begun = False
        self._first_byte_s, self._idle_s = first_byte_s, idle_s
        self._asked_at = self._loop.time()
        self._waiting_since: float | None = None
        self._watch = self._loop.call_later(first_byte_s, self._check)

    def header(self, name: bytes) -> str:
        """The value of a header, empty if there is none. name: in lower case."""
        for given, value in self.headers:
            if given.lower() == name:
                return value.decode("latin-1")
        return ""

    async def head(self) -> None:
        """Wait for the head. Raises httpx2.TransportError."""
        while self.head_at is None:
            if self._error is not None:
                raise self._error
            await self._wait()

    def __aiter__(self) -> HttpAnswer:
        return self

    async def __anext__(self) -> bytes:
        """All bytes that are there, waiting for the first. Raises httpx2.TransportError."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self.ended:
                raise StopAsyncIteration
            await self._wait()
        chunks, self._chunks, self._bytes = self._chunks, [], 0
        if self._connection.is_paused:
            self._connection.take_more()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def aclose(self) -> None:
        """Give the connection back, or drop it at once without waiting for unsent bytes."""
        self._watch.cancel()
        self._connection.done(self)
        if not self.ended and self._error is None:
            self.fail(httpx2.ReadError("closed"))

    # What the connection tells

    def on_head(self, status: int) -> None:
        self.status = status
        self.head_at = self._loop.time()

    def on_body(self, data: bytes) -> bool:
        """More of the body; whether that is more than is good for the memory."""
        self._chunks.append(data)
        self._bytes += len(data)
        if not self._is_begun:
            self._is_begun = True
            self._watch.cancel()
            self._watch = self._loop.call_later(self._idle_s, self._check)
        return self._bytes > READ_BUFFER_BYTES

    def on_end(self) -> None:
        self.ended = True
        self._watch.cancel()

    def fail(self, error: httpx2.TransportError) -> None:
        """Nothing more comes; what is there may still be read."""
        if self._error is None and not self.ended:
            self._error = error
            self._watch.cancel()
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._wakeup.set()

    async def _wait(self) -> None:
        self._waiting_since = self._loop.time()
        try:
            await self._wakeup
        finally:
            self._waiting_since = None

    def _check(self) -> None:
        now = self._loop.time()
        if self._is_begun:
            due = (now if self._waiting_since is None else self._waiting_since) + self._idle_s
        else:
            due = self._asked_at + self._first_byte_s
            if self.head_at is not None:
                due = max(due, self.head_at + _FIRST_READ_S)
        if now >= due:
            self.fail(httpx2.ReadTimeout("nothing came"))
        else:
            self._watch = self._loop.call_at(due, self._check)


class HttpConnection(asyncio.Protocol):
    """Carries one request after another.

    on_free: it has carried one to its end and can carry another. on_lost: it is gone. is_reused: it has carried
    one before. free_since: time of the loop.
    """

    def __init__(
        self,
        on_free: Callable[[HttpConnection], None],
        on_lost: Callable[[HttpConnection], None] = lambda connection: None,
    ) -> None:
        self._on_free = on_free
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._answer: HttpAnswer | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._is_final = False
        self._keeps_alive = True
        self.transport: asyncio.Transport
        self.is_paused = False
        self.is_reused = False
        self.free_since = 0.0

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self._keeps_alive and self._answer is None and not self.transport.is_closing()

    def send(self, head: bytes, body: bytes, first_byte_s: float, idle_s: float) -> HttpAnswer:
        """Send a request; gives what will be its answer."""
        answer = self._answer = HttpAnswer(self, first_byte_s, idle_s)
        self._headers, self._head_bytes, self._is_final = answer.headers, 0, False
        if len(body) < _JOINED_BYTES:
            self.transport.write(head + body)
        else:
            self.transport.writelines((head, body))
        return answer

    def done(self, answer: HttpAnswer) -> None:
        """Nobody reads this answer any more."""
        if self._answer is not answer:
            return
        self._answer = None
        if answer.ended and self._keeps_alive and not self.transport.is_closing():
            self.take_more()
            self.is_reused = True
            self._on_free(self)
        else:
            self.drop()

    def drop(self) -> None:
        """Close at once; what is unsent is not waited for."""
        self._keeps_alive = False
        self.transport.abort()

    def take_more(self) -> None:
        """What had arrived was taken."""
        if self.is_paused and not self.transport.is_closing():
            self.is_paused = False
            self.transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.ended:
            self.drop()  # nobody asked for this
            return
        if answer.head_at is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._broken(answer, "it changed the protocol")
        except httptools.HttpParserError:
            self._broken(answer, "it sent what is no HTTP")
        else:
            if answer.head_at is None and self._head_bytes > _HEAD_BYTES:
                self._broken(answer, "the head of its answer is too long")
        answer.wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeps_alive = False
        self._on_lost(self)
        answer = self._answer
        if answer is None:
            return
        if exc is None and self._lasts_to_the_end():
            answer.on_end()
            answer.wake()
        else:
            answer.fail(httpx2.ReadError("the connection was closed" if exc is None else reason(exc)))

    # httptools

    def on_message_begin(self) -> None:
        if self._answer is None or self._answer.ended:
            self._headers, self._keeps_alive = [], False  # nobody asked for another answer

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()  # an interim answer: the real one follows
            return
        self._is_final = True
        if self._answer is not None and not self._answer.ended:
            self._answer.on_head(status)

    def on_body(self, body: bytes) -> None:
        answer = self._answer
        if answer is not None and not answer.ended and answer.on_body(body) and not self.is_paused:
            self.is_paused = True
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        answer = self._answer
        if self._is_final and answer is not None and not answer.ended:
            self._keeps_alive = self._parser.should_keep_alive()
            answer.on_end()

    def _lasts_to_the_end(self) -> bool:
        """Whether the body of this answer is over where the connection is: nothing says how long it is."""
        names = {name.lower() for name, _ in self._headers}
        return self._is_final and b"content-length" not in names and b"transfer-encoding" not in names

    def _broken(self, answer: HttpAnswer, why: str) -> None:
        kind = httpx2.ReadError if answer.head_at is not None else httpx2.RemoteProtocolError
        answer.fail(kind(why))
        self.drop()
