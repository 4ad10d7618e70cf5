"""Streams made on one node and followed on another: what that adds in time, and what it costs."""

import argparse
import asyncio
import re
import time

import orjson
from load_clients import (
    DELTA_MARK,
    FAILURE,
    SAMPLE_BYTES,
    STAMPED_DELTA,
    Tally,
    Turn,
    WebSocketClient,
    open_sockets,
)
from load_window import CpuWindow, Result, quantiles_ms, raise_priority
from picows import WSFrame, WSListener, WSMsgType, WSTransport

RUN_ID = re.compile(rb'"id":"(resp_[0-9a-f]+)"')
HELLO = orjson.dumps(
    {"type": "antiphon:hello", "id": "hello", "protocol": 1, "client": {"name": "bench", "version": "0"}}
)
EXTENSION_MARK = b'{"type":"antiphon:'
DETACHED_MARK = b'{"type":"antiphon:detached"'
REFUSED_MARK = b'{"type":"antiphon:error"'


class Follower(WSListener):
    """A client of the second node that attaches to one run after another.

    events, deltas: what it was shown. open: attachments that have not ended. arrived_ns: when each stamp came.
    """

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.transport: WSTransport
        self.events = self.deltas = self.asked = self.open = 0
        self.arrived_ns: dict[int, int] = {}
        self.idle = asyncio.Event()
        self.idle.set()
        self.closing = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        transport.send(WSMsgType.TEXT, HELLO)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self.closing:
            self.tally.lost_sockets += 1
            self.tally.fail("follower's socket lost")
        self.idle.set()

    def follow(self, run_id: str) -> None:
        """Attach to a run from its first event on."""
        self.asked += 1
        self.open += 1
        self.idle.clear()
        frame = {"type": "antiphon:attach", "id": str(self.asked), "response_id": run_id, "after": "start"}
        self.transport.send(WSMsgType.TEXT, orjson.dumps(frame))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            return
        payload = frame.get_payload_as_bytes()
        if not payload.startswith(EXTENSION_MARK):
            self._take(payload)
        elif payload.startswith(DETACHED_MARK):
            if b'"reason":"ended"' not in payload:
                self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))
            self._end()
        elif payload.startswith(REFUSED_MARK):
            self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))
            self._end()

    def _take(self, payload: bytes) -> None:
        self.events += 1
        if DELTA_MARK in payload:
            self.deltas += 1
            if stamp := STAMPED_DELTA.search(payload):
                self.arrived_ns[int(stamp.group(1))] = time.time_ns()
        elif FAILURE.search(payload):
            self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))

    def _end(self) -> None:
        self.open -= 1
        if self.open == 0:
            self.idle.set()

    def close(self) -> None:
        self.closing = True
        self.transport.send_close()
        self.transport.disconnect()


class Leader(WebSocketClient):
    """A client of the first node whose turns its follower attaches to."""

    def __init__(self, turn: Turn, tally: Tally, follower: Follower) -> None:
        super().__init__(turn, tally)
        self.follower = follower
        self.arrived_ns: dict[int, int] = {}

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if self.waiting_for_first and frame.msg_type == WSMsgType.TEXT:
            created = RUN_ID.search(frame.get_payload_as_bytes())
            if created:
                self.follower.follow(created.group(1).decode())
        super().on_ws_frame(transport, frame)

    def note_stamps(self, data: bytes) -> None:
        now_ns = time.time_ns()
        for stamp in STAMPED_DELTA.finditer(data):
            self.arrived_ns[int(stamp.group(1))] = now_ns


async def run_follow(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Turns on the first node, each followed on the second: paced ones once, others one after another."""
    here, there = turn.urls
    followers = await open_sockets(lambda: Follower(tally), there, args.sockets, args.timeout_s)
    waiting = iter(followers)
    leaders = await open_sockets(lambda: Leader(turn, tally, next(waiting)), here, args.sockets, args.timeout_s)
    priority = raise_priority() if turn.rate else "normal"
    from_ns = time.time_ns() + round(args.warm_up_s * 1e9)
    for leader in leaders:
        leader.begin()
        await asyncio.sleep(1 / turn.rate / args.sockets if turn.rate else 0)
    await asyncio.sleep(max(0.0, (from_ns - time.time_ns()) / 1e9))
    window = CpuWindow(args)
    window.start()
    events, turns, followed = tally.events, tally.turns, sum(follower.events for follower in followers)
    await asyncio.sleep(max(0.5, args.seconds - 0.5) if turn.rate else args.seconds)
    events, turns = tally.events - events, tally.turns - turns
    followed = sum(follower.events for follower in followers) - followed
    window.stop()
    tally.stopping = True
    await _wait_for_end(leaders, followers, tally, args.timeout_s)
    for client in (*leaders, *followers):
        client.close()
    follower_us = window.spent_s["follower"] * 1e6 if "follower" in window.spent_s else None
    return {
        **window.result(events, turns),
        "client_priority": priority,
        "followed_per_s": followed / window.wall_s,
        "follower_us_per_event": follower_us / followed if follower_us is not None and followed else None,
        **_latencies(leaders, from_ns),
    }


async def _wait_for_end(leaders: list[Leader], followers: list[Follower], tally: Tally, timeout_s: float) -> None:
    """Both see the ends of their turns; a follower that was shown less than everything is an error."""
    waits = [leader.finished for leader in leaders]
    waits += [asyncio.ensure_future(follower.idle.wait()) for follower in followers]
    _, late = await asyncio.wait(waits, timeout=timeout_s)
    for wait in late:
        wait.cancel()
        tally.fail(f"turn not finished within {timeout_s:g} s")
    for follower in followers:
        wanted = follower.asked * leaders[0].turn.deltas
        if follower.deltas != wanted:
            tally.fail(f"a follower was shown {follower.deltas} deltas of {wanted}")


def _latencies(leaders: list[Leader], from_ns: int) -> Result:
    """Quantiles of the stamps of the measured time: on the first node, on the second, and what that one adds."""
    here_ns: list[int] = []
    there_ns: list[int] = []
    added_ns: list[int] = []
    for leader in leaders:
        for stamp, here in leader.arrived_ns.items():
            there = leader.follower.arrived_ns.get(stamp)
            if stamp >= from_ns and there is not None:
                here_ns.append(here - stamp)
                there_ns.append(there - stamp)
                added_ns.append(there - here)
    return {
        "samples": len(added_ns),
        "here_ms": quantiles_ms(here_ns),
        "there_ms": quantiles_ms(there_ns),
        "added_ms": quantiles_ms(added_ns),
    }
