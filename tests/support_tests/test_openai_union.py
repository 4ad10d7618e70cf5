"""The check against openai-python's models passes what the SDK takes and names what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.openai_union import validate_with_openai

pytestmark = pytest.mark.clients


def response(**fields: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        **fields,
    }


def completed(**fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "sequence_number": 1, "response": response(**fields)}


async def test_a_whole_event_passes_and_frames_outside_the_union_are_left_out() -> None:
    frames = [completed(), {"type": "keepalive", "sequence_number": 1}, {"type": "antiphon:welcome"}]
    await validate_with_openai(frames)
    await validate_with_openai(frames, "sse")


async def test_each_fault_is_named_with_its_place() -> None:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": "text"}
    bad = [
        completed(model=None),
        completed(output=[item]),
        {"type": "response.output_text.delta", "sequence_number": "2"},
        {"type": "response.unheard_of", "sequence_number": 3},
    ]
    with pytest.raises(AssertionError) as caught:
        await validate_with_openai(bad)
    for words in ("response.model", "content", "sequence_number: ", "'response.unheard_of' is not in the union"):
        assert words in str(caught.value)


async def test_the_two_shapes_of_error_are_told_apart() -> None:
    nested = {"type": "error", "status": 400, "error": {"type": "t", "code": "c", "message": "m", "param": None}}
    flat = {"type": "error", "code": "c", "message": "m", "param": None, "sequence_number": 1}
    await validate_with_openai([nested], "websocket")
    await validate_with_openai([flat], "sse")
    with pytest.raises(AssertionError, match="message"):
        await validate_with_openai([nested], "sse")


async def test_only_our_own_codes_may_deviate() -> None:
    def failed(code: str) -> dict[str, Any]:
        error = {"code": code, "message": "m"}
        return {
            "type": "response.failed",
            "sequence_number": 1,
            "response": response(status="failed", error=error),
        }

    await validate_with_openai([failed("server_lost")])
    with pytest.raises(AssertionError, match="code"):
        await validate_with_openai([failed("made_up")])
