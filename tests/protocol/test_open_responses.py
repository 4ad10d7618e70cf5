"""Whatever our models accept of the shared vocabulary is right by the Open Responses specification too."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import ValidationError

from antiphon_protocol.codes import CODES, INCOMPLETE_REASONS
from antiphon_protocol.events import SERVER_EVENT_TYPES
from tests.support.protocol_text import cases, server_frames
from tests.support.schemas import open_responses_types, validate_open_responses, validate_own

Frame = dict[str, Any]
SHARED = [frame for frame in server_frames() if frame["type"] in open_responses_types()]
OTHER_NAMES = {"response.reasoning.delta", "response.reasoning.done"}
"""The specification's names for what OpenAI's wire calls `response.reasoning_text.*`."""


def example(name: str) -> Frame:
    return copy.deepcopy(next(frame for frame in SHARED if frame["type"] == name))


@pytest.mark.parametrize("frame", SHARED, ids=lambda frame: frame["type"])
def test_an_example_of_the_protocol_is_valid(frame: Frame) -> None:
    validate_open_responses(frame)


def test_the_models_know_every_event_of_the_specification_but_two_names() -> None:
    assert open_responses_types() - SERVER_EVENT_TYPES == OTHER_NAMES


@pytest.mark.parametrize("name", cases())
def test_every_server_frame_of_a_transcript_is_valid(name: str) -> None:
    for step in cases()[name]["steps"]:
        if step["dir"] == "server":
            validate_open_responses(step["frame"])


@pytest.mark.parametrize("code", [code for code, spec in CODES.items() if "run" in spec.place])
def test_a_run_may_fail_with_a_code_of_ours(code: str) -> None:
    frame = example("response.failed")
    frame["response"]["error"]["code"] = code
    validate_open_responses(frame)
    validate_own(frame)


@pytest.mark.parametrize("reason", INCOMPLETE_REASONS)
def test_a_run_may_be_incomplete_for_a_reason_of_ours(reason: str) -> None:
    frame = example("response.incomplete")
    frame["response"]["incomplete_details"]["reason"] = reason
    validate_open_responses(frame)


@pytest.mark.parametrize("field", ["store", "usage", "presence_penalty", "completed_at", "tools", "truncation"])
def test_a_response_without_a_required_field_is_refused(field: str) -> None:
    frame = example("response.completed")
    del frame["response"][field]
    with pytest.raises(ValidationError):
        validate_open_responses(frame)


def test_a_function_tool_that_is_echoed_in_part_is_refused() -> None:
    frame = example("response.created")
    frame["response"]["tools"] = [{"type": "function", "name": "f"}]
    with pytest.raises(ValidationError):
        validate_open_responses(frame)


def test_an_item_of_a_known_kind_must_be_right() -> None:
    frame = example("response.output_item.done")
    frame["item"] = {"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}"}
    with pytest.raises(ValidationError):
        validate_open_responses(frame)


@pytest.mark.parametrize("kind", ["custom_tool_call", "web_search_call"])
def test_an_item_of_a_kind_the_specification_lacks_passes(kind: str) -> None:
    frame = example("response.output_item.done")
    frame["item"] = {"type": kind, "id": "x_1"}
    validate_open_responses(frame)


def test_an_event_the_specification_lacks_is_not_judged() -> None:
    validate_open_responses({"type": "keepalive"})


def test_an_error_of_a_socket_needs_status_and_code() -> None:
    with pytest.raises(ValidationError):
        validate_open_responses({"type": "error", "status": 400, "error": {"message": "m"}})
