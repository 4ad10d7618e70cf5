"""STUB: an upstream that does exactly what a test scripts, byte by byte, over real sockets.

    async def handler(request, conn):
        conn.head()
        conn.sse({"type": "response.created", ...})
        await conn.held()          # until the other side closes

    async with StubUpstream(handler) as stub:
        ... stub.url ...           # http://127.0.0.1:<port>/v1
        request = await stub.request(0)
        await asyncio.wait_for(request.closed, 0.5)

The handler serves POST; GET /v1/models answers `stub.models` unless `stub.models_handler` is set. After the
handler has returned the connection waits for the next request, unless it was closed. Ready handlers stand below.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from antiphon.upstream.events import Answer

Handler = Callable[["StubRequest", "StubConn"], Awaitable[None]]


@dataclass
class StubRequest:
    """One request as it came in.

    connection: number of the connection, so that a test sees pooling. closed: set to the monotonic time at which
    the other side closed the socket; awaitable. arrived_at: monotonic time.
    """

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    connection: int
    closed: asyncio.Future[float]
    arrived_at: float = field(default_factory=time.monotonic)

    @property
    def body(self) -> Any:
        """The body parsed as JSON, None if there is none."""
        return json.loads(self.raw) if self.raw else None

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")


class StubConn(asyncio.Protocol):
    """The server's side of one connection, in the handler's hands. Writes never block and are never joined."""

    def __init__(self, stub: StubUpstream, number: int) -> None:
        self._stub = stub
        self._number = number
        self._data = bytearray()
        self._needed = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self._requests: asyncio.Queue[StubRequest] = asyncio.Queue()
        self._closed: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set before any handler runs

    # Writing

    def write(self, data: bytes) -> None:
        """Raw bytes, as they are."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def head(
        self,
        status: int = 200,
        content_type: str | None = "text/event-stream",
        *,
        chunked: bool = True,
        **headers: str,
    ) -> None:
        """Status line and headers; underscores in header names become hyphens."""
        lines = [f"HTTP/1.1 {status} Stub"]
        if content_type is not None:
            lines.append(f"content-type: {content_type}")
        if chunked:
            lines.append("transfer-encoding: chunked")
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
        self.write("\r\n".join([*lines, "", ""]).encode())

    def chunk(self, data: bytes) -> None:
        """One HTTP chunk."""
        self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def sse(self, event: dict[str, Any] | bytes, *, named: bool = True) -> None:
        """One event as one chunk, with its `event:` line unless told otherwise."""
        data = event if isinstance(event, bytes) else json.dumps(event, separators=(",", ":")).encode()
        name = json.loads(data).get("type") if named else None
        self.chunk((f"event: {name}\n".encode() if name else b"") + b"data: " + data + b"\n\n")

    def end(self) -> None:
        """The end of a chunked body; the connection stays open."""
        self.write(b"0\r\n\r\n")

    def answer(
        self, status: int, body: bytes | dict[str, Any], content_type: str = "application/json", **headers: str
    ) -> None:
        """A whole answer with Content-Length."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.head(status, content_type, chunked=False, content_length=str(len(data)), **headers)
        self.write(data)

    async def flushed(self) -> None:
        """Wait until the operating system has taken all that was written."""
        await self._drained.wait()

    # Closing

    def fin(self) -> None:
        """Close politely after what was written."""
        self.transport.close()

    def reset(self) -> None:
        """Close with RST; what the other side has not read yet is lost."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    async def held(self) -> None:
        """Wait until the other side has closed."""
        await asyncio.shield(self._closed)

    # The protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast and not an assertion: the transports of uvloop have no asyncio base class.
        self.transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(0)
        self._stub._serving.add(asyncio.get_running_loop().create_task(self._serve()))

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (request := self._take()) is not None:
            self._requests.put_nowait(request)

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def eof_received(self) -> bool:
        self._note_closed()
        return self._stub.ignore_fin

    def connection_lost(self, exc: Exception | None) -> None:
        self._note_closed()
        self._drained.set()
        self.gone.set()

    def _note_closed(self) -> None:
        if not self._closed.done():
            self._closed.set_result(time.monotonic())

    def _take(self) -> StubRequest | None:
        if len(self._data) < self._needed:
            return None
        head, separator, rest = bytes(self._data).partition(b"\r\n\r\n")
        if not separator:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            self._needed = len(head) + 4 + length
            return None
        self._data, self._needed = bytearray(rest[length:]), 0
        method, path, _ = first.split(" ", 2)
        return StubRequest(method, path, headers, rest[:length], self._number, self._closed)

    async def _serve(self) -> None:
        while not self.transport.is_closing():
            request = await self._requests.get()
            await self._stub._dispatch(request, self)


class StubUpstream:
    """The server. handler: what POST does. models: what GET /v1/models lists.

    ignore_fin: keep the socket open after the other side's FIN, as a deaf upstream does.
    requests: every POST so far. model_requests: every GET of the models.
    """

    def __init__(self, handler: Handler | None = None, *, models: Sequence[str] = ("stub-model",)) -> None:
        self.handler: Handler = handler or text()
        self.models_handler: Handler | None = None
        self.models = tuple(models)
        self.ignore_fin = False
        self.requests: list[StubRequest] = []
        self.model_requests: list[StubRequest] = []
        self.failures: list[Exception] = []
        self._connections: list[StubConn] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Condition()

    async def __aenter__(self) -> StubUpstream:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        for connection in self._connections:
            if connection.transport is not None:
                connection.transport.abort()
        await self._server.wait_closed()
        if self.failures and exc[0] is None:
            raise self.failures[0]

    async def request(self, index: int, timeout_s: float = 30) -> StubRequest:
        """The POST number `index`, waiting for it."""
        async with asyncio.timeout(timeout_s), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) > index)
        return self.requests[index]

    def _connection(self) -> StubConn:
        connection = StubConn(self, len(self._connections))
        self._connections.append(connection)
        return connection

    async def _dispatch(self, request: StubRequest, conn: StubConn) -> None:
        if request.method == "GET":
            self.model_requests.append(request)
            handler = self.models_handler or self._list_models
        else:
            handler = self.handler
            async with self._arrived:
                self.requests.append(request)
                self._arrived.notify_all()
        try:
            await handler(request, conn)
        except Exception as error:  # shown by __aexit__, so that a broken handler fails its test
            self.failures.append(error)
            conn.transport.abort()

    async def _list_models(self, request: StubRequest, conn: StubConn) -> None:
        data = [{"id": name, "object": "model", "created": 1, "owned_by": "stub"} for name in self.models]
        conn.answer(200, {"object": "list", "data": data})


# Ready handlers


def events_of_text(deltas: Sequence[str], *, ids: str | None = None) -> list[bytes]:
    """The events of a text answer. ids: the response id, constant over all answers if given."""
    answer = Answer("stub-model", time.time(), ids)
    events = answer.begin()
    for delta in deltas:
        events += answer.text(delta)
    return events + answer.end({"input_tokens": 3, "output_tokens": len(deltas)})


def events_of_calls(*calls: tuple[str, str] | tuple[str, str, str], ids: str | None = None) -> list[bytes]:
    """The events of an answer with calls: (name, arguments) or (name, arguments, call id)."""
    answer = Answer("stub-model", time.time(), ids)
    events = answer.begin()
    for name, arguments, *call_id in calls:
        events += answer.call(name, arguments, *call_id)
    return events + answer.end({"input_tokens": 3, "output_tokens": 5})


def whole(events: Sequence[bytes]) -> dict[str, Any]:
    """The response object of the terminal event: what an answer without streaming is."""
    response: dict[str, Any] = json.loads(events[-1])["response"]
    return response


def play(events: Sequence[bytes], *, rate: float = 0) -> Handler:
    """Stream events, each as a chunk, `rate` of them each second; 0 is all at once."""

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in events:
            conn.sse(event)
            if rate:
                await asyncio.sleep(1 / rate)
            if conn.gone.is_set():
                return
        conn.end()

    return handler


def text(n: int = 3, *, rate: float = 0, ids: str | None = None) -> Handler:
    """A text of n deltas `w0 w1 ...`."""
    return play(events_of_text([f"w{i} " for i in range(n)], ids=ids), rate=rate)


def calls(*each: tuple[str, str] | tuple[str, str, str], ids: str | None = None) -> Handler:
    """Calls of client tools; see `events_of_calls`."""
    return play(events_of_calls(*each, ids=ids))


def answering(
    status: int, body: bytes | dict[str, Any], content_type: str = "application/json", **headers: str
) -> Handler:
    """A whole answer: JSON, an error status, a page of HTML."""

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.answer(status, body, content_type, **headers)

    return handler


def raw_body(data: bytes, content_type: str | None = "text/event-stream", *, step: int = 0) -> Handler:
    """A body with these bytes, in chunks of `step` bytes (0: in one), ended properly."""

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head(200, content_type)
        for start in range(0, len(data), step or len(data) or 1):
            conn.chunk(data[start : start + (step or len(data))])
            if step:
                await conn.flushed()
        conn.end()

    return handler


def hang() -> Handler:
    """Take the request and never answer."""

    async def handler(request: StubRequest, conn: StubConn) -> None:
        await conn.held()

    return handler


def in_turn(*handlers: Handler) -> Handler:
    """The first handler for the first request and so on; the last one for all that follow."""
    left = list(handlers)

    async def handler(request: StubRequest, conn: StubConn) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(request, conn)

    return handler
