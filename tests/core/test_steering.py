"""Steers of a run: what is taken, and what the end of the run makes of them (PROTOCOL 7.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.assembly.outcome import Outcome, cancelled, failed
from antiphon.core.history import OpenCall
from antiphon.core.steering import MAX_STEERS, STEERED, SteerBook, required_input, steer_items
from antiphon.errors import RequestError
from antiphon_protocol.codes import INCOMPLETE_REASONS
from antiphon_protocol.notices import SteerPending

LEAD_ON = ("steered", "max_tool_rounds", "loop_detected")
OURS = sorted(INCOMPLETE_REASONS.keys() - set(LEAD_ON))
GO_ON = [
    Outcome("completed"),
    STEERED,
    *(Outcome("incomplete", reason=reason) for reason in (*LEAD_ON, "max_output_tokens")),
]
STAY = [
    failed("server_error", "x"),
    cancelled("user:a"),
    *(Outcome("incomplete", reason=reason) for reason in OURS),
]

texts = st.text(min_size=1, max_size=20)
parts = st.one_of(
    texts.map(lambda text: {"type": "input_text", "text": text}),
    st.just({"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}),
    st.just({"type": "input_file", "file_id": "file_1"}),
)
messages = st.builds(
    lambda content, named: {**({"type": "message"} if named else {}), "role": "user", "content": content},
    st.one_of(texts, st.lists(parts, min_size=1, max_size=3)),
    st.booleans(),
)
inputs = st.one_of(texts, st.lists(messages, min_size=1, max_size=3))


def message(content: Any = "hi", **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


def book_of(*given: Any) -> SteerBook:
    book = SteerBook()
    for number, one in enumerate(given):
        book.add(f"steer_{number}", "user:a", one)
    return book


def refused(given: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        steer_items(given)
    return caught.value


@given(st.lists(inputs, min_size=1, max_size=MAX_STEERS))
def test_everything_said_is_in_the_items_in_the_order_in_which_it_was_said(said: list[Any]) -> None:
    wanted = [
        {"type": "message", "role": "user", "content": one["content"] if isinstance(one, dict) else one}
        for given in said
        for one in ([given] if isinstance(given, str) else given)
    ]
    assert book_of(*said).items() == wanted


@given(st.lists(inputs, max_size=4), st.sampled_from(GO_ON + STAY), st.booleans())
def test_each_end_leaves_every_steer_in_the_one_stage_it_means(
    said: list[Any], outcome: Outcome, open_calls: bool
) -> None:
    book = book_of(*said)
    settlement = book.settle(outcome, open_calls)
    if not said:
        wanted, stage = "none", None
    elif outcome in STAY:
        wanted, stage = "failed", "failed"
    else:
        wanted, stage = ("pending", "pending") if open_calls else ("successor", "applied")
    assert settlement == wanted
    assert {row["stage"] for row in book.rows()} == ({stage} if said else set())
    assert not book.waiting
    assert book.settle(failed("server_error", "x"), False) == "none"
    with pytest.raises(RequestError) as late:
        book.add("steer_x", "user:a", "too late")
    assert late.value.code == "response_not_active"


@given(st.lists(inputs, max_size=4))
def test_a_book_survives_a_restart_whole(said: list[Any]) -> None:
    book = book_of(*said)
    again = SteerBook.restored(book.snapshot())
    assert (again.rows(), again.items(), again.waiting) == (book.rows(), book.items(), book.waiting)


@given(
    st.recursive(
        st.one_of(
            st.none(), st.integers(), st.text(max_size=8), st.sampled_from(["user", "message", "input_text"])
        ),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["type", "role", "content", "text", "id"]), inner, max_size=4)
        ),
        max_leaves=8,
    )
)
def test_anything_else_is_refused_as_invalid_input_and_never_crashes(given: Any) -> None:
    try:
        items = steer_items(given)
    except RequestError as error:
        assert error.code == "invalid_input"
    else:
        assert items and all(item["role"] == "user" and item["type"] == "message" for item in items)


def test_the_33rd_steer_is_refused_and_the_others_stay() -> None:
    book = book_of(*(["more"] * MAX_STEERS))
    with pytest.raises(RequestError) as caught:
        book.add("steer_x", "user:a", "one too many")
    assert caught.value.code == "too_many_pending_steers"
    assert len(book) == MAX_STEERS == 32


def test_pending_steers_end_applied_or_failed() -> None:
    for end, stage in ((SteerBook.apply, "applied"), (SteerBook.fail, "failed")):
        book = book_of("a", "b")
        assert book.settle(Outcome("completed"), True) == "pending"
        end(book)
        assert [row["stage"] for row in book.rows()] == [stage, stage]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("", "input"),
        ([], "input"),
        (7, "input"),
        (["hi"], "input[0]"),
        ([{"type": "function_call_output", "call_id": "call_1", "output": "4"}], "input[0]"),
        ([message(), message(role="developer")], "input[1].role"),
        ([message(id="msg_1")], "input[0].id"),
        ([message("")], "input[0].content"),
        ([message([])], "input[0].content"),
        ([message([{"type": "output_text", "text": "x"}])], "input[0].content[0]"),
        ([message([{"type": "input_text"}])], "input[0].content[0].text"),
        ([message(["hi"])], "input[0].content[0]"),
    ],
)
def test_the_fault_of_an_input_is_named(given: Any, place: str) -> None:
    error = refused(given)
    assert (error.code, error.param) == ("invalid_input", place)


def test_each_kind_of_open_call_has_the_stub_the_wire_knows() -> None:
    kinds = [
        "function_call",
        "custom_tool_call",
        "computer_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "tool_search_call",
        "mcp_approval_request",
    ]
    stubs = required_input([OpenCall(f"call_{kind}", None, "x", kind) for kind in kinds])
    assert stubs[0] == {"type": "function_call_output", "call_id": "call_function_call", "name": "x"}
    assert stubs[-1] == {"type": "mcp_approval_response", "approval_request_id": "call_mcp_approval_request"}
    SteerPending.model_validate(
        {
            "type": "response.steer.pending",
            "sequence_number": 1,
            "reason": "waiting_for_required_input",
            "required_input": stubs,
            "steer": {"id": "steer_1", "previous_response_id": "resp_1"},
        }
    )


def test_a_withdrawn_steer_was_never_said_and_once_the_end_is_decided_none_can_be() -> None:
    book = book_of("first", "second")
    first, second = book
    assert book.withdraw(first)
    assert [row["id"] for row in book.rows()] == [second.id]
    assert book.settle(Outcome("completed"), False) == "successor"
    assert not book.withdraw(second)
    assert len(book) == 1
