"""What the mock upstream says: read from a directive in the request, rendered once, in ready HTTP chunks."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache

import orjson

MODEL = "mock-model"
ID_SLOT = "@" * 24
STAMP_SLOT = "#" * 19 + " "
ARRIVAL_SLOT = "#" * 19
MAX_DELTAS = 100_000
WORDS = ("the ", "server ", "keeps ", "each ", "run ", "alive ", "and ", "numbers ", "its ", "events ")
CALL_OUTPUT = b'"function_call_output"'
DIRECTIVE = re.compile(rb"\[\[mock ([a-z_=.0-9 ]*)\]\]")
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
    call: str = ""
    calls: int = 1

    def wants_call(self, body: bytes) -> bool:
        """Whether this request is answered with one more call: those of before are told from their outputs."""
        return bool(self.call) and body.count(CALL_OUTPUT) < self.calls


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
    known = {field.name for field in fields(Plan)}
    if not values.keys() <= known:
        raise ValueError(f"unknown directive: {sorted(values.keys() - known)}")
    return Plan(
        deltas=min(int(values.get("deltas", 5)), MAX_DELTAS),
        rate=float(values.get("rate", 0)),
        stamps=values.get("stamps") == "1",
        per_chunk=max(1, int(values.get("per_chunk", 1))),
        split=values.get("split") == "1",
        call=values.get("call", ""),
        calls=int(values.get("calls", 1)),
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


@lru_cache(maxsize=64)
def render_call(name: str) -> bytes:
    """An answer that is one call of `name`, whose argument is when its request arrived."""
    numbers = itertools.count()
    arguments = orjson.dumps({"asked_at_ns": ARRIVAL_SLOT}).decode()
    item = {"id": f"fc_{ID_SLOT}", "type": "function_call", "call_id": f"call_{ID_SLOT}", "name": name}
    begun = {**item, "status": "in_progress", "arguments": ""}
    done = {**item, "status": "completed", "arguments": arguments}
    place = {"item_id": f"fc_{ID_SLOT}", "output_index": 0}
    events = (
        sse_event(numbers, "response.created", response=response_object("in_progress", [])),
        sse_event(numbers, "response.output_item.added", output_index=0, item=begun),
        sse_event(numbers, "response.function_call_arguments.delta", **place, delta=arguments),
        sse_event(numbers, "response.function_call_arguments.done", **place, arguments=arguments),
        sse_event(numbers, "response.output_item.done", output_index=0, item=done),
        sse_event(numbers, "response.completed", response=response_object("completed", [done], USAGE)),
    )
    return STREAM_HEAD + http_chunk(b"".join(events)) + LAST_CHUNK


def json_reply(status: bytes, body: bytes) -> bytes:
    """A whole HTTP answer with a JSON body."""
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )
