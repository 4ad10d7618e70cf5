"""Runs that wait for a tool of their client: how fast an answer goes on to the model, and what waiting costs.

The mock calls `look` and writes into the arguments when it was asked; so the next call tells how long the answer
to the one before took from the client to the model.
"""

import argparse
import asyncio
import re
import time

import orjson
from load_clients import FAILURE, ITEM_DONE_MARK, SAMPLE_BYTES, Tally, Turn, open_sockets
from load_window import CpuWindow, Result, quantiles_ms, raise_priority
from picows import WSFrame, WSListener, WSMsgType, WSTransport
from process_meter import rss_bytes

TOOL = "look"
ANSWERS = 8
"""To each run; with the call that stays open that makes 9 rounds of the model, and the server allows 10."""
BATCH = 50
SETTLE_S = 1.5
"""After the last call was shown, so that every run really waits and what it wrote is durable."""
RUN_ID = re.compile(rb'"id":"(resp_[0-9a-f]+)"')
CALL_ID = re.compile(rb'"call_id":"([^"]+)"')
ASKED_AT = re.compile(rb'asked_at_ns\\":\\"(\d{19})')


class Socket(WSListener):
    """A WebSocket whose loss is an error until it is closed on purpose."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.transport: WSTransport
        self.closing = False

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        if not self.closing:
            self.tally.lost_sockets += 1
            self.tally.fail("socket lost")

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self.tally.events += 1
            payload = frame.get_payload_as_bytes()
            if FAILURE.search(payload):
                self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))
            self.read(payload)
        elif frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()

    def read(self, payload: bytes) -> None:
        raise NotImplementedError

    def send(self, frame: dict[str, object]) -> None:
        self.transport.send(WSMsgType.TEXT, orjson.dumps(frame))

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.transport.send_close()
            self.transport.disconnect()


class HeldRun(Socket):
    """One run on a socket of its own. called: its next call was shown."""

    def __init__(self, turn: Turn, tally: Tally) -> None:
        super().__init__(tally)
        self.turn = turn
        self.run_id = self.call_id = ""
        self.asked_at_ns = 0
        self.called = asyncio.Event()

    def begin(self) -> None:
        directive = f"[[mock call={TOOL} calls={ANSWERS + 1}]]"
        tool = {"type": "function", "name": TOOL, "parameters": {"type": "object"}}
        body = {**self.turn.body(), "input": directive, "tools": [tool], "antiphon": {"client_tools": "hold"}}
        self.send({"type": "response.create", **body})

    def answer(self) -> int:
        """Send the output of the open call; when that was, in ns."""
        self.called.clear()
        item = {"type": "function_call_output", "call_id": self.call_id, "output": "seen"}
        frame = orjson.dumps({"type": "response.inject", "response_id": self.run_id, "input": [item]})
        sent_ns = time.time_ns()
        self.transport.send(WSMsgType.TEXT, frame)
        return sent_ns

    def read(self, payload: bytes) -> None:
        if b'"type":"response.created"' in payload:
            self.run_id = _first(RUN_ID, payload)
        elif ITEM_DONE_MARK in payload and (asked_at := _first(ASKED_AT, payload)):
            self.call_id = _first(CALL_ID, payload)
            self.asked_at_ns = int(asked_at)
            self.called.set()
        elif b'"response.inject.failed"' in payload or b'"response.completed"' in payload:
            self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))


class Canceller(Socket):
    """Ends runs that nobody will answer."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(tally)
        self.missing = 0
        self.done = asyncio.Event()

    def cancel(self, run_ids: list[str]) -> None:
        self.missing = len(run_ids) + 1
        self.send(
            {"type": "antiphon:hello", "id": "hello", "protocol": 1, "client": {"name": "bench", "version": "0"}}
        )
        for run_id in run_ids:
            self.send({"type": "antiphon:cancel", "id": run_id, "response_id": run_id})

    def read(self, payload: bytes) -> None:
        if b'"antiphon:error"' in payload:
            self.tally.fail(payload[:SAMPLE_BYTES].decode(errors="replace"))
        self.missing -= 1
        if not self.missing:
            self.done.set()


def _first(pattern: re.Pattern[bytes], payload: bytes) -> str:
    found = pattern.search(payload)
    return found.group(1).decode() if found else ""


async def _begin(args: argparse.Namespace, turn: Turn, tally: Tally, count: int) -> list[HeldRun]:
    """So many runs that wait, each on a socket, which is closed again with `--leave`."""
    runs: list[HeldRun] = []
    while len(runs) < count:
        size = min(BATCH, count - len(runs))
        batch = await open_sockets(lambda: HeldRun(turn, tally), turn.url, size, args.timeout_s)
        for run in batch:
            run.begin()
        await asyncio.wait_for(asyncio.gather(*(run.called.wait() for run in batch)), args.timeout_s)
        if args.leave:
            for run in batch:
                run.close()
        runs += batch
    await asyncio.sleep(SETTLE_S)
    return runs


async def _cancel(args: argparse.Namespace, turn: Turn, tally: Tally, runs: list[HeldRun]) -> None:
    (canceller,) = await open_sockets(lambda: Canceller(tally), turn.url, 1, args.timeout_s)
    canceller.cancel([run.run_id for run in runs])
    await asyncio.wait_for(canceller.done.wait(), args.timeout_s)
    canceller.close()


async def run_held(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Answer one call after another, while all the other runs wait."""
    runs = await _begin(args, turn, tally, args.sockets)
    priority = raise_priority()
    taken_ns: list[int] = []
    window = CpuWindow(args)
    window.start()
    events = tally.events
    for _ in range(ANSWERS):
        for run in runs:
            sent_ns = run.answer()
            await asyncio.wait_for(run.called.wait(), args.timeout_s)
            taken_ns.append(run.asked_at_ns - sent_ns)
    window.stop()
    for run in runs:
        run.close()
    await _cancel(args, turn, tally, runs)
    result = window.result(tally.events - events, len(taken_ns))
    return {
        "client_priority": priority,
        "samples": len(taken_ns),
        "answer_ms": quantiles_ms(taken_ns),
        "cpu_us_per_answer": result["cpu_us_per_turn"],
        "foreign_cores": result["foreign_cores"],
    }


async def run_waiting(args: argparse.Namespace, turn: Turn, tally: Tally) -> Result:
    """Memory and CPU of runs that wait. A first batch is not counted: with it the server loads what it needs."""
    runs = await _begin(args, turn, tally, BATCH)
    warm_bytes = rss_bytes(args.server_pid)
    runs += await _begin(args, turn, tally, args.sockets)
    window = CpuWindow(args)
    window.start()
    await asyncio.sleep(args.seconds)
    window.stop()
    grown_bytes = rss_bytes(args.server_pid) - warm_bytes
    for run in runs:
        run.close()
    await _cancel(args, turn, tally, runs)
    return {
        "waiting_run_kb": grown_bytes / args.sockets / 1e3,
        "waiting_server_cores": window.spent_s["server"] / window.wall_s,
        "foreign_cores": window.spent_s["foreign"] / window.wall_s,
    }
