"""Thousands of clients lose their node in the same moment and come back to the other one, each with its cursor.

Half of the runs they follow are the other node's and go on; half died with theirs and are ended truthfully by the
other. Every client checks the numbers it is shown: one that is missing or comes twice is an error.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import time
from collections.abc import Coroutine

import orjson
from load_adoption import STREAM_DELTAS, Stream
from load_clients import SAMPLE_BYTES, Tally, Turn, open_sockets
from load_follow import HELLO
from load_window import CpuWindow, Result, quantiles_ms
from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect
from process_meter import rss_bytes

RUN_RATE = 1
RETRY_S = 0.1
CONNECT_S = 10
"""Whoever is not let in by then tries again: a full queue of the kernel drops what comes, and its own tries double
their distance each time."""
STAGGER_S = 0.005
SPARE_FILES = 500
EXTENSION_MARK = b'{"type":"antiphon:'
NUMBER = re.compile(rb'"sequence_number":(\d+)')
EPOCH = re.compile(rb'"epoch":"([0-9a-f]+)"')
FORK = re.compile(rb'"fork":(\d+)')
CODE = re.compile(rb'"code":"(\w+)"')
TERMINAL = re.compile(rb'"type":"response\.(?:completed|failed|incomplete)"')


class Herd:
    """What all clients share. home: where they connect now. lost, repeated: numbers. refused: codes, how often."""

    def __init__(self, tally: Tally, home: str) -> None:
        self.tally = tally
        self.home = home
        self.lost = self.repeated = self.forked = self.events = 0
        self.refused: dict[str, int] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.closing = False

    def begin(self, work: Coroutine[None, None, None]) -> None:
        """Let a client do something by itself."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Client(WSListener):
    """A viewer of one run. back: caught up on its connection; over: it was shown the terminal."""

    def __init__(self, herd: Herd, run_id: str) -> None:
        self.herd = herd
        self.run_id = run_id
        self.last = -1
        self.epoch = self.told = b""
        self.transport: WSTransport | None = None
        self.connected_s = self.back_s = self.over_s = 0.0
        self.back = asyncio.Event()
        self.over = asyncio.Event()
        self.grew = asyncio.Event()

    async def connect(self) -> None:
        """Come to the node that is home now; again until it lets us in."""
        while not self.herd.closing:
            try:
                await ws_connect(lambda: self, self.herd.home, websocket_handshake_timeout=CONNECT_S)
                return
            except (OSError, WSError, TimeoutError):
                self._count("connect")
                await asyncio.sleep(RETRY_S * (1 + random.random()))

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        self.connected_s = time.monotonic()
        transport.send(WSMsgType.TEXT, HELLO)
        self.attach()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.back.clear()
        self.transport = None
        if not self.herd.closing and not self.over.is_set():
            self.herd.begin(self.connect())

    def attach(self) -> None:
        if self.transport is None:
            return
        cursor: dict[str, object] = {"after": self.last if self.last >= 0 else "start"}
        if self.epoch:
            cursor["epoch"] = self.epoch.decode()
        frame = {"type": "antiphon:attach", "id": "a", "response_id": self.run_id, **cursor}
        self.transport.send(WSMsgType.TEXT, orjson.dumps(frame))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()
        if frame.msg_type != WSMsgType.TEXT:
            return
        payload = frame.get_payload_as_bytes()
        if not payload.startswith(EXTENSION_MARK):
            self._take(payload)
        elif payload.startswith((b'{"type":"antiphon:run"', b'{"type":"antiphon:attached"')):
            self.told = _first(EPOCH, payload)
            if b'"mode":"ended"' in payload:  # and it has not seen the terminal
                self.herd.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))
        elif payload.startswith(b'{"type":"antiphon:caught_up"'):
            self.back_s = time.monotonic()
            self.back.set()
        elif payload.startswith(b'{"type":"antiphon:detached"') and b'"reason":"ended"' not in payload:
            self.back.clear()
            self.attach()
        elif payload.startswith(b'{"type":"antiphon:error"'):
            self._refused(payload)

    def _refused(self, payload: bytes) -> None:
        self.back.clear()
        code = _first(CODE, payload).decode()
        self._count(code)
        if code == "epoch_changed":
            self.herd.forked += 1
            self.epoch = _first(EPOCH, payload)
            self.last = min(self.last, int(_first(FORK, payload)) - 1)
            self.attach()
        elif b'"retryable":true' in payload or code == "response_not_found":
            asyncio.get_running_loop().call_later(RETRY_S * (1 + random.random()), self.attach)
        else:
            self.herd.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))

    def _take(self, payload: bytes) -> None:
        found = NUMBER.search(payload)
        if found is None:
            return
        number = int(found.group(1))
        self.herd.events += 1
        self.herd.lost += max(0, number - self.last - 1)
        self.herd.repeated += number <= self.last
        self.last = number
        self.epoch = self.told
        self.grew.set()
        if TERMINAL.search(payload):
            self.over_s = time.monotonic()
            self.over.set()

    def _count(self, code: str) -> None:
        self.herd.refused[code] = self.herd.refused.get(code, 0) + 1

    def close(self) -> None:
        if self.transport is not None:
            self.transport.disconnect()


async def run_reconnect(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Kill the first node under all its clients; wait until each is back at the second and has everything."""
    here, there = turn.urls
    own = Tally()
    runs = {url: await _begin_runs(args, turn, own, url) for url in (here, there)}
    ids = [stream.run_id for url in (here, there) for stream in runs[url]]
    dying = {stream.run_id for stream in runs[here]}
    herd = Herd(tally, here)
    clients = [Client(herd, ids[number % len(ids)]) for number in range(args.sockets)]
    began_s = time.monotonic()
    for start in range(0, len(clients), 100):
        await asyncio.gather(*(client.connect() for client in clients[start : start + 100]))
    await _all(tally, "at first", [client.back for client in clients], args.timeout_s)
    connect_s = time.monotonic() - began_s
    # A log that holds nothing but its first events would be gone on with, and no run that died would end.
    await _all_live(tally, clients, args.timeout_s)
    herd.refused.clear()
    for client in clients:
        client.back_s = client.connected_s = 0.0
        client.back.clear()
    herd.home = there
    os.kill(args.server_pid, signal.SIGKILL)
    killed_s = time.monotonic()
    window = CpuWindow(args)
    window.start()
    surviving = [client for client in clients if client.run_id not in dying]
    orphaned = [client for client in clients if client.run_id in dying]
    goals = [client.back for client in surviving] + [client.over for client in orphaned]
    await _all(tally, "after the end of its node", goals, args.timeout_s)
    window.stop()
    await _all_live(tally, surviving, args.timeout_s)
    memory_mb = rss_bytes(args.follower_pid) / 1e6 if args.follower_pid else None
    _end(herd, clients)
    if herd.lost or herd.repeated:
        tally.fail(f"{herd.lost} events lost, {herd.repeated} repeated")
    if own.errors > len(dying):  # the sockets of those that died
        tally.fail(str(own.first_error))
    return {
        "clients": len(clients),
        "runs": len(ids),
        "first_connect_s": connect_s,
        "connected_ms": _after(surviving, "connected_s", killed_s),
        "going_on_ms": _after(surviving, "back_s", killed_s),
        "ended_ms": _after(orphaned, "over_s", killed_s),
        "back_s": max((max(client.over_s, client.back_s) for client in clients), default=killed_s) - killed_s,
        "lost": herd.lost,
        "repeated": herd.repeated,
        "forked": herd.forked,
        "refused": herd.refused,
        "events": herd.events,
        "node_rss_mb": memory_mb,
        **{f"{name}_cores": spent / window.wall_s for name, spent in window.spent_s.items()},
    }


async def _begin_runs(args: argparse.Namespace, turn: Turn, tally: Tally, url: str) -> list[Stream]:
    """Half of the runs, begun spread over a second, so that their events are too."""
    speaking = Turn((url,), turn.model, STREAM_DELTAS, rate=RUN_RATE, store=True)
    streams = await open_sockets(lambda: Stream(speaking, tally), url, args.streams // 2, args.timeout_s)
    for stream in streams:
        stream.begin()
        await asyncio.sleep(STAGGER_S)
    await asyncio.wait_for(asyncio.gather(*(stream.begun.wait() for stream in streams)), args.timeout_s)
    return streams


async def _all_live(tally: Tally, clients: list[Client], timeout_s: float) -> None:
    """Each is shown one more event."""
    for client in clients:
        client.grew.clear()
    await _all(tally, "with live events", [client.grew for client in clients], timeout_s)


def _end(herd: Herd, clients: list[Client]) -> None:
    herd.closing = True
    for task in list(herd.tasks):
        task.cancel()
    for client in clients:
        client.close()


async def _all(tally: Tally, when: str, events: list[asyncio.Event], timeout_s: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    _, late = await asyncio.wait(waits, timeout=timeout_s)
    for wait in late:
        wait.cancel()
    if late:
        tally.fail(f"{len(late)} clients were not back {when} within {timeout_s:g} s")


def _after(clients: list[Client], name: str, from_s: float) -> dict[str, float | None]:
    return quantiles_ms(
        [round((at - from_s) * 1e9) for client in clients if (at := getattr(client, name)) > from_s]
    )


def _first(pattern: re.Pattern[bytes], payload: bytes) -> bytes:
    found = pattern.search(payload)
    return found.group(1) if found else b""


def clients_for(wanted: int, files: int) -> int:
    """How many clients the limit of open files allows, in the client and in each node."""
    return min(wanted, files - SPARE_FILES)
