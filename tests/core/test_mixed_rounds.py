"""Rounds in which calls of the server stand among other items: any mixture, in any interleaving (tool loop, event
order). The order is held against a second description of it, not against the code's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.assembly import sink
from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.outcome import Outcome, failed
from antiphon.core.assembly.server_call import CallResult, ServerTool
from antiphon.core.assembly.sink import EventSink, HeldTooMuch
from antiphon.core.history import finished_output
from tests.contract.playing import pairs
from tests.core.runs import check_log, new_assembler

Event = dict[str, Any]

SERVER_TOOLS = {
    "do": ServerTool("do", "antiphon"),
    "find": ServerTool("web_search", "antiphon", "web_search_call"),
    "ask": ServerTool("ask", "antiphon", needs_approval=True),
}
KINDS = ["message", "reasoning", "look", "custom", "do", "do", "find", "ask"]
OWNED = ("mcp_call", "web_search_call")


def stream_of(kind: str, n: int) -> tuple[list[Event], Event]:
    """The events of the item number `n`, and the item."""
    where = {"output_index": n, "item_id": f"item_{n}"}
    if kind in ("message", "reasoning"):
        content, field, name = ("content", "text", "output_text")
        if kind == "reasoning":
            content, field, name = ("summary", "text", "reasoning_summary_text")
        part = {"type": "output_text" if kind == "message" else "summary_text", field: f"{kind} {n}"}
        item = {"type": kind, "id": f"item_{n}", "status": "completed", content: [part]}
        index = {"content_index": 0} if kind == "message" else {"summary_index": 0}
        middle = [{"type": f"response.{name}.delta", **where, **index, "delta": part[field]}]
    else:
        custom = kind == "custom"
        field, stem = ("input", "custom_tool_call_input") if custom else ("arguments", "function_call_arguments")
        said = f"patch {n}" if custom else '{"query":"cats"}'
        item = {
            "type": "custom_tool_call" if custom else "function_call",
            "id": f"item_{n}",
            "call_id": f"call_{n}",
            "name": kind,
            "status": "completed",
            field: said,
        }
        halves = said[: len(said) // 2], said[len(said) // 2 :]
        middle = [{"type": f"response.{stem}.delta", **where, "delta": half} for half in halves]
    empty = {key: value for key, value in item.items() if key not in ("content", "summary")}
    added = {"type": "response.output_item.added", "output_index": n, "item": empty | {"status": "in_progress"}}
    return [added, *middle, {"type": "response.output_item.done", "output_index": n, "item": item}], item


@dataclass
class Round:
    """events: in the order of the upstream. made: by the name of the upstream's call id, how it went."""

    events: list[Event]
    made: dict[str, CallResult]


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
    streams = [stream_of(kind, n) for n, kind in enumerate(kinds)]
    left = [list(events) for events, _ in streams]
    if draw(st.booleans()):
        left.append([{"type": "response.audio.delta", "delta": "AAAA"}] * 2)
    merged: list[Event] = []
    one_by_one = draw(st.booleans())
    while any(left):
        waiting = [events for events in left if events]
        chosen = waiting[0] if one_by_one else waiting[draw(st.integers(0, len(waiting) - 1))]
        merged.append(chosen.pop(0))
    result = st.sampled_from([CallResult(output="out"), CallResult(error="no"), None])
    made = {f"call_{n}": given for n in range(len(kinds)) if (given := draw(result)) is not None}
    output = [item for _, item in streams]
    merged.append({"type": "response.completed", "response": {"status": "completed", "output": output}})
    return Round(merged, made)


def lifecycle(assembler: Assembler) -> list[bytes]:
    return [assembler.lifecycle(f"response.{name}", "in_progress") for name in ("created", "in_progress")]


def feed(assembler: Assembler, events: list[Event]) -> list[bytes]:
    return assembler.feed([orjson.dumps(event) for event in events])


def complete(assembler: Assembler, made: dict[str, CallResult]) -> list[bytes]:
    results = {
        item.call_id: made[item.upstream["call_id"]]
        for item in assembler.round_items
        if item.call_id is not None and item.upstream.get("call_id") in made
    }
    return assembler.complete_calls(results)


def check_order(streamed: list[bytes], released: list[bytes], items: list[Any]) -> None:
    """The rule, said once more: what may go out while the model speaks, and in which order the rest follows."""
    owned = [item.index for item in items if item.owner == "server"]
    if not owned:
        assert released == []
        return
    first = owned[0]
    run = first
    while run in owned:
        run += 1  # the unbroken sequence of calls of the server from the first one on
    custom = any(item.type == "custom_tool_call" and item.index < first for item in items)
    early = {item.index for item in items if item.index < (first if custom else run)}
    early_events = [orjson.loads(event) for event in streamed]
    assert {e["output_index"] for e in early_events if "output_index" in e} <= early
    late = [orjson.loads(event).get("output_index", 1 << 60) for event in released]
    assert late == sorted(late), "the rest follows in the order of the output, what is of no item last"
    for event in map(orjson.loads, released):
        if event.get("output_index") in early and event["output_index"] in owned:
            assert event["type"].split(".")[-1] in ("completed", "failed", "searching", "done"), (
                "starts do not wait"
            )


@given(st.lists(rounds(), min_size=1, max_size=3))
def test_any_mixture_keeps_every_promise_of_the_log(script: list[Round]) -> None:
    assembler = new_assembler()
    assembler.server_tools = SERVER_TOOLS
    log = lifecycle(assembler)
    done = Outcome("completed")
    for number, one in enumerate(script):
        if number:
            assembler.begin_round()
        streamed = feed(assembler, one.events)
        released = complete(assembler, one.made)
        check_order(streamed, released, assembler.round_items)
        log += streamed + released
    log += assembler.close_items("incomplete")
    log.append(assembler.terminal(done))
    run = check_log(log)
    for item in assembler.items:
        assert item.done is not None
        assert orjson.loads(item.done) == run.terminal["output"][item.index]
    for item in run.terminal["output"]:
        assert item["type"] != "function_call" or item["name"] == "look", (
            "only calls of clients are function calls"
        )


@given(rounds())
def test_what_the_model_reads_next_has_every_call_of_the_server_with_its_output(one: Round) -> None:
    assembler = new_assembler()
    assembler.server_tools = SERVER_TOOLS
    feed(assembler, one.events)
    complete(assembler, one.made)
    encoded, open_calls = finished_output(assembler.round_items, Outcome("completed"))
    items = orjson.loads(b"[" + encoded + b"]")
    mine = {item["call_id"] for item in items if item.get("name") in ("do", "find")}
    assert mine == {
        i.upstream["call_id"] for i in assembler.round_items if i.owner == "server" and i.result is not None
    }
    pairs([item for item in items if item.get("call_id") in mine])
    outputs = [item["call_id"] for item in items if item["type"].endswith("_output")]
    calls = [item["call_id"] for item in items if item["type"].endswith("_call") and item["call_id"] in mine]
    assert outputs == calls, "results stand in the order of the calls"
    assert {call.name for call in open_calls} <= {"look", "custom", "ask"}


@given(rounds(), st.integers(0, 30), st.sampled_from(["failed", "cancelled", "cut"]))
def test_a_round_that_is_broken_off_shows_what_there_was_and_makes_nothing(
    one: Round, after: int, end: str
) -> None:
    assembler = new_assembler()
    assembler.server_tools = SERVER_TOOLS
    log = lifecycle(assembler) + feed(assembler, one.events[: min(after, len(one.events) - 1)])
    outcome = failed("x", "y") if end == "failed" else Outcome("cancelled", reason="cancelled")
    log += assembler.release() if end == "failed" else assembler.close_items("incomplete")
    log.append(assembler.terminal(outcome))
    run = check_log(log)
    made = [item for item in run.terminal["output"] if item["type"] in OWNED]
    assert all(item["status"] in ("incomplete", "failed") for item in made)
    encoded, _ = finished_output(assembler.round_items, outcome)
    if end != "failed":
        assert not [i for i in orjson.loads(b"[" + encoded + b"]") if i.get("name") in ("do", "find", "ask")]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=8),
    st.lists(st.integers(-1, 8), max_size=40),
)
def test_the_sink_loses_doubles_and_misnumbers_nothing(
    items: list[tuple[int, bool, bool]], events: list[int]
) -> None:
    into = EventSink()
    put: list[tuple[int, int]] = []
    out: list[bytes] = []
    for index, (before, server_owned, waits) in enumerate(items):
        into.item_begins(index, server_owned=server_owned, start_waits=server_owned and waits)
        for n in events[before::4]:
            if n <= index:
                into.emit(None if n < 0 else n, "x", {"i": n, "n": len(put)})
                put.append((n, len(put)))
        out += into.take()
    into.release(range(len(items)), lambda index: None)
    out += into.take()
    read = [orjson.loads(event) for event in out]
    assert [event["sequence_number"] for event in read] == list(range(len(put)))
    assert sorted((event["i"], event["n"]) for event in read) == sorted(put)
    for index in {i for i, _ in put}:
        mine = [event["n"] for event in read if event["i"] == index]
        assert mine == sorted(mine), "events of one item keep their order"


def test_what_is_held_back_is_bounded_by_count_and_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound, value in (("MAX_HELD_EVENTS", 3), ("MAX_HELD_BYTES", 300)):
        with monkeypatch.context() as patch:
            patch.setattr(sink, bound, value)
            into = EventSink()
            into.item_begins(0, server_owned=True, start_waits=False)
            into.item_begins(1, server_owned=False, start_waits=False)
            with pytest.raises(HeldTooMuch):
                for _ in range(10):
                    into.emit(1, "x", {"text": "y" * 90})
            into.release((), lambda index: None)
            assert 3 <= len(into.take()) <= 4, "nothing of it is lost"


def test_items_of_the_server_itself_are_whole_in_three_steps() -> None:
    assembler = new_assembler()
    log = lifecycle(assembler)
    given = {"type": "mcp_list_tools", "server_label": "s", "tools": [], "error": None}
    assembler.add_item(given, "response.mcp_list_tools.in_progress", "response.mcp_list_tools.completed")
    log += assembler.take()
    log.append(assembler.terminal(Outcome("completed")))
    run = check_log(log)
    assert run.terminal["output"][0]["id"].startswith("mcpl_")
    assert finished_output(assembler.round_items, Outcome("completed")) == (b"", ())


def test_an_approved_call_is_a_call_of_its_own_that_names_its_request() -> None:
    assembler = new_assembler()
    log = lifecycle(assembler)
    theirs = {"type": "function_call", "call_id": "c", "name": "do", "arguments": '{"a":1}'}
    item = assembler.begin_call(SERVER_TOOLS["ask"], theirs, "mcpr_1")
    log += assembler.take() + assembler.complete_calls({item.call_id or "": CallResult(output="yes")})
    log.append(assembler.terminal(Outcome("completed")))
    (made,) = check_log(log).terminal["output"]
    assert (made["type"], made["approval_request_id"], made["arguments"]) == ("mcp_call", "mcpr_1", '{"a":1}')
    encoded, _ = finished_output(assembler.round_items, Outcome("completed"))
    assert orjson.loads(encoded) == {"type": "function_call_output", "call_id": "c", "output": "yes"}
