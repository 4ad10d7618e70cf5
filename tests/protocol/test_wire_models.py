"""The models know the whole vocabulary, refuse what is wrong and keep what they do not know."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import ValidationError as SchemaError
from pydantic import BaseModel, TypeAdapter, ValidationError

from antiphon_protocol.events import LOG_EVENT_TYPES, SSE_EVENT_TYPES, LogEvent, server_event, sse_event
from antiphon_protocol.extension import Attach, Ok, extension_command
from antiphon_protocol.items import ITEM_TYPES, Item, KnownItem
from antiphon_protocol.requests import create_request
from antiphon_protocol.runstate import RunState
from antiphon_protocol.tools import Tool
from tests.support.protocol_text import CLIENT_TYPES, frames, server_frames
from tests.support.schemas import validate_own, validate_own_client, validate_own_schema

VENDOR = json.loads((Path(__file__).parent / "vendor_types.json").read_text(encoding="utf-8"))
BESIDE = {"error", "response.steer.accepted", "response.steer.pending", "response.steer.failed"}
Frame = dict[str, Any]


def models(union: Any) -> dict[str, type[BaseModel]]:
    """Value of `type` -> model, for a discriminated union."""
    members = get_args(get_args(union)[0])
    return {kind: m for m in members for kind in get_args(m.model_fields["type"].annotation)}


def validate(frame: Frame) -> None:
    if frame["type"] in CLIENT_TYPES:
        validate_own_client(frame)
    else:
        validate_own(frame)


def kind(frame: Frame) -> str:
    return str(frame["type"])


@pytest.mark.parametrize("name", VENDOR["events"])
def test_every_event_of_the_vendor_has_a_model(name: str) -> None:
    assert name in LOG_EVENT_TYPES | BESIDE


def test_no_log_event_is_our_own_invention() -> None:
    assert LOG_EVENT_TYPES | BESIDE == VENDOR["events"].keys()


def test_the_sse_vocabulary_has_59_types() -> None:
    assert len(SSE_EVENT_TYPES) == 59


@pytest.mark.parametrize("name", sorted(LOG_EVENT_TYPES))
def test_fields_the_vendor_requires_of_an_event_are_required(name: str) -> None:
    fields = models(LogEvent)[name].model_fields
    required = {field for field, info in fields.items() if info.is_required()}
    assert required == {"type", "sequence_number", *VENDOR["events"][name]}


def test_every_output_item_of_the_vendor_has_a_model() -> None:
    assert ITEM_TYPES == VENDOR["items"].keys()


@pytest.mark.parametrize("name", sorted(ITEM_TYPES))
def test_fields_the_vendor_requires_of_an_item_are_required(name: str) -> None:
    fields = models(KnownItem)[name].model_fields
    assert {"id", *VENDOR["items"][name]} <= {field for field, info in fields.items() if info.is_required()}


@pytest.mark.parametrize("frame", frames(), ids=kind)
def test_a_frame_comes_out_of_its_model_as_it_went_in(frame: Frame) -> None:
    adapter = server_event if frame in server_frames() and not kind(frame).startswith("antiphon:") else None
    if adapter is None:
        return validate(frame)
    assert adapter.validate_python(frame).wire() == frame


def refused(judge: Callable[[Frame], None], frame: Frame) -> bool:
    try:
        judge(frame)
    except (ValidationError, SchemaError):
        return True
    return False


@pytest.mark.parametrize("frame", frames(), ids=kind)
def test_models_and_schema_agree_about_every_missing_field(frame: Frame) -> None:
    for field in frame.keys() - {"type"}:
        cut = {key: value for key, value in frame.items() if key != field}
        assert refused(validate, cut) == refused(validate_own_schema, cut), field


@pytest.mark.parametrize("frame", frames(), ids=kind)
def test_models_and_schema_agree_about_every_field_of_a_wrong_type(frame: Frame) -> None:
    for field in frame.keys() - {"type"}:
        broken = {**frame, field: [[]]}
        assert refused(validate, broken) == refused(validate_own_schema, broken), field


@pytest.mark.parametrize("frame", server_frames(), ids=kind)
def test_a_server_frame_without_its_number_or_its_run_is_refused(frame: Frame) -> None:
    for field in frame.keys() & {"sequence_number", "response_id", "response", "state", "item_id"}:
        if (frame["type"], field) != ("antiphon:attached", "response"):
            assert refused(validate, {key: value for key, value in frame.items() if key != field}), field


@pytest.mark.parametrize("frame", server_frames(), ids=kind)
@pytest.mark.parametrize("field", ["item_id", "response_id", "stream_id"])
def test_an_empty_id_is_refused(frame: Frame, field: str) -> None:
    if field in frame:
        broken = {**frame, field: ""}
        with pytest.raises(ValidationError):
            validate(broken)
        with pytest.raises(SchemaError):
            validate_own_schema(broken)


@pytest.mark.parametrize("wrong", ["0", 1.5, -1, None, True])
def test_a_number_that_is_no_count_is_refused(wrong: object) -> None:
    frame = {"type": "keepalive", "sequence_number": wrong}
    with pytest.raises(ValidationError):
        validate_own(frame)


def test_an_event_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValidationError):
        validate_own({"type": "response.dreamt", "sequence_number": 1})


def test_an_item_of_an_unknown_kind_passes_unchanged() -> None:
    item = {"type": "acme:diagram", "id": "dg_1", "nodes": [{"x": 1}]}
    event = {"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": item}
    assert server_event.validate_python(event).wire() == event
    validate_own_schema(event)


def test_an_item_of_a_known_kind_does_not_pass_as_an_unknown_one() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Item)
    with pytest.raises(ValidationError):
        adapter.validate_python({"type": "function_call", "id": "fc_1"})


def test_a_part_of_an_unknown_kind_passes_inside_a_message() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Item)
    parts = [{"type": "acme:sketch", "svg": "<svg/>"}]
    message = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": parts}
    assert adapter.validate_python(message).wire() == message


def test_a_tool_of_an_unknown_kind_passes_unchanged() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Tool)
    tool = {"type": "acme:robot", "arm": 2}
    assert adapter.validate_python(tool).wire() == tool


def test_an_unknown_field_is_kept() -> None:
    frame = {"type": "keepalive", "sequence_number": 1, "later": {"a": [1]}}
    assert server_event.validate_python(frame).wire() == frame


def terminal(name: str) -> Frame:
    return copy.deepcopy(next(frame for frame in server_frames() if frame["type"] == name))


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("response.completed", "in_progress"),
        ("response.failed", "completed"),
        ("response.incomplete", "failed"),
        ("response.created", "completed"),
    ],
)
def test_a_lifecycle_event_whose_response_says_otherwise_is_refused(name: str, status: str) -> None:
    frame = terminal(name)
    frame["response"]["status"] = status
    with pytest.raises(ValidationError):
        validate_own(frame)


def test_a_failed_response_without_an_error_is_refused() -> None:
    frame = terminal("response.failed")
    frame["response"]["error"] = None
    with pytest.raises(ValidationError):
        validate_own(frame)


def test_an_incomplete_response_without_a_reason_is_refused() -> None:
    frame = terminal("response.incomplete")
    frame["response"]["incomplete_details"] = None
    with pytest.raises(ValidationError):
        validate_own(frame)


def test_a_cancelled_response_ends_with_response_incomplete() -> None:
    assert terminal("response.incomplete")["response"]["status"] == "cancelled"


def test_an_error_frame_needs_an_integer_status() -> None:
    frame = terminal("error")
    with pytest.raises(ValidationError):
        validate_own({**frame, "status": "400"})


def test_the_flat_error_of_sse_is_known_and_is_no_frame_of_a_socket() -> None:
    flat = {"type": "error", "code": "x", "message": "m", "param": None, "sequence_number": 3}
    assert sse_event.validate_python(flat).wire() == flat
    with pytest.raises(ValidationError):
        validate_own(flat)


def test_an_attach_without_a_position_starts_at_the_beginning() -> None:
    command = extension_command.validate_python({"type": "antiphon:attach", "id": "1", "response_id": "resp_1"})
    assert isinstance(command, Attach)
    assert command.after == "start"


@pytest.mark.parametrize("after", [-1, "later", 1.5, "3", None])
def test_a_position_that_is_none_is_refused(after: object) -> None:
    with pytest.raises(ValidationError):
        extension_command.validate_python(
            {"type": "antiphon:attach", "id": "1", "response_id": "resp_1", "after": after}
        )


@pytest.mark.parametrize("identifier", [None, "", 7, "x" * 257])
def test_a_command_without_a_usable_id_is_refused(identifier: object) -> None:
    with pytest.raises(ValidationError):
        extension_command.validate_python({"type": "antiphon:ping", "id": identifier})


def test_an_optional_field_that_is_not_there_is_not_sent() -> None:
    assert Ok(id="c1").wire() == {"type": "antiphon:ok", "id": "c1"}


def test_a_run_state_needs_nothing_of_later_releases() -> None:
    state = RunState(
        response_id="resp_1",
        tenant="default",
        epoch="e1",
        revision=0,
        state="queued",
        model="antiphon/echo",
        origin="websocket",
        principal="user:local",
        created_at=1.0,
        updated_at=1.0,
        head=0,
    ).wire()
    assert [state[key] for key in ("pending_calls", "resolved_calls", "participants", "steers")] == [
        [],
        [],
        [],
        [],
    ]
    assert state["terminal"] is None


def test_a_create_keeps_fields_and_items_it_does_not_know() -> None:
    body = {
        "model": "m",
        "input": [{"role": "user", "content": "hi"}, {"type": "acme:note", "text": 1}],
        "client_metadata": {"session_id": "s"},
    }
    dumped = create_request.validate_python(body).wire()
    assert dumped["client_metadata"] == body["client_metadata"]
    assert dumped["input"][1] == {"type": "acme:note", "text": 1}


def test_an_unknown_key_in_our_own_object_is_refused() -> None:
    with pytest.raises(ValidationError, match="on_disconect"):
        create_request.validate_python({"model": "m", "antiphon": {"on_disconect": 3}})


def test_a_create_may_leave_its_model_to_the_server_but_not_name_an_empty_one() -> None:
    create_request.validate_python({"input": "hi"})
    with pytest.raises(ValidationError, match="model"):
        create_request.validate_python({"model": "", "input": "hi"})
