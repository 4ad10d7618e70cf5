"""A Responses upstream for load tests: raw asyncio on 127.0.0.1, replies rendered before they are asked for.

A directive anywhere in the request body (the last one wins) steers the reply:

    [[mock deltas=200 rate=50 stamps=1 per_chunk=25 split=0]]

    deltas     text deltas in the reply (default 5)
    rate       deltas per second, 0 = all at once (default 0)
    stamps     1: each delta's text is the wall clock in ns at its write, 19 digits and a space (default 0)
    per_chunk  deltas in one HTTP chunk; with a rate, all of them are written at the same time (default 1)
    split      1: with rate 0, one chunk per turn of the loop, each a write of its own (default 0)
    call       name of a function to call instead of a text; its arguments are {"asked_at_ns": "<wall clock>"} of
               the arrival of the request (default: none)
    calls      how many calls there are, one per request, before the text (default 1)

Routes: POST /v1/responses (SSE with `"stream": true`, else JSON), GET /v1/models, GET /health, GET /received (how
many runs were asked for so far, and the bytes of their bodies).
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

import orjson
import uvloop
from mock_replies import (
    ARRIVAL_SLOT,
    ID_SLOT,
    MODEL,
    STAMP_SLOT,
    USAGE,
    Plan,
    Script,
    finished_text,
    json_reply,
    message_item,
    plan_of,
    render,
    render_call,
    response_object,
)

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
WANTS_STREAM = re.compile(rb'"stream"\s*:\s*true')

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
    runs = 0
    body_bytes = 0

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
        self.arrived_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.socket_fd = transport.get_extra_info("socket").fileno()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        if not self.received:
            self.arrived_ns = time.time_ns()
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
        elif path.startswith(b"/received"):
            received = {"runs": UpstreamConnection.runs, "body_bytes": UpstreamConnection.body_bytes}
            self.transport.write(json_reply(b"200 OK", orjson.dumps(received)))
        else:
            self.transport.write(json_reply(b"404 Not Found", b'{"error":{"message":"no such route"}}'))

    def _answer_run(self, body: bytes) -> None:
        UpstreamConnection.runs += 1
        UpstreamConnection.body_bytes += len(body)
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
        if plan.wants_call(body):
            call = render_call(plan.call).replace(ID_SLOT.encode(), run_id)
            self.transport.write(call.replace(ARRIVAL_SLOT.encode(), b"%d" % self.arrived_ns))
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
