"""What a response continues from: shared chains, open calls, and outputs that reach the call they answer."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.assembly.outcome import Outcome, cancelled, failed
from antiphon.core.history import (
    OpenCall,
    Turn,
    answered_call_id,
    check_continuable,
    encode_history,
    encode_items,
    encoded_size,
    finished_output,
    history_parts,
    resolve_outputs,
)
from antiphon.errors import RequestError
from tests.core.runs import drive
from tests.core.upstream_streams import terminal

Item = dict[str, Any]


def turn(
    name: str = "resp_1",
    *,
    parent: Turn | None = None,
    status: str = "completed",
    calls: tuple[OpenCall, ...] = (),
    **rest: Any,
) -> Turn:
    fields: dict[str, Any] = {
        "tenant": "t",
        "creator": "user:anna",
        "visibility": "tenant",
        "conversation_id": "conv_1",
        "stored": True,
        "input": b"",
        "output": b"",
        **rest,
    }
    return Turn(response_id=name, status=status, parent=parent, open_calls=calls, **fields)


def open_call(call_id: str, theirs: str | None = "up", kind: str = "function_call") -> OpenCall:
    return OpenCall(call_id, theirs, "f", kind)


def output(call_id: Any, said: str = "ok", kind: str = "function_call_output") -> Item:
    return {"type": kind, "call_id": call_id, "output": said}


def refusal(parent: Turn | None, items: list[Item]) -> RequestError:
    with pytest.raises(RequestError) as refused:
        resolve_outputs(parent, items)
    assert refused.value.status == 400
    return refused.value


USER = {"type": "message", "role": "user", "content": "and now?"}


# Chains


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12), st.integers(0, 2))
def test_a_history_is_every_input_and_output_of_the_chain_in_order(turns: list[tuple[int, int]], new: int) -> None:
    parent: Turn | None = None
    whole: list[Item] = []
    for number, (asked, said) in enumerate(turns):
        inputs = [{"n": number, "in": i} for i in range(asked)]
        outputs = [{"n": number, "out": i} for i in range(said)]
        whole += inputs + outputs
        parent = turn(f"resp_{number}", parent=parent, input=encode_items(inputs), output=encode_items(outputs))
    fresh = [{"new": i} for i in range(new)]
    encoded = encode_history(parent, encode_items(fresh))
    assert orjson.loads(encoded) == whole + fresh
    assert encoded_size(history_parts(parent, encode_items(fresh))) == len(encoded)


def test_many_turns_can_continue_one_parent_without_copying_it() -> None:
    root = turn(input=b'{"a":1}')
    children = [turn(f"resp_{i}", parent=root, input=b'{"i":%d}' % i) for i in range(3)]
    assert all(child.parent is root for child in children)
    histories = [orjson.loads(encode_history(child, b"")) for child in children]
    assert histories == [[{"a": 1}, {"i": i}] for i in range(3)]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=14))
def test_every_turn_of_a_tree_reads_its_own_ancestors_whatever_grew_beside_it(
    grown: list[tuple[int, bool, bool]],
) -> None:
    turns: list[Turn] = []
    said: list[list[int]] = []
    for number, (of, is_compacted, is_read) in enumerate(grown):
        parent = of % len(turns) if turns else None
        before = [] if is_compacted or parent is None else said[parent]
        turns.append(
            turn(
                f"resp_{number}",
                parent=turns[parent] if parent is not None else None,
                input=b"%d" % number,
                output=b"%d" % -number if number % 3 else b"",
                compacted=b"%d" % number if is_compacted else None,
            )
        )
        said.append([*before, number, *([-number] if number % 3 else [])])
        if is_read:
            assert orjson.loads(encode_history(turns[-1], b"")) == said[-1]
    for one, expected in zip(turns, said, strict=True):
        assert orjson.loads(encode_history(one, b"1000")) == [*expected, 1000]


def test_a_chain_of_many_turns_is_walked_without_recursion() -> None:
    parent: Turn | None = None
    for number in range(20_000):
        parent = turn(f"resp_{number}", parent=parent, input=b"1")
    assert encode_history(parent, b"2").count(b"1") == 20_000


def test_an_empty_history_is_an_empty_list() -> None:
    assert encode_history(None, b"") == b"[]"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("failed", "response_not_continuable"),
        ("in_progress", "response_in_progress"),
        ("queued", "response_in_progress"),
    ],
)
def test_a_response_that_failed_or_goes_on_cannot_be_continued(status: str, code: str) -> None:
    with pytest.raises(RequestError) as refused:
        check_continuable(turn(status=status))
    assert (refused.value.code, refused.value.param) == (code, "previous_response_id")


@pytest.mark.parametrize("status", ["completed", "incomplete", "cancelled"])
def test_a_response_that_ended_otherwise_can_be_continued(status: str) -> None:
    check_continuable(turn(status=status))


def test_what_json_cannot_hold_is_refused_not_a_crash() -> None:
    with pytest.raises(RequestError) as refused:
        encode_items([{"n": 2**70}])
    assert refused.value.code == "invalid_json"


# Outputs


def test_an_input_without_outputs_passes_where_no_call_is_open() -> None:
    assert resolve_outputs(turn(), [USER]) == [USER]
    assert resolve_outputs(None, [USER]) == [USER]


def test_outputs_get_the_upstreams_ids_and_keep_their_place_among_other_items() -> None:
    parent = turn(calls=(open_call("call_1", "a"), open_call("call_2", "b")))
    mapped = resolve_outputs(parent, [output("call_2"), USER, output("call_1")])
    assert mapped == [output("b"), USER, output("a")]


def test_what_the_client_sent_is_not_changed() -> None:
    items = [output("call_1")]
    resolve_outputs(turn(calls=(open_call("call_1"),)), items)
    assert items == [output("call_1")]


def test_a_call_the_upstream_gave_no_id_is_answered_by_ours() -> None:
    assert resolve_outputs(turn(calls=(open_call("call_1", None),)), [output("call_1")]) == [output("call_1")]


def test_every_missing_output_is_named() -> None:
    parent = turn(calls=(open_call("call_1"), open_call("call_2"), open_call("call_3")))
    error = refusal(parent, [output("call_2")])
    assert error.code == "tool_output_missing"
    assert "call_1" in error.message and "call_3" in error.message and "call_2" not in error.message


def test_plain_words_do_not_get_past_an_open_call() -> None:
    assert refusal(turn(calls=(open_call("call_1"),)), [USER]).code == "tool_output_missing"


def test_an_output_for_a_call_nobody_made_is_named() -> None:
    error = refusal(turn(), [output("invented")])
    assert error.code == "tool_output_unknown"
    assert "invented" in error.message


def test_an_output_without_any_parent_is_unknown() -> None:
    assert refusal(None, [output("call_1")]).code == "tool_output_unknown"


def test_the_upstreams_own_id_of_a_call_answers_nothing() -> None:
    assert refusal(turn(calls=(open_call("call_1", "up"),)), [output("up")]).code == "tool_output_unknown"


def test_two_outputs_for_one_call_are_a_duplicate() -> None:
    error = refusal(turn(calls=(open_call("call_1"),)), [output("call_1"), output("call_1", "again")])
    assert error.code == "tool_output_duplicate"
    assert "call_1" in error.message


def test_an_output_for_a_call_that_an_earlier_turn_answered_is_a_duplicate() -> None:
    asked = turn("resp_1", calls=(open_call("call_1"),))
    answered = turn("resp_2", parent=asked)
    error = refusal(turn("resp_3", parent=answered), [output("call_1")])
    assert error.code == "tool_output_duplicate"


def test_only_the_ids_that_nobody_knows_are_called_unknown() -> None:
    answered = turn("resp_2", parent=turn("resp_1", calls=(open_call("call_old"),)))
    error = refusal(answered, [output("call_old"), output("invented")])
    assert error.code == "tool_output_unknown"
    assert "call_old" not in error.message


def test_calls_of_a_whole_history_are_answered_within_it() -> None:
    call = {"type": "function_call", "call_id": "mine", "name": "f", "arguments": "{}"}
    items = [USER, call, output("mine"), USER]
    assert resolve_outputs(None, items) == items
    assert refusal(None, [USER, call]).code == "tool_output_missing"
    assert refusal(None, [call, output("mine"), output("mine")]).code == "tool_output_duplicate"


@pytest.mark.parametrize(
    "opaque", [{"type": "compaction", "encrypted_content": "e"}, {"type": "item_reference", "id": "fc_1"}]
)
def test_an_output_whose_call_may_be_hidden_in_another_item_passes(opaque: Item) -> None:
    items = [opaque, output("hidden")]
    assert resolve_outputs(None, items) == items


def test_a_hidden_history_does_not_excuse_an_open_call() -> None:
    parent = turn(calls=(open_call("call_1"),))
    assert refusal(parent, [{"type": "compaction"}, output("hidden")]).code == "tool_output_missing"


@given(st.permutations(range(4)))
def test_outputs_of_calls_that_share_an_id_go_to_the_upstream_in_the_order_of_the_calls(order: list[int]) -> None:
    parent = turn(calls=tuple(open_call(f"call_{n}", "x" if n != 2 else "own") for n in range(4)))
    mapped = resolve_outputs(parent, [output(f"call_{n}", str(n)) for n in order])
    assert [item["output"] for item in mapped if item["call_id"] == "x"] == ["0", "1", "3"]
    assert mapped[order.index(2)] == output("own", "2")


def test_an_output_of_a_local_shell_names_its_call_in_the_id() -> None:
    item = {"type": "local_shell_call_output", "id": "call_1", "output": "{}"}
    assert answered_call_id(item) == "call_1"
    mapped = resolve_outputs(turn(calls=(open_call("call_1", "up", "local_shell_call"),)), [item])
    assert mapped == [{**item, "id": "up"}]


@pytest.mark.parametrize(
    "item",
    [
        USER,
        {"type": "function_call", "call_id": "c"},
        {"type": "function_call_output"},
        {"type": "hologram_output", "call_id": "c"},
        {},
    ],
)
def test_items_that_answer_no_call_answer_none(item: Item) -> None:
    assert answered_call_id(item) is None


def test_a_refusal_of_very_many_ids_is_still_short() -> None:
    error = refusal(None, [output("x" * 5_000 + str(n)) for n in range(1_000)])
    assert len(error.message) < 3_000


def test_a_whole_history_of_many_calls_is_checked_in_one_pass() -> None:
    items: list[Item] = []
    for number in range(20_000):
        items.append({"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"})
        items.append(output(f"c{number}"))
    assert resolve_outputs(None, items) == items


# What a finished response adds


def call_events(call_id: str, index: int, *, whole: bool = True) -> list[Item]:
    item = {"type": "function_call", "id": f"i{index}", "call_id": call_id, "name": "f", "arguments": ""}
    where = {"output_index": index, "item_id": f"i{index}"}
    events = [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        {"type": "response.function_call_arguments.delta", **where, "delta": '{"a"'},
    ]
    if whole:
        events.append(
            {"type": "response.output_item.done", "output_index": index, "item": {**item, "arguments": '{"a":1}'}}
        )
    return events


def said(text: str, index: int) -> Item:
    return {"type": "response.output_text.delta", "output_index": index, "item_id": f"m{index}", "delta": text}


def finish(events: list[Item], end: Outcome | None = None) -> tuple[list[Item], tuple[OpenCall, ...]]:
    assembler, _ = drive(events, end)
    encoded, calls = finished_output(assembler.items, assembler.outcome or end or failed("upstream_error", "x"))
    return orjson.loads(b"[" + encoded + b"]"), calls


def test_a_completed_call_is_open_and_goes_back_in_the_upstreams_ids() -> None:
    items, calls = finish([*call_events("up", 0), terminal("completed", [])])
    assert items == [{"type": "function_call", "id": "i0", "call_id": "up", "name": "f", "arguments": '{"a":1}'}]
    assert [(call.call_id.startswith("call_"), call.upstream_call_id, call.name) for call in calls] == [
        (True, "up", "f")
    ]


def test_a_call_with_a_constant_id_can_be_answered_each_by_its_own() -> None:
    items, calls = finish([*call_events("x", 0), *call_events("x", 1), terminal("completed", [])])
    assert [item["call_id"] for item in items] == ["x", "x"]
    assert len({call.call_id for call in calls}) == 2
    parent = turn(calls=calls)
    mapped = resolve_outputs(parent, [output(calls[1].call_id, "second"), output(calls[0].call_id, "first")])
    assert [(item["call_id"], item["output"]) for item in mapped] == [("x", "first"), ("x", "second")]


def test_a_call_without_an_id_gets_ours_in_the_history_too() -> None:
    item = {"type": "function_call", "name": "f", "arguments": "{}"}
    items, calls = finish(
        [{"type": "response.output_item.done", "output_index": 0, "item": item}, terminal("completed", [])]
    )
    assert items[0]["call_id"] == calls[0].call_id
    assert "id" not in items[0]


def test_an_incomplete_response_keeps_partial_text_and_finished_calls_and_drops_half_ones() -> None:
    events = [
        said("half", 0),
        *call_events("whole", 1),
        *call_events("cut", 2, whole=False),
        terminal("incomplete", []),
    ]
    items, calls = finish(events)
    assert [item["type"] for item in items] == ["message", "function_call"]
    assert items[0]["content"][0]["text"] == "half"
    assert [call.upstream_call_id for call in calls] == ["whole"]


def test_a_cancelled_response_keeps_its_text_and_none_of_its_unanswered_calls() -> None:
    items, calls = finish(
        [said("half", 0), *call_events("whole", 1), *call_events("cut", 2, whole=False)], cancelled("user:anna")
    )
    assert [item["type"] for item in items] == ["message"]
    assert calls == ()


def test_a_cancelled_response_keeps_calls_that_were_answered_within_it_with_their_answers() -> None:
    shell = {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": []}, "status": "completed"}
    answer = {"type": "shell_call_output", "id": "o", "call_id": "c", "output": [], "status": "completed"}
    events = [
        {"type": "response.output_item.done", "output_index": n, "item": i} for n, i in enumerate((shell, answer))
    ]
    items, calls = finish(events, cancelled("user:anna"))
    assert [item["type"] for item in items] == ["shell_call", "shell_call_output"]
    assert calls == ()


def test_a_reasoning_item_goes_back_as_it_came() -> None:
    item = {
        "type": "reasoning",
        "id": "r",
        "summary": [{"type": "summary_text", "text": "s"}],
        "encrypted_content": "e",
    }
    items, _ = finish(
        [{"type": "response.output_item.done", "output_index": 0, "item": item}, terminal("completed", [])]
    )
    assert items == [item]


def test_an_item_of_an_unknown_kind_goes_back_as_it_came() -> None:
    item = {"type": "hologram", "id": "h", "beam": {"width": 2}}
    items, _ = finish(
        [{"type": "response.output_item.done", "output_index": 0, "item": item}, terminal("completed", [])]
    )
    assert items == [item]
