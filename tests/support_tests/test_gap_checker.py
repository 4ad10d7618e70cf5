"""The gap checker passes what is whole and names each kind of fault."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.gap_checker import GapChecker, GapError, check_run
from tests.support_tests.run_events import Event, failed_run, good_run


def find(events: list[Event], kind: str, nth: int = 0) -> int:
    """Position of the nth event of a type."""
    return [i for i, event in enumerate(events) if event["type"] == f"response.{kind}"][nth]


def renumber(events: list[Event]) -> None:
    for number, event in enumerate(events):
        event["sequence_number"] = number


def drop(kind: str, nth: int = 0) -> Callable[[list[Event]], None]:
    """Leave one event out and close the hole, so that only its absence can be noticed."""

    def change(events: list[Event]) -> None:
        del events[find(events, kind, nth)]
        renumber(events)

    return change


def again(kind: str, nth: int = 0) -> Callable[[list[Event]], None]:
    """Send one event twice, numbered properly."""

    def change(events: list[Event]) -> None:
        at = find(events, kind, nth)
        events.insert(at, copy.deepcopy(events[at]))
        renumber(events)

    return change


def put(kind: str, path: str, value: Any, nth: int = 0) -> Callable[[list[Event]], None]:
    """Change one field of one event."""

    def change(events: list[Event]) -> None:
        target: Any = events[find(events, kind, nth)]
        *parents, last = path.split(".")
        for name in parents:
            target = target[int(name) if name.isdigit() else name]
        target[int(last) if last.isdigit() else last] = value

    return change


def swap(first: str, second: str) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        a, b = find(events, first), find(events, second)
        events[a], events[b] = events[b], events[a]
        renumber(events)

    return change


def raw(change: Callable[[list[Event]], Any]) -> Callable[[list[Event]], Any]:
    return change


FAULTS: dict[str, tuple[Callable[[list[Event]], Any], str]] = {
    "a hole in the numbers": (lambda e: e.pop(5), "a hole"),
    "a number twice": (lambda e: e.insert(5, e[5]), "a repeat"),
    "a number that is a string": (put("created", "sequence_number", "0"), "not a number"),
    "a number that is a bool": (put("created", "sequence_number", False), "not a number"),
    "no created": (drop("created"), "response.created must be the event with number 0"),
    "a second created": (again("created"), "response.created must be"),
    "in_progress twice": (again("in_progress"), "after response.in_progress"),
    "created with output": (put("created", "response.output", [{}]), "already has output"),
    "created as completed": (put("created", "response.status", "completed"), "says status"),
    "another response id at the end": (put("completed", "response.id", "resp_2"), "but it was resp_1"),
    "output indices with a hole": (
        put("output_item.added", "output_index", 3, 1),
        "expected 1: they are dense",
    ),
    "no added": (drop("output_item.added", 1), "no item was added at output_index 1"),
    "added twice": (again("output_item.added", 1), "expected 2: they are dense"),
    "an item id used twice": (put("output_item.added", "item.id", "rs_1", 1), "was used before"),
    "an item without an id": (put("output_item.added", "item.id", ""), "has no id"),
    "no done": (drop("output_item.done", 1), "no output_item.done"),
    "done twice": (again("output_item.done", 1), "after item msg_1 was done"),
    "another item id in a delta": (
        put("output_text.delta", "item_id", "msg_2"),
        "but output_index 1 is msg_1",
    ),
    "another item id when done": (put("output_item.done", "item.id", "msg_2", 1), "it was added as msg_1"),
    "another call id when done": (
        put("output_item.done", "item.call_id", "call_x", 2),
        "call_id of fc_1 was",
    ),
    "no part added": (drop("content_part.added", 1), "has no part added at content_index 0"),
    "content indices with a hole": (put("content_part.added", "content_index", 5, 1), "expected 0: they are"),
    "part done twice": (again("content_part.done", 1), "after that part was done"),
    "a part left open": (drop("content_part.done", 1), "done before this part"),
    "a part that differs": (put("content_part.done", "part.text", "hullo", 1), "the part says 'hullo'"),
    "a text of the wrong kind": (put("content_part.added", "part.type", "refusal", 1), "for a part of type"),
    "a lost text delta": (drop("output_text.delta"), "the deltas add up to 'llo'"),
    "a text delta twice": (again("output_text.delta"), "the deltas add up to 'hehello'"),
    "a text delta after done": (swap("output_text.delta", "output_text.done"), "the deltas add up to"),
    "a text without done": (drop("output_text.done"), "done before its text"),
    "a text done twice": (again("output_text.done"), "a second done event"),
    "a lost refusal delta": (drop("refusal.delta"), "the deltas add up to 'ver'"),
    "a lost argument delta": (drop("function_call_arguments.delta"), "arguments of fc_1: the deltas"),
    "arguments never done": (drop("function_call_arguments.done"), "arguments of fc_1: the item is done"),
    "arguments that change": (put("output_item.done", "item.arguments", "{}", 2), "the item says '{}'"),
    "a lost custom input delta": (drop("custom_tool_call_input.delta"), "input of ctc_1: the deltas"),
    "a lost summary delta": (drop("reasoning_summary_text.delta"), "summary_index 0 of rs_1"),
    "no summary part": (drop("reasoning_summary_part.added"), "has no part added at summary_index 0"),
    "a lost reasoning delta": (drop("reasoning_text.delta"), "content_index 0 of rs_1"),
    "an item with other content": (
        put("output_item.done", "item.content.0.text", "x", 1),
        "differs from its",
    ),
    "an item with more content": (
        lambda e: e[find(e, "output_item.done", 1)]["item"]["content"].append({"type": "output_text"}),
        "has 3 parts, but 2 were streamed",
    ),
    "a terminal without output": (put("completed", "response.output", None), "no list as output"),
    "a terminal with an item short": (lambda e: e[-1]["response"]["output"].pop(), "4 were streamed"),
    "a terminal with other text": (
        lambda e: e[-1]["response"].update(output=[*e[-1]["response"]["output"][:3], {"id": "ctc_1"}]),
        "output[3] of the terminal differs",
    ),
    "a terminal in another order": (
        lambda e: e[-1]["response"]["output"].reverse(),
        "output[0] of the terminal",
    ),
    "a status that belies the terminal": (put("completed", "response.status", "incomplete"), "says status"),
    "a completed response with an error": (put("completed", "response.error", {}), "has error"),
    "no terminal": (lambda e: e.pop(), "stop without a terminal event"),
    "two terminals": (again("completed"), "came after the terminal event"),
    "an event after the terminal": (
        lambda e: e.append({**e[1], "sequence_number": len(e)}),
        "response.in_progress came after the terminal event",
    ),
    "an error among the events": (lambda e: e.insert(3, {"type": "error"}), "never an event of a run"),
    "a keepalive that takes a number": (
        lambda e: e.insert(3, {"type": "keepalive", "sequence_number": 3}),
        "the last logged one is 2",
    ),
    "a stream_id out of nowhere": (put("in_progress", "stream_id", "a"), "stream_id is 'a', expected None"),
    "a stream_id of null": (put("created", "stream_id", None), "have no such key"),
    "an event without a type": (lambda e: e[3].pop("type"), "has no type"),
}


def test_a_run_with_every_kind_of_item_is_whole() -> None:
    run = check_run(good_run())
    assert (run.response_id, run.text, [call["call_id"] for call in run.calls]) == (
        "resp_1",
        "hello",
        ["call_1", "call_2"],
    )
    assert run.last_number == len(good_run()) - 1


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(name: str) -> None:
    change, message = FAULTS[name]
    events = copy.deepcopy(good_run())
    change(events)
    with pytest.raises(GapError) as caught:
        check_run(events)
    assert message in str(caught.value)


def test_the_message_shows_the_event_and_what_came_before_it() -> None:
    events = good_run()
    del events[4]
    with pytest.raises(GapError) as caught:
        check_run(events)
    assert "event: {'type': 'response.reasoning_summary_text.delta', 'sequence_number': 5" in str(caught.value)
    assert "'sequence_number': 3" in str(caught.value)


def test_a_failed_run_may_leave_items_open() -> None:
    run = check_run(failed_run())
    assert run.terminal is not None
    assert run.terminal["error"]["code"] == "server_error"


def test_a_failed_run_must_keep_what_was_done() -> None:
    events = failed_run()
    events[-1]["response"]["output"] = []
    with pytest.raises(GapError, match="lacks the done item rs_1"):
        check_run(events)


def test_a_failed_run_must_not_invent_items() -> None:
    events = failed_run()
    events[-1]["response"]["output"].append({"id": "msg_9", "type": "message"})
    with pytest.raises(GapError, match="never streamed"):
        check_run(events)


def test_an_incomplete_run_must_not_leave_items_open() -> None:
    events = failed_run()
    response = {**events[-1]["response"], "status": "incomplete", "error": None}
    events[-1] = {**events[-1], "type": "response.incomplete", "response": response}
    with pytest.raises(GapError, match="has no output_item.done"):
        check_run(events)


def test_a_named_lane_is_held_to_its_name() -> None:
    check_run(good_run("main"), stream_id="main")
    with pytest.raises(GapError, match="stream_id is 'main', expected 'other'"):
        check_run(good_run("main"), stream_id="other")
    with pytest.raises(GapError, match="stream_id is 'main', expected None"):
        check_run(good_run("main"), stream_id=None)


def test_every_tail_of_a_whole_run_is_whole() -> None:
    events = good_run()
    for start in range(len(events)):
        check_run(events[start:], start=start)


def test_a_tail_that_starts_elsewhere_is_a_hole() -> None:
    with pytest.raises(GapError, match="sequence_number is 8, expected 7"):
        check_run(good_run()[8:], start=7)


def test_a_lost_delta_is_noticed_in_a_tail_too() -> None:
    events = good_run()
    start = find(events, "output_text.delta")
    tail = copy.deepcopy(events[start:])
    tail[1]["delta"] = "lo"
    with pytest.raises(GapError, match="the deltas add up to 'helo'"):
        check_run(tail, start=start)


def test_a_run_still_going_on_is_whole_when_nobody_asks_for_its_end() -> None:
    assert check_run(good_run()[:9], ended=False).terminal is None


def test_frames_that_take_no_number_do_not_disturb() -> None:
    checker = GapChecker()
    for event in good_run():
        checker.feed(event)
        if event["type"] != "response.completed":
            checker.feed({"type": "keepalive", "sequence_number": event["sequence_number"]})
    checker.feed({"type": "antiphon:detached", "reason": "ended"})
    checker.feed({"type": "response.steer.pending", "sequence_number": checker.last_number})
    assert checker.finish().text == "hello"


def test_interleaved_items_are_whole() -> None:
    events = good_run()
    first = find(events, "output_item.added", 2)
    last = find(events, "output_item.done", 3)
    block = events[first : last + 1]
    calls = [e for e in block if e["output_index"] == 2], [e for e in block if e["output_index"] == 3]
    mixed = [event for pair in zip(*calls, strict=True) for event in pair]
    events[first : last + 1] = mixed
    renumber(events)
    check_run(events)
