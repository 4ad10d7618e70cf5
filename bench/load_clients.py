"""The two load clients: turns over a WebSocket (picows), and over plain SSE straight to the mock upstream.

Both take a ready request, start a turn with `begin()`, count into one shared `Tally`, and either begin the
next turn themselves (`repeat`) or resolve `finished`. More or fewer deltas than asked for is an error.
"""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

import orjson
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

DELTA_MARK = b'output_text.delta"'
ITEM_DONE_MARK = b'output_item.done"'
COMPLETED_MARK = b"response.completed"
FAILURE = re.compile(rb'"type"\s*:\s*"(?:error|response\.failed|response\.incomplete)"')
STAMPED_DELTA = re.compile(rb'"delta"\s*:\s*"(\d{19})')
SAMPLE_BYTES = 400


@dataclass(slots=True)
class Tally:
    """What all clients of one load process counted."""

    events: int = 0
    turns: int = 0
    errors: int = 0
    first_error: str | None = None
    lost_sockets: int = 0
    turn_ns: list[int] = field(default_factory=list)
    first_event_ns: list[int] = field(default_factory=list)
    latency_ns: list[int] = field(default_factory=list)
    latency_from_ns: int = 0
    """Stamps before this wall clock belong to the warm-up and are not counted."""
    stopping: bool = False

    def fail(self, sample: str) -> None:
        """Count an error and keep the first as the example."""
        self.errors += 1
        self.first_error = self.first_error or sample


@dataclass(frozen=True, slots=True)
class Turn:
    """What one turn asks for. urls: of the nodes its clients are spread over; of one server, its only one."""

    urls: tuple[str, ...]
    model: str
    deltas: int
    rate: float = 0.0
    stamps: bool = False
    per_chunk: int = 1
    store: bool = False
    repeat: bool = False

    @property
    def url(self) -> str:
        """Where everything goes that needs no second node."""
        return self.urls[0]

    def body(self) -> dict[str, object]:
        """The create body, the same on both wires."""
        pace = f"rate={self.rate:g} stamps={int(self.stamps)} per_chunk={self.per_chunk}"
        directive = f"[[mock deltas={self.deltas} {pace}]]"
        return {
            "model": self.model,
            "store": self.store,
            "input": [{"type": "message", "role": "user", "content": directive}],
        }


class TurnClient:
    """What both wires share: the life of one turn."""

    def __init__(self, turn: Turn, tally: Tally) -> None:
        self.turn = turn
        self.tally = tally
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.request = b""
        self.began_ns = 0
        self.deltas = 0
        self.waiting_for_first = False

    def begin(self) -> None:
        """Send the request of the next turn."""
        self.deltas = 0
        self.waiting_for_first = True
        self.began_ns = time.perf_counter_ns()
        self.send()

    def send(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def note_first_event(self) -> None:
        self.waiting_for_first = False
        self.tally.first_event_ns.append(time.perf_counter_ns() - self.began_ns)

    def note_stamps(self, data: bytes) -> None:
        now_ns, from_ns = time.time_ns(), self.tally.latency_from_ns
        for found in STAMPED_DELTA.finditer(data):
            stamp_ns = int(found.group(1))
            if stamp_ns >= from_ns:
                self.tally.latency_ns.append(now_ns - stamp_ns)

    def end_turn(self, failure: bytes = b"") -> None:
        """Count the turn, then begin the next or report the end."""
        self.tally.turns += 1
        self.tally.turn_ns.append(time.perf_counter_ns() - self.began_ns)
        if failure:
            self.tally.fail(failure[:SAMPLE_BYTES].decode(errors="replace"))
        elif self.deltas != self.turn.deltas:
            self.tally.fail(f"turn brought {self.deltas} deltas, {self.turn.deltas} were asked for")
        if self.turn.repeat and not self.tally.stopping:
            self.begin()
        else:
            self.resolve()

    def resolve(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)


class WebSocketClient(WSListener, TurnClient):
    """Turns over one WebSocket."""

    def __init__(self, turn: Turn, tally: Tally) -> None:
        TurnClient.__init__(self, turn, tally)
        self.request = orjson.dumps({"type": "response.create", **turn.body()})
        self.transport: WSTransport
        self.closing = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self.closing:
            self.tally.lost_sockets += 1
            self.tally.fail("socket lost")
        self.resolve()

    def send(self) -> None:
        self.transport.send(WSMsgType.TEXT, self.request)

    def close(self) -> None:
        self.closing = True
        self.transport.send_close()
        self.transport.disconnect()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            if frame.msg_type == WSMsgType.CLOSE:
                transport.disconnect()
            return
        payload = frame.get_payload_as_bytes()
        self.tally.events += 1
        if self.waiting_for_first:
            self.note_first_event()
        if DELTA_MARK in payload:
            self.deltas += 1
            if self.turn.stamps:
                self.note_stamps(payload)
        elif COMPLETED_MARK in payload:
            self.end_turn()
        elif FAILURE.search(payload):
            self.end_turn(payload)


class SseClient(asyncio.Protocol, TurnClient):
    """Turns over one keep-alive HTTP connection, read as SSE without looking into the chunks."""

    def __init__(self, turn: Turn, tally: Tally) -> None:
        TurnClient.__init__(self, turn, tally)
        where = urlsplit(turn.url)
        body = orjson.dumps({**turn.body(), "stream": True})
        self.request = (
            b"POST %b HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (where.path.encode(), where.netloc.encode(), len(body), body)
        )
        self.transport: asyncio.Transport
        self.rest = b""
        self.closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closing:
            self.tally.lost_sockets += 1
            self.tally.fail("connection lost")
        self.resolve()

    def send(self) -> None:
        self.transport.write(self.request)

    def close(self) -> None:
        self.closing = True
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        data = self.rest + data
        cut = data.rfind(b"\n\n") + 2
        if cut < 2:
            self.rest = data
            return
        block, self.rest = data[:cut], data[cut:]
        self.tally.events += block.count(b"\ndata:")
        self.deltas += block.count(b'{"type":"response.output_text.delta"')
        if self.waiting_for_first:
            self.note_first_event()
        if self.turn.stamps:
            self.note_stamps(block)
        if b"event: response.completed" in block:
            self.end_turn()


Client = TypeVar("Client", bound=WSListener)


async def open_sockets(make: Callable[[], Client], url: str, count: int, timeout_s: float) -> list[Client]:
    """Open `count` WebSockets, at most 64 at a time."""
    gate = asyncio.Semaphore(64)

    async def open_one() -> Client:
        async with gate:
            _, client = await ws_connect(make, url, websocket_handshake_timeout=timeout_s)
            return client  # type: ignore[return-value]

    return await asyncio.wait_for(asyncio.gather(*(open_one() for _ in range(count))), timeout_s)


async def connect(turn: Turn, tally: Tally, count: int, wire: str, timeout_s: float) -> list[TurnClient]:
    """Open `count` connections for turns, as many to each node."""
    if wire != "sse":
        clients: list[TurnClient] = []
        for number, url in enumerate(turn.urls):
            share = len(range(number, count, len(turn.urls)))
            clients += await open_sockets(lambda: WebSocketClient(turn, tally), url, share, timeout_s)
        return clients
    where, loop = urlsplit(turn.url), asyncio.get_running_loop()
    host, port = where.hostname or "127.0.0.1", where.port
    opened = (loop.create_connection(lambda: SseClient(turn, tally), host, port) for _ in range(count))
    return [client for _, client in await asyncio.wait_for(asyncio.gather(*opened), timeout_s)]
