"""What a turn leaves in a conversation, and what the next one has to answer (PROTOCOL 11.9)."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.conversation_requests import calls_without_output, left_in_conversation
from antiphon.errors import RequestError

SAID = {"type": "message", "role": "assistant", "content": []}


def call(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "ok"}


def test_calls_stay_that_were_answered_or_wait_and_those_nobody_will_answer_go() -> None:
    turn = [SAID, call("answered"), call("waits"), call("cut"), output("answered")]
    assert left_in_conversation(turn, ["waits"]) == [SAID, call("answered"), call("waits"), output("answered")]


def test_calls_of_the_server_stay_whatever_became_of_them() -> None:
    turn = [{"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}"}]
    assert left_in_conversation(turn, []) == turn


def test_calls_without_an_output_are_found_in_their_order() -> None:
    assert calls_without_output([call("a"), call("b"), call("c"), output("b")], compacted=False) == [
        call("a"),
        call("c"),
    ]


def test_an_output_without_its_call_is_refused_unless_a_compaction_may_hold_the_call() -> None:
    with pytest.raises(RequestError) as caught:
        calls_without_output([output("a")], compacted=False)
    assert (caught.value.code, caught.value.param) == ("tool_output_unknown", "conversation")
    assert calls_without_output([output("a")], compacted=True) == []
