"""A node is killed with runs on it: how long after the end of its lease each is taken care of by the other.

What waits for a tool goes on waiting at the other node, in a new epoch, and every answer is taken there; what the
model was speaking ends truthfully (`server_lost`). A client of the other node was attached to all of them before.
"""

import argparse
import asyncio
import os
import re
import signal
import time

import redis
from load_clients import SAMPLE_BYTES, Tally, Turn, WebSocketClient, open_sockets
from load_follow import HELLO, RUN_ID
from load_held import SETTLE_S, HeldRun, Socket
from load_window import Result, quantiles_ms
from picows import WSFrame, WSMsgType, WSTransport

STREAM_RATE = 20
STREAM_DELTAS = 100_000
ATTACHMENTS = 200
"""On one socket of the watcher; a connection can hold 256."""
LANE = re.compile(rb'"stream_id":"(resp_[0-9a-f]+)"')
STATE_OF = re.compile(rb'"response_id":"(resp_[0-9a-f]+)"')
EPOCH = re.compile(rb'"epoch":"([0-9a-f]+)"')
CALL_ID = re.compile(rb'"call_id":"([^"]+)"')
TERMINAL = re.compile(rb'"type":"response\.(completed|failed|incomplete)"')


class Stream(WebSocketClient):
    """A run that the model is speaking, until its node dies. begun: its id is known."""

    def __init__(self, turn: Turn, tally: Tally) -> None:
        super().__init__(turn, tally)
        self.run_id = ""
        self.begun = asyncio.Event()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if self.waiting_for_first and frame.msg_type == WSMsgType.TEXT:
            created = RUN_ID.search(frame.get_payload_as_bytes())
            if created:
                self.run_id = created.group(1).decode()
                self.begun.set()
        super().on_ws_frame(transport, frame)


class Watched:
    """What the other node said about one run.

    sign_s: when it showed, after the end of the lease, that it has it. answered_s: when the run went on after its
    answer.
    """

    def __init__(self, run_id: str, call_id: str = "") -> None:
        self.run_id = run_id
        self.call_id = call_id
        self.epoch = b""
        self.caught_up = asyncio.Event()
        self.sign_s = self.answered_s = 0.0
        self.taken = asyncio.Event()
        self.answered = asyncio.Event()
        self.terminal = b""


class Watcher(Socket):
    """A client of the other node, attached to many runs, each on a lane with the run's name."""

    def __init__(self, tally: Tally, runs: list[Watched]) -> None:
        super().__init__(tally)
        self.runs = {run.run_id.encode(): run for run in runs}
        self.lease_over_s = float("inf")

    def on_ws_connected(self, transport: WSTransport) -> None:
        super().on_ws_connected(transport)
        transport.send(WSMsgType.TEXT, HELLO)
        for run in self.runs.values():
            self.send(
                {
                    "type": "antiphon:attach",
                    "id": run.run_id,
                    "response_id": run.run_id,
                    "stream_id": run.run_id,
                    "after": "start",
                }
            )

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        # Not as the base has it: here runs may fail, that is what is looked for.
        if frame.msg_type == WSMsgType.TEXT:
            self.read(frame.get_payload_as_bytes())

    def answer(self, run: Watched) -> None:
        item = {"type": "function_call_output", "call_id": run.call_id, "output": "seen"}
        self.send({"type": "response.inject", "response_id": run.run_id, "input": [item]})

    def read(self, payload: bytes) -> None:
        now_s = time.monotonic()
        found = (STATE_OF if payload.startswith(b'{"type":"antiphon:') else LANE).search(payload)
        run = self.runs.get(found.group(1)) if found else None
        if payload.startswith((b'{"type":"antiphon:error"', b'{"type":"response.inject.failed"')):
            self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))
        elif run is None:
            return
        elif payload.startswith(b'{"type":"antiphon:caught_up"'):
            run.caught_up.set()
        elif payload.startswith((b'{"type":"antiphon:run"', b'{"type":"antiphon:attached"')):
            self._note_epoch(run, payload, now_s)
        elif not payload.startswith(b'{"type":"antiphon:'):
            self._note_event(run, payload, now_s)

    def _note_epoch(self, run: Watched, payload: bytes, now_s: float) -> None:
        epoch = EPOCH.search(payload)
        if epoch and run.epoch and epoch.group(1) != run.epoch:
            self._note_sign(run, now_s)
        if epoch:
            run.epoch = epoch.group(1)

    def _note_event(self, run: Watched, payload: bytes, now_s: float) -> None:
        if now_s >= self.lease_over_s:
            self._note_sign(run, now_s)
        if TERMINAL.search(payload):
            run.terminal = payload
        if run.taken.is_set() and b'output_item.done"' in payload and CALL_ID.search(payload):
            run.answered_s = now_s
            run.answered.set()

    def _note_sign(self, run: Watched, now_s: float) -> None:
        if not run.taken.is_set():
            run.sign_s = now_s
            run.taken.set()


async def run_adoption(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Kill the first node, then wait for a sign of each of its runs at the second, then answer those that wait."""
    here, there = turn.urls
    own = Tally()  # their sockets will be lost
    held = await _wait_for_calls(args, turn, own, here)
    speaking = Turn((here,), turn.model, STREAM_DELTAS, rate=STREAM_RATE, store=True)
    streams = await open_sockets(lambda: Stream(speaking, own), here, args.streams, args.timeout_s)
    for stream in streams:
        stream.begin()
    await asyncio.wait_for(asyncio.gather(*(stream.begun.wait() for stream in streams)), args.timeout_s)
    if own.errors:
        tally.fail(str(own.first_error))
    waiting = [Watched(run.run_id, run.call_id) for run in held]
    spoken = [Watched(stream.run_id) for stream in streams]
    watchers = await _attach(waiting + spoken, tally, there, args.timeout_s)
    await asyncio.sleep(SETTLE_S)
    killed_s, lease_over_s = await _kill(args, spoken[0].run_id)
    for watcher in watchers:
        watcher.lease_over_s = lease_over_s
    await _all(tally, "was not taken", [run.taken for run in waiting + spoken], args.timeout_s)
    for watcher in watchers:
        for run in waiting:
            if run.run_id.encode() in watcher.runs:
                watcher.answer(run)
    began_s = time.monotonic()
    await _all(tally, "took no answer", [run.answered for run in waiting], args.timeout_s)
    for run in spoken:
        if not run.terminal:
            tally.fail(f"{run.run_id} was spoken when its node died, and has no end")
    for watcher in watchers:
        watcher.close()
    return {
        "waiting_runs": len(waiting),
        "streaming_runs": len(spoken),
        "lease_left_s": lease_over_s - killed_s,
        "waiting_ms": _after(waiting, lease_over_s),
        "streaming_ms": _after(spoken, lease_over_s),
        "answers_ms": quantiles_ms([round((run.answered_s - began_s) * 1e9) for run in waiting if run.answered_s]),
    }


async def _wait_for_calls(args: argparse.Namespace, turn: Turn, tally: Tally, url: str) -> list[HeldRun]:
    runs = await open_sockets(lambda: HeldRun(turn, tally), url, args.sockets, args.timeout_s)
    for run in runs:
        run.begin()
    await asyncio.wait_for(asyncio.gather(*(run.called.wait() for run in runs)), args.timeout_s)
    return runs


async def _attach(runs: list[Watched], tally: Tally, url: str, timeout_s: float) -> list[Watcher]:
    shares = [runs[start : start + ATTACHMENTS] for start in range(0, len(runs), ATTACHMENTS)]
    waiting = iter(shares)
    watchers = await open_sockets(lambda: Watcher(tally, next(waiting)), url, len(shares), timeout_s)
    await _all(tally, "is not followed", [run.caught_up for run in runs], timeout_s)
    return watchers


async def _kill(args: argparse.Namespace, run_id: str) -> tuple[float, float]:
    """End the owner of a run; when that was, and when its lease is over by the clock of Redis."""
    client = redis.Redis.from_url(args.redis_url)
    owner = client.hget(f"antiphon:v1:run:{{{run_id}}}:meta", "owner")
    if not isinstance(owner, bytes):
        raise SystemExit(f"{run_id} has no owner in Redis")
    os.kill(args.server_pid, signal.SIGKILL)
    killed_s = time.monotonic()
    await asyncio.sleep(0.05)  # a renewal may be on its way
    left_ms = client.pttl(f"antiphon:v1:node:{{{owner.decode()}}}:lease")
    client.close()
    if not isinstance(left_ms, int) or left_ms < 0:
        raise SystemExit("the lease was gone when its node was killed")
    return killed_s, time.monotonic() + left_ms / 1000


async def _all(tally: Tally, what: str, events: list[asyncio.Event], timeout_s: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    _, late = await asyncio.wait(waits, timeout=timeout_s)
    for wait in late:
        wait.cancel()
        tally.fail(f"a run {what} within {timeout_s:g} s")


def _after(runs: list[Watched], lease_over_s: float) -> dict[str, float | None]:
    return quantiles_ms([round((run.sign_s - lease_over_s) * 1e9) for run in runs if run.taken.is_set()])
