"""Streams as upstreams send them: first a correct one, then spoilt in every way that was seen somewhere.

A correct stream is made from random items. `spoilt` then leaves events out, doubles them, moves them, breaks
their fields, makes ids constant and indices useless. What comes out is bytes, as the upstream's reader hands them
over: texts may be cut inside a surrogate pair, which JSON can say with escapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]

_WORDS = st.text(
    st.sampled_from(["a", "b", " ", "ö", "\u4e2d", "\U0001f600", "\x00", "\n", '"', "\\", "\u2028"]), max_size=8
)
_PART_KEY = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
_JUNK = st.sampled_from([None, True, False, 0, -1, 3, 1.5, 10**30, "", "x", "0", [], [1], {}, {"a": 1}])


@dataclass
class Stream:
    """The events before the terminal, and the items as the upstream would list them at the end."""

    events: list[Event] = field(default_factory=list)
    output: list[Event] = field(default_factory=list)


def halves(text: str) -> list[str]:
    """The UTF-16 code units of a text, each as a string of its own."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [raw[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(raw), 2)]


def cut(draw: Callable[[st.SearchStrategy[Any]], Any], text: str) -> list[str]:
    """The text in pieces, cut at any code unit."""
    units = halves(text)
    places = sorted(draw(st.lists(st.integers(0, len(units)), max_size=3)))
    edges = [0, *places, len(units)]
    return ["".join(units[a:b]) for a, b in zip(edges, edges[1:], strict=False)]


def encode(event: Event) -> bytes:
    """As JSON in ASCII, so that half a surrogate pair survives."""
    return json.dumps(event).encode()


@st.composite
def parts(draw: st.DrawFn, kinds: list[str]) -> list[Event]:
    chosen = draw(st.lists(st.sampled_from(kinds), max_size=2))
    return [{"type": kind, _PART_KEY[kind]: draw(_WORDS)} for kind in chosen]


@st.composite
def items(draw: st.DrawFn, index: int) -> Event:
    kind = draw(
        st.sampled_from(["message", "message", "function_call", "reasoning", "custom_tool_call", "web", "new"])
    )
    status = draw(st.sampled_from(["completed", "completed", "incomplete"]))
    if kind == "message":
        content = draw(parts(["output_text", "refusal"]))
        for part in content:
            if part["type"] == "output_text":
                part |= {"annotations": [], "logprobs": []}
        return {"id": f"m{index}", "type": kind, "role": "assistant", "status": status, "content": content}
    if kind == "reasoning":
        content = draw(parts(["reasoning_text"]))
        item = {
            "id": f"r{index}",
            "type": kind,
            "summary": draw(parts(["summary_text"])),
            "encrypted_content": "e",
        }
        return item | ({"content": content} if content else {})
    if kind in ("function_call", "custom_tool_call"):
        key = "arguments" if kind == "function_call" else "input"
        call_id = f"call{index}"
        return {
            "id": f"c{index}",
            "type": kind,
            "call_id": call_id,
            "name": "f",
            key: draw(_WORDS),
            "status": status,
        }
    if kind == "web":
        action = {"type": "search", "query": "q"}
        return {"id": f"w{index}", "type": "web_search_call", "action": action, "status": "completed"}
    return {"id": f"n{index}", "type": "hologram", "beam": {"width": 2}}


def text_events(draw: st.DrawFn, name: str, where: Event, key: str, text: str) -> list[Event]:
    deltas = [{"type": f"response.{name}.delta", **where, "delta": piece} for piece in cut(draw, text)]
    return [*deltas, {"type": f"response.{name}.done", **where, key: text}]


def item_events(draw: st.DrawFn, item: Event, index: int) -> list[Event]:
    where = {"item_id": item["id"], "output_index": index}
    empty = {k: v for k, v in item.items() if k not in ("content", "summary", "arguments", "input")}
    empty |= {
        k: ([] if isinstance(item[k], list) else "")
        for k in ("content", "summary", "arguments", "input")
        if k in item
    }
    empty |= {"status": "in_progress"} if "status" in item else {}
    events: list[Event] = [{"type": "response.output_item.added", "output_index": index, "item": empty}]
    for place, prefix in (("summary", "reasoning_summary_part"), ("content", "content_part")):
        for number, part in enumerate(item.get(place, [])):
            at = {**where, f"{place}_index": number}
            key = _PART_KEY[part["type"]]
            name = "reasoning_summary_text" if part["type"] == "summary_text" else part["type"]
            events.append({"type": f"response.{prefix}.added", **at, "part": {**part, key: ""}})
            events += text_events(draw, name, at, key, part[key])
            events.append({"type": f"response.{prefix}.done", **at, "part": part})
    if item["type"] == "function_call":
        events += text_events(draw, "function_call_arguments", where, "arguments", item["arguments"])
    if item["type"] == "custom_tool_call":
        events += text_events(draw, "custom_tool_call_input", where, "input", item["input"])
    if item["type"] == "web_search_call":
        events += [
            {"type": f"response.web_search_call.{s}", **where} for s in ("in_progress", "searching", "completed")
        ]
    return [*events, {"type": "response.output_item.done", "output_index": index, "item": item}]


@st.composite
def streams(draw: st.DrawFn, *, interleaved: bool = False) -> Stream:
    """A correct stream; with `interleaved` the events of its items are mixed."""
    made = [draw(items(index)) for index in range(draw(st.integers(0, 4)))]
    queues = [item_events(draw, item, index) for index, item in enumerate(made)]
    stream = Stream(output=made)
    if not interleaved:
        stream.events = [event for queue in queues for event in queue]
        return stream
    started = 0
    while any(queues):
        ready = [n for n, queue in enumerate(queues) if queue and n <= started]
        chosen = draw(st.sampled_from(ready))
        started = max(started, chosen + 1)
        stream.events.append(queues[chosen].pop(0))
    return stream


def terminal(kind: str, output: list[Event] | None = None) -> Event:
    """The upstream's last word."""
    response: Event = {"id": "up", "status": kind, "usage": {"input_tokens": 3, "output_tokens": 4}}
    if output is not None:
        response["output"] = output
    if kind == "incomplete":
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    if kind == "failed":
        response["error"] = {"code": "rate_limit_exceeded", "message": "Too fast."}
    return {"type": f"response.{kind}", "response": response}


ERRORS: list[Event] = [
    {"type": "error", "error": {"type": "server_error", "code": "overloaded", "message": "Busy."}},
    {"type": "error", "code": "overloaded", "message": "Busy.", "param": None},
    {"type": "error", "code": None, "message": "Busy."},
    {"type": "error", "error": "Busy."},
    {"type": "error", "error": {"code": 429, "message": None}},
    {"type": "error"},
]

_DROPPABLE = (
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "response.output_text.done",
    "response.refusal.done",
    "response.reasoning_text.done",
    "response.reasoning_summary_text.done",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.done",
)
_ENVELOPE = (
    "output_index",
    "item_id",
    "content_index",
    "summary_index",
    "delta",
    "part",
    "logprobs",
    "item",
    "text",
)
_OF_ITEM = ("id", "status", "role", "content", "summary", "name", "arguments", "input", "call_id", "type")


def _break(draw: st.DrawFn, event: Event) -> None:
    """Give one field of an event, or of its item or part, a value of a wrong type."""
    inner = event.get("item") if isinstance(event.get("item"), dict) else None
    if inner and draw(st.booleans()):
        inner[draw(st.sampled_from(sorted(inner.keys() & set(_OF_ITEM)) or ["type"]))] = draw(_JUNK)
    elif isinstance(event.get("part"), dict) and draw(st.booleans()):
        keys = ("type", "text", "refusal", "annotations", "logprobs")
        event["part"] = {**event["part"], draw(st.sampled_from(keys)): draw(_JUNK)}
    else:
        event[draw(st.sampled_from(_ENVELOPE))] = draw(_JUNK)


def _spoil_order(draw: st.DrawFn, events: list[Event]) -> None:
    for _ in range(draw(st.integers(0, 3))):
        if not events:
            return
        what, at = draw(st.sampled_from(["drop", "double", "move", "late"])), draw(st.integers(0, len(events) - 1))
        if what == "drop":
            del events[at]
        elif what == "double":
            events.insert(draw(st.integers(at, len(events))), dict(events[at]))
        else:
            event = events.pop(at)
            events.insert(len(events) if what == "late" else draw(st.integers(0, len(events))), event)


def _spoil_names(draw: st.DrawFn, events: list[Event]) -> None:
    """Ids that are all the same, indices that are all the same or missing."""
    way = draw(st.sampled_from(["", "", "ids x", "no index", "no id", "index 0", "no part index", "nothing"]))
    for event in events:
        inner = event.get("item")
        if way == "ids x":
            event |= {"item_id": "x"} if "item_id" in event else {}
            if inner is not None:
                event["item"] = {**inner, "id": "x"} | ({"call_id": "x"} if "call_id" in inner else {})
        if way in ("no index", "nothing"):
            event.pop("output_index", None)
        if way in ("no id", "nothing"):
            event.pop("item_id", None)
        if way == "index 0" and "output_index" in event:
            event["output_index"] = 0
        if way == "no part index":
            event.pop("content_index", None)


@st.composite
def spoilt(draw: st.DrawFn) -> list[bytes]:
    """A stream with random omissions, repetitions, moves, wrong types and a random end, as bytes."""
    stream = draw(streams(interleaved=draw(st.booleans())))
    left_out = set(draw(st.lists(st.sampled_from(_DROPPABLE), max_size=3)))
    events = [dict(event) for event in stream.events if event["type"] not in left_out]
    for event in events:
        if "item" in event:
            event["item"] = dict(event["item"])
        if event["type"].endswith(".done") and isinstance(event.get("text"), str):
            event["text"] = draw(st.sampled_from([event["text"], event["text"] + "more", "else", ""]))
    _spoil_order(draw, events)
    _spoil_names(draw, events)
    for _ in range(draw(st.integers(0, 2))):
        if events:
            _break(draw, draw(st.sampled_from(events)))
    raw = [encode(event) for event in events]
    for _ in range(draw(st.integers(0, 2))):
        raw.insert(draw(st.integers(0, len(raw))), draw(st.sampled_from(NOISE)))
    return raw + draw(ends(stream.output))


NOISE = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"{",
    b"\xff\xfe",
    b'{"type":5}',
    b'{"type":["response.completed"]}',
    b'{"type":"response.wholly_new.delta","delta":"x"}',
    b'{"type":"response.created","response":{"id":"up"}}',
    b'{"type":"response.in_progress"}',
    b'{"type":"keepalive"}',
    b'{"type":"response.audio.delta","delta":"UklG","sequence_number":7,"response_id":"up"}',
    b'{"type":"response.output_text.annotation.added","output_index":0,"annotation":5}',
    b'{"type":"response.output_item.added","output_index":0,"item":{"type":"deep","x":'
    + b"[" * 300
    + b"]" * 300
    + b"}}",
    b'{"type":"response.output_item.done","output_index":7,"item":{"type":"big","x":123456789012345678901234567890,"y":"\\ud800"}}',
    b'{"type":"response.output_text.delta","output_index":0,"delta":"z","logprobs":[{"token":"\\ud800","logprob":-1},5]}',
]


@st.composite
def ends(draw: st.DrawFn, output: list[Event]) -> list[bytes]:
    """EOF, an error of each shape, a terminal with or without the items, or the whole response."""
    way = draw(st.sampled_from(["eof", "error", "terminal", "terminal", "terminal", "whole"]))
    if way == "eof":
        return []
    if way == "error":
        return [encode(draw(st.sampled_from(ERRORS)))]
    given: Any = draw(st.sampled_from([None, [], output, output[1:], [*output, *output], [5, None, {}], "x"]))
    last = terminal(draw(st.sampled_from(["completed", "incomplete", "failed", "cancelled"])), given)
    if way == "whole":
        last = {"type": "antiphon.whole_response", "response": last["response"]}
    return [encode(last), encode(last)]
