"""What follows a round, and what is added up over rounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.assembly.item import OpenItem
from antiphon.core.assembly.outcome import Outcome, failed, normal_usage
from antiphon.core.assembly.server_call import CallResult, ServerTool
from antiphon.core.rounds import add_usage, classify, next_tool_choice, open_calls, server_calls

COMPLETED = Outcome("completed")
TOOL = ServerTool("do", "antiphon")
MAX = 2**53 - 1


def item(kind: str, n: int = 0, status: str = "completed", **fields: Any) -> OpenItem:
    tool = {"server": TOOL, "approval": ServerTool("do", "antiphon", needs_approval=True)}.get(kind)
    given = {"type": "function_call" if tool or kind == "client" else kind, "call_id": f"up_{n}"}
    return OpenItem(f"id_{n}", n, given, f"call_{n}", status=status, tool=tool, **fields)


@pytest.mark.parametrize(
    ("kinds", "step"),
    [
        ([], "done"),
        (["message"], "done"),
        (["server"], "continue"),
        (["message", "server"], "continue"),
        (["client"], "client_action"),
        (["server", "client"], "client_action"),
        (["approval"], "client_action"),
        (["custom_tool_call"], "client_action"),
        (["local_shell_call"], "client_action"),
        (["web_search_call"], "done"),
    ],
)
def test_a_round_goes_on_waits_or_ends_by_who_has_to_answer(kinds: list[str], step: str) -> None:
    items = [item(kind, n) for n, kind in enumerate(kinds)]
    assert classify(items, COMPLETED, 1, 10) == step


def test_calls_of_the_last_allowed_round_leave_it_incomplete_and_clients_still_come_first() -> None:
    assert classify([item("server")], COMPLETED, 9, 10) == "continue"
    assert classify([item("server")], COMPLETED, 10, 10) == "incomplete"
    assert classify([item("server"), item("client", 1)], COMPLETED, 10, 10) == "client_action"
    assert classify([item("message")], COMPLETED, 10, 10) == "done"


@pytest.mark.parametrize("outcome", [Outcome("incomplete", reason="x"), failed("x", "y"), Outcome("cancelled")])
def test_a_round_that_did_not_complete_is_the_last(outcome: Outcome) -> None:
    assert classify([item("server"), item("client", 1)], outcome, 1, 10) == "done"


def test_half_calls_are_nobodys_to_answer() -> None:
    half = [item("server", 0, "incomplete"), item("client", 1, "incomplete"), item("client", 2, "")]
    assert (server_calls(half), open_calls(half)) == ([], [])


def test_an_answered_call_is_open_no_more() -> None:
    call, output = (
        item("client", 0),
        OpenItem("o", 1, {"type": "function_call_output"}, "call_0", status="completed"),
    )
    asked = item("approval", 2)
    said = item("server", 3, approval_request_id="call_2", result=CallResult(output="x"))
    assert open_calls([call, asked]) == [call, asked]
    assert open_calls([call, output, asked, said]) == []


@pytest.mark.parametrize(
    ("choice", "then"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "auto"),
        ({"type": "function", "name": "f"}, "auto"),
        ({"type": "custom", "name": "f"}, "auto"),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [1]},
            {"type": "allowed_tools", "mode": "auto", "tools": [1]},
        ),
    ],
)
def test_what_was_forced_is_free_from_the_second_round_on(choice: Any, then: Any) -> None:
    assert next_tool_choice(choice) == then


counts = st.integers(0, MAX)
usages = st.builds(
    lambda a, b, c, d: normal_usage(
        {
            "input_tokens": a,
            "output_tokens": b,
            "input_tokens_details": {"cached_tokens": c},
            "output_tokens_details": {"reasoning_tokens": d},
        }
    ),
    *[counts] * 4,
)


@given(st.lists(st.none() | usages, max_size=5))
def test_usage_is_the_sum_of_what_was_counted_and_stays_countable(given_: list[dict[str, Any] | None]) -> None:
    total: dict[str, Any] | None = None
    for one in given_:
        total = add_usage(total, one)
    counted = [one for one in given_ if one is not None]
    if not counted:
        assert total is None
        return
    assert total is not None
    for key in ("input_tokens", "output_tokens", "total_tokens"):
        assert total[key] == min(sum(one[key] for one in counted), MAX)
    cached = sum(one["input_tokens_details"]["cached_tokens"] for one in counted)
    assert total["input_tokens_details"]["cached_tokens"] == min(cached, MAX)
    assert total.keys() == counted[0].keys()
