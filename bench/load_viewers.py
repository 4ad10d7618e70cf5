"""Many who watch: one run on many sockets, one feed on many dashboards, and viewers that never read."""

import argparse
import asyncio
import re
import socket
import statistics
import time
from typing import NamedTuple

import orjson
from load_clients import DELTA_MARK, SAMPLE_BYTES, STAMPED_DELTA, Tally, Turn, WebSocketClient, open_sockets
from load_follow import HELLO, RUN_ID
from load_held import Socket
from load_window import CpuWindow, Result, quantiles_ms, raise_priority
from picows import WSFrame, WSMsgType, WSTransport, ws_connect
from process_meter import cpu_s

READY = re.compile(rb'"type":"antiphon:(?:attached|feed\.bookmark)"')
FEED_DELTA_MARK = b'{"type":"antiphon:feed.delta"'
TOLD_AT = re.compile(rb'"at":(\d+\.\d+)')
SMALL_BUFFER_BYTES = 8192
FILLED_AFTER = 0.5
"""The first part of a watched run is not counted: in it the buffers of those who never read are filled."""
PAIRS = 7


class Watcher(Socket):
    """Says hello, asks for one thing and counts what it is shown. ready: it is shown everything from now on."""

    def __init__(self, tally: Tally, wish: dict[str, object]) -> None:
        super().__init__(tally)
        self.wish = wish
        self.ready = asyncio.Event()
        self.frames = 0
        self.latency_ns: list[int] = []

    def on_ws_connected(self, transport: WSTransport) -> None:
        super().on_ws_connected(transport)
        transport.send(WSMsgType.TEXT, HELLO)
        self.send({"id": "wish", **self.wish})

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()
        elif frame.msg_type == WSMsgType.TEXT:
            self.read(frame.get_payload_as_bytes())

    def read(self, payload: bytes) -> None:
        if (told_ns := self.told_ns(payload)) is not None:
            self.frames += 1
            self.latency_ns.append(time.time_ns() - told_ns)
        elif READY.search(payload):
            self.ready.set()
        elif payload.startswith(b'{"type":"antiphon:error"'):
            self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))

    def told_ns(self, payload: bytes) -> int | None:
        """When what this frame tells of happened, of a frame that is counted."""
        raise NotImplementedError


class Viewer(Watcher):
    """Follows one run."""

    def told_ns(self, payload: bytes) -> int | None:
        stamp = STAMPED_DELTA.search(payload) if DELTA_MARK in payload else None
        return int(stamp.group(1)) if stamp else None


class Dashboard(Watcher):
    """Follows the feed."""

    def told_ns(self, payload: bytes) -> int | None:
        if not payload.startswith(FEED_DELTA_MARK):
            return None
        return round(float(TOLD_AT.findall(payload)[-1]) * 1e9)


class Clocks(NamedTuple):
    """Of the wall, and of the CPU the server used, in seconds."""

    wall_s: float
    cpu_s: float

    @staticmethod
    def now(server_pid: int | None) -> "Clocks":
        return Clocks(time.perf_counter(), cpu_s(server_pid) if server_pid else 0.0)


class Creator(WebSocketClient):
    """One turn whose run is known at once. half, end: clocks of when half of its deltas and its end were here."""

    def __init__(self, turn: Turn, tally: Tally, server_pid: int | None = None) -> None:
        super().__init__(turn, tally)
        self.run_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.server_pid = server_pid
        self.half: Clocks | None = None
        self.end = Clocks(0.0, 0.0)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if not self.run_id.done() and frame.msg_type == WSMsgType.TEXT:
            created = RUN_ID.search(frame.get_payload_as_bytes())
            if created:
                self.run_id.set_result(created.group(1).decode())
        super().on_ws_frame(transport, frame)
        if self.half is None and self.deltas >= self.turn.deltas * FILLED_AFTER:
            self.half = Clocks.now(self.server_pid)

    def end_turn(self, failure: bytes = b"") -> None:
        self.end = Clocks.now(self.server_pid)
        super().end_turn(failure)


async def _measure(args: argparse.Namespace, watchers: list[Watcher]) -> Result:
    """What all watchers together are shown in the measured time, and what that costs."""
    await asyncio.sleep(args.warm_up_s)
    for watcher in watchers:
        watcher.latency_ns.clear()
    frames = sum(watcher.frames for watcher in watchers)
    window = CpuWindow(args)
    window.start()
    await asyncio.sleep(args.seconds)
    frames = sum(watcher.frames for watcher in watchers) - frames
    window.stop()
    latency_ns = [value for watcher in watchers for value in watcher.latency_ns]
    shown = [watcher.frames for watcher in watchers]
    return {**window.result(frames, 0), "delivery_ms": quantiles_ms(latency_ns), "spread": max(shown) - min(shown)}


async def run_viewers(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """One run, paced, whose every event goes to all sockets."""
    (creator,) = await open_sockets(lambda: Creator(turn, tally), turn.url, 1, args.timeout_s)
    creator.begin()
    wish = {"type": "antiphon:attach", "response_id": await asyncio.wait_for(creator.run_id, args.timeout_s)}
    viewers = await open_sockets(lambda: Viewer(tally, wish), turn.url, args.sockets, args.timeout_s)
    await asyncio.wait_for(asyncio.gather(*(viewer.ready.wait() for viewer in viewers)), args.timeout_s)
    priority = raise_priority()
    result = await _measure(args, list(viewers))
    await asyncio.wait_for(creator.finished, args.timeout_s)
    for client in (creator, *viewers):
        client.close()
    return {**result, "client_priority": priority}


async def run_dashboards(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """One feed on all sockets, while `--rate` runs a second begin and end."""
    wish: dict[str, object] = {"type": "antiphon:feed.subscribe"}
    boards = await open_sockets(lambda: Dashboard(tally, wish), turn.url, args.sockets, args.timeout_s)
    await asyncio.wait_for(asyncio.gather(*(board.ready.wait() for board in boards)), args.timeout_s)
    (creator,) = await open_sockets(lambda: WebSocketClient(turn, tally), turn.url, 1, args.timeout_s)
    creating = asyncio.get_running_loop().create_task(_create(creator, args.rate))
    priority = raise_priority()
    result = await _measure(args, list(boards))
    creating.cancel()
    await asyncio.wait([creating])
    for client in (creator, *boards):
        client.close()
    return {**result, "client_priority": priority}


async def _create(creator: WebSocketClient, rate: float) -> None:
    """Begin turns at a rate, each once the one before has ended."""
    while True:
        began_s = time.perf_counter()
        creator.finished = asyncio.get_running_loop().create_future()
        creator.begin()
        await creator.finished
        await asyncio.sleep(max(0.0, 1 / rate - (time.perf_counter() - began_s)))


async def run_stalled(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """The same run in turns with nobody else and with viewers that attach and never read a byte.

    How much longer it takes is read from the CPU of the server: that is what a run waits for, and others do not
    disturb it.
    """
    alone: list[Clocks] = []
    watched: list[Clocks] = []
    for _ in range(PAIRS):
        alone.append(await _second_half(args, turn, tally, 0))
        watched.append(await _second_half(args, turn, tally, args.sockets))
    return {
        "alone_s": statistics.median(half.wall_s for half in alone),
        "watched_s": statistics.median(half.wall_s for half in watched),
        "slowed_percent": _more_percent([half.cpu_s for half in alone], [half.cpu_s for half in watched]),
        "later_percent": _more_percent([half.wall_s for half in alone], [half.wall_s for half in watched]),
        "alone_cpu_s": [round(half.cpu_s, 4) for half in alone],
        "watched_cpu_s": [round(half.cpu_s, 4) for half in watched],
    }


def _more_percent(before: list[float], after: list[float]) -> float:
    return 100 * (statistics.median(after) / statistics.median(before) - 1)


async def _second_half(args: argparse.Namespace, turn: Turn, tally: Tally, stalled: int) -> Clocks:
    """How long the second half of a run takes, and what it costs the server."""
    viewers = [await _stalled_viewer(turn.url, args.timeout_s) for _ in range(stalled)]
    (creator,) = await open_sockets(lambda: Creator(turn, tally, args.server_pid), turn.url, 1, args.timeout_s)
    creator.begin()
    run_id = await asyncio.wait_for(creator.run_id, args.timeout_s)
    for viewer in viewers:
        attach = {"type": "antiphon:attach", "id": "wish", "response_id": run_id}
        viewer.send(WSMsgType.TEXT, orjson.dumps(attach))
    await asyncio.wait_for(creator.finished, args.timeout_s)
    creator.close()
    for viewer in viewers:
        viewer.disconnect()
    half = creator.half or Clocks(0.0, 0.0)
    return Clocks(creator.end.wall_s - half.wall_s, creator.end.cpu_s - half.cpu_s)


async def _stalled_viewer(url: str, timeout_s: float) -> WSTransport:
    """A socket with small buffers that says hello and reads nothing from then on."""

    def small(_: object) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER_BYTES)
        made.setblocking(False)
        return made

    transport, _ = await ws_connect(
        Silent, url, websocket_handshake_timeout=timeout_s, socket_factory=small, use_aiofastnet=False
    )
    transport.underlying_transport.pause_reading()
    transport.send(WSMsgType.TEXT, HELLO)
    return transport


class Silent(Socket):
    """Whatever happens to it is no error."""

    def __init__(self) -> None:
        super().__init__(Tally())

    def read(self, payload: bytes) -> None:
        return
