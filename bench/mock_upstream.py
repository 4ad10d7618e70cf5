"""A Responses upstream for load tests: raw asyncio on 127.0.0.1, replies rendered before they are asked for.

A directive anywhere in the request body (the last one wins) steers the reply:

    [[mock deltas=200 rate=50 stamps=1 per_chunk=25 split=0]]

    deltas     text deltas in the reply (default 5)
    rate       deltas per second, 0 = all at once (default 0)
    stamps     1: each delta's text is the wall clock in ns at its write, 19 digits and a space (default 0)
    per_chunk  deltas in one HTTP chunk; with a rate, all of them are written at the same time (default 1)
    split      1: with rate 0, one chunk per turn of the loop, each a write of its own (default 0)

Routes: POST /v1/responses (SSE with `"stream": true`, else JSON), GET /v1/models, GET /health.
All slots in the rendered bytes (ids, stamps, text) have a fixed width, so no length is ever computed again.
"""

import argparse
import asyncio
import gc
import itertools
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import orjson
import uvloop

MODEL = "mock-model"
ID_SLOT = "@" * 24
STAMP_SLOT = "#" * 19 + " "
MAX_DELTAS = 100_000
WORDS = ("the ", "server ", "keeps ", "each ", "run ", "alive ", "and ", "numbers ", "its ", "events ")
DIRECTIVE = re.compile(rb"\[\[mock ([a-z_=.0-9 ]*)\]\]")
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
WANTS_STREAM = re.compile(rb'"stream"\s*:\s*true')
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"
USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 34,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 46,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a directive asks for."""

    deltas: int = 5
    rate: float = 0.0
    stamps: bool = False
    per_chunk: int = 1
    split: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """A reply in ready HTTP chunks; `body` holds the same bytes joined."""

    head: bytes
    chunks: tuple[bytes, ...]
    tail: bytes
    text_slot: bytes
    body: bytes


@lru_cache(maxsize=256)
def parse_plan(directive: bytes) -> Plan:
    """Read `name=value` pairs; unknown names are an error, so that a typo cannot measure something else."""
    values = dict(pair.split("=", 1) for pair in directive.decode().split())
    known = {"deltas", "rate", "stamps", "per_chunk", "split"}
    if not values.keys() <= known:
        raise ValueError(f"unknown directive: {sorted(values.keys() - known)}")
    return Plan(
        deltas=min(int(values.get("deltas", 5)), MAX_DELTAS),
        rate=float(values.get("rate", 0)),
        stamps=values.get("stamps") == "1",
        per_chunk=max(1, int(values.get("per_chunk", 1))),
        split=values.get("split") == "1",
    )


def plan_of(body: bytes) -> Plan:
    """The last directive of a body, or the default plan."""
    found = DIRECTIVE.findall(body)
    return parse_plan(found[-1] if found else b"")


def response_object(status: str, output: list[dict[str, object]], usage: object = None) -> dict[str, object]:
    """A response as an upstream of the OpenAI wire sends it."""
    return {
        "id": f"resp_{ID_SLOT}",
        "object": "response",
        "created_at": 1764500000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": MODEL,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }


def message_item(status: str, text: str | None) -> dict[str, object]:
    """The one output item; without text it has no part yet."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    content = [] if text is None else [part]
    return {
        "id": f"msg_{ID_SLOT}",
        "type": "message",
        "status": status,
        "content": content,
        "role": "assistant",
    }


def sse_event(numbers: Iterator[int], kind: str, **fields: object) -> bytes:
    """One SSE event with the next sequence number."""
    payload = orjson.dumps({"type": kind, "sequence_number": next(numbers), **fields})
    return b"event: " + kind.encode() + b"\ndata: " + payload + b"\n\n"


def http_chunk(data: bytes) -> bytes:
    """One chunk of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def finished_text(plan: Plan) -> str:
    """The text all deltas add up to, with slots where stamps will be."""
    if plan.stamps:
        return "~" * (len(STAMP_SLOT) * plan.deltas)
    return "".join(WORDS[i % len(WORDS)] for i in range(plan.deltas))


@lru_cache(maxsize=64)
def render(plan: Plan) -> Script:
    """Render the whole event stream of a plan once."""
    numbers = itertools.count()
    place = {"item_id": f"msg_{ID_SLOT}", "output_index": 0, "content_index": 0}
    text = finished_text(plan)
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = message_item("completed", text)
    head = b"".join(
        (
            sse_event(numbers, "response.created", response=response_object("in_progress", [])),
            sse_event(numbers, "response.in_progress", response=response_object("in_progress", [])),
            sse_event(
                numbers, "response.output_item.added", output_index=0, item=message_item("in_progress", None)
            ),
            sse_event(numbers, "response.content_part.added", **place, part={**part, "text": ""}),
        )
    )
    deltas = [
        sse_event(
            numbers,
            "response.output_text.delta",
            **place,
            delta=STAMP_SLOT if plan.stamps else WORDS[i % len(WORDS)],
            logprobs=[],
        )
        for i in range(plan.deltas)
    ]
    tail = b"".join(
        (
            sse_event(numbers, "response.output_text.done", **place, text=text, logprobs=[]),
            sse_event(numbers, "response.content_part.done", **place, part=part),
            sse_event(numbers, "response.output_item.done", output_index=0, item=item),
            sse_event(numbers, "response.completed", response=response_object("completed", [item], USAGE)),
        )
    )
    chunks = tuple(
        http_chunk(b"".join(deltas[i : i + plan.per_chunk])) for i in range(0, len(deltas), plan.per_chunk)
    )
    first, last = STREAM_HEAD + http_chunk(head), http_chunk(tail) + LAST_CHUNK
    slot = b"~" * (len(STAMP_SLOT) * plan.deltas) if plan.stamps else b""
    return Script(first, chunks, last, slot, b"".join((first, *chunks, last)))


def json_reply(status: bytes, body: bytes) -> bytes:
    """A whole HTTP answer with a JSON body."""
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )


MODELS_REPLY = json_reply(
    b"200 OK",
    orjson.dumps(
        {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "bench"}]}
    ),
)
HEALTH_REPLY = json_reply(b"200 OK", b'{"status":"ok"}')


class UpstreamConnection(asyncio.Protocol):
    """One keep-alive HTTP/1.1 connection; one reply at a time."""

    run_numbers = itertools.count(1)

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.received = bytearray()
        self.transport: asyncio.Transport
        self.socket_fd = -1
        self.timer: asyncio.Handle | None = None
        self.script: Script
        self.plan: Plan
        self.run_id = b""
        self.stamps: list[bytes] = []
        self.next_chunk = 0
        self.started_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.socket_fd = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._answer_complete_requests()

    def _answer_complete_requests(self) -> None:
        while self.timer is None:
            head_end = self.received.find(b"\r\n\r\n")
            if head_end < 0:
                return
            length = CONTENT_LENGTH.search(self.received, 0, head_end)
            end = head_end + 4 + (int(length.group(1)) if length else 0)
            if len(self.received) < end:
                return
            request_line = bytes(self.received[: self.received.find(b"\r\n")])
            body = bytes(self.received[head_end + 4 : end])
            del self.received[:end]
            self._answer(request_line, body)

    def _answer(self, request_line: bytes, body: bytes) -> None:
        method, path = request_line.split(b" ")[:2]
        if method == b"POST" and path.startswith(b"/v1/responses"):
            self._answer_run(body)
        elif path.startswith(b"/v1/models"):
            self.transport.write(MODELS_REPLY)
        elif path.startswith(b"/health"):
            self.transport.write(HEALTH_REPLY)
        else:
            self.transport.write(json_reply(b"404 Not Found", b'{"error":{"message":"no such route"}}'))

    def _answer_run(self, body: bytes) -> None:
        try:
            plan = plan_of(body)
        except ValueError as error:
            answer = orjson.dumps({"error": {"message": str(error), "code": "bad_directive"}})
            self.transport.write(json_reply(b"400 Bad Request", answer))
            return
        run_id = b"%024x" % next(self.run_numbers)
        if WANTS_STREAM.search(body) is None:
            item = message_item("completed", finished_text(plan))
            answer = orjson.dumps(response_object("completed", [item], USAGE))
            self.transport.write(json_reply(b"200 OK", answer.replace(ID_SLOT.encode(), run_id)))
            return
        script = render(plan)
        if plan.rate == 0 and not plan.split and not plan.stamps:
            self.transport.write(script.body.replace(ID_SLOT.encode(), run_id))
            return
        self.script, self.plan, self.run_id, self.stamps, self.next_chunk = script, plan, run_id, [], 0
        self.transport.write(script.head.replace(ID_SLOT.encode(), run_id))
        self.started_s = self.loop.time()
        self.timer = self.loop.call_soon(self._write_due_chunks)

    def _write_due_chunks(self) -> None:
        """Write what is due by now, then sleep until the next chunk; a late turn catches up."""
        interval_s = self.plan.per_chunk / self.plan.rate if self.plan.rate else 0.0
        while self.next_chunk < len(self.script.chunks):
            due_s = self.started_s + self.next_chunk * interval_s
            if due_s > self.loop.time():
                self.timer = self.loop.call_at(due_s, self._write_due_chunks)
                return
            self._write_chunk(self.script.chunks[self.next_chunk])
            self.next_chunk += 1
            if self.plan.split:
                self.timer = self.loop.call_soon(self._write_due_chunks)
                return
        self._write_tail()

    def _write_chunk(self, chunk: bytes) -> None:
        chunk = chunk.replace(ID_SLOT.encode(), self.run_id)
        if self.plan.stamps:
            stamp = b"%d " % time.time_ns()
            self.stamps += [stamp] * chunk.count(STAMP_SLOT.encode())
            chunk = chunk.replace(STAMP_SLOT.encode(), stamp)
        self._write_now(chunk)

    def _write_now(self, data: bytes) -> None:
        """Write at once: the transport would wait for the end of the turn of the loop, after the stamp."""
        if self.transport.get_write_buffer_size() == 0:
            try:
                data = data[os.write(self.socket_fd, data) :]
            except BlockingIOError:
                pass
            except OSError:
                return
        if data:
            self.transport.write(data)

    def _write_tail(self) -> None:
        tail = self.script.tail.replace(ID_SLOT.encode(), self.run_id)
        if self.plan.stamps and self.stamps:
            tail = tail.replace(self.script.text_slot, b"".join(self.stamps))
        self.transport.write(tail)
        self.timer = None
        self.loop.call_soon(self._answer_complete_requests)


async def serve(port: int) -> None:
    """Listen on loopback, say where, and serve until ended."""
    server = await asyncio.get_running_loop().create_server(UpstreamConnection, "127.0.0.1", port, backlog=4096)
    print(f"mock upstream on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    gc.freeze()
    gc.disable()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="Responses upstream for load tests, on 127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 = a free one, printed")
    try:
        uvloop.run(serve(parser.parse_args().port))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
