"""The response object: whole from the first event on, whatever was asked for."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.core.assembly.outcome import (
    Outcome,
    cancelled,
    failed,
    from_error_event,
    from_response,
    normal_usage,
)
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.core.create_request import parse_create
from antiphon.core.json_input import parse_object
from antiphon.errors import RequestError
from antiphon_protocol.response import Response
from antiphon_protocol.response import Usage as WireUsage
from tests.support.protocol_text import examples
from tests.support.schemas import validate_open_responses, validate_own

USAGE = normal_usage({"input_tokens": 3, "output_tokens": 4})


def response(status: str = "in_progress", outcome: Outcome | None = None, **request: Any) -> dict[str, Any]:
    made = ResponseObject("resp_1", 1_764_514_000, {"model": "m", **request})
    if status == "completed":
        made.completed_at = 1_764_514_003
    found: dict[str, Any] = orjson.loads(made.encode(status, b"[]", outcome))
    return found


def test_it_has_every_key_of_the_protocols_example_and_none_that_is_unknown() -> None:
    example = next(e.load() for e in examples() if e.model == "Response")
    keys = set(response())
    assert set(example) <= keys
    assert keys <= set(Response.model_fields)


def test_what_was_not_asked_for_has_the_values_of_the_protocols_example() -> None:
    example = next(e.load() for e in examples() if e.model == "Response")
    own = ("id", "model", "tools", "created_at")
    assert {k: v for k, v in response().items() if k in example and k not in own} == {
        k: v for k, v in example.items() if k not in own
    }


def test_settings_are_echoed_as_they_were_asked_for() -> None:
    asked: dict[str, Any] = {
        "instructions": "Be brief.",
        "temperature": 0,
        "top_p": 0.5,
        "store": False,
        "parallel_tool_calls": False,
        "metadata": {"a": "b"},
        "truncation": "auto",
        "user": "u",
        "background": True,
        "max_output_tokens": 5,
        "previous_response_id": "resp_0",
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "service_tier": "flex",
    }
    echoed = response(**asked)
    assert {key: echoed[key] for key in asked} == asked


def test_a_setting_that_is_null_is_echoed_with_its_default() -> None:
    assert (
        response(temperature=None, store=None, tools=None, metadata=None, text=None, reasoning=None) == response()
    )


def test_a_function_is_echoed_with_all_its_fields() -> None:
    tool = {"type": "function", "name": "f"}
    assert response(tools=[tool])["tools"] == [{**tool, "description": None, "parameters": None, "strict": None}]


def test_credentials_of_an_mcp_server_are_not_echoed() -> None:
    tool = {
        "type": "mcp",
        "server_label": "s",
        "server_url": "u",
        "authorization": "SECRET",
        "headers": {"x": "SECRET"},
    }
    encoded = ResponseObject("resp_1", 1, {"model": "m", "tools": [tool]}).encode("in_progress", b"[]")
    assert b"SECRET" not in encoded
    assert orjson.loads(encoded)["tools"] == [{"type": "mcp", "server_label": "s", "server_url": "u"}]


def test_what_is_ours_alone_is_not_echoed() -> None:
    secret: dict[str, Any] = {
        "antiphon": {"upstream_authorization": "SECRET"},
        "idempotency_key": "SECRET",
        "stream_id": "SECRET",
    }
    assert "SECRET" not in str(response(**secret, input="SECRET", generate=False))


@pytest.mark.parametrize(
    ("outcome", "kind", "expected"),
    [
        (Outcome("completed", usage=USAGE), "response.completed", {"completed_at": 1_764_514_003}),
        (
            Outcome("incomplete", reason="max_output_tokens"),
            "response.incomplete",
            {"incomplete_details": {"reason": "max_output_tokens"}},
        ),
        (cancelled("user:anna"), "response.incomplete", {"incomplete_details": {"reason": "cancelled"}}),
        (
            failed("server_lost", "Gone."),
            "response.failed",
            {"error": {"code": "server_lost", "message": "Gone."}},
        ),
    ],
)
def test_each_end_says_why_and_nothing_else(outcome: Outcome, kind: str, expected: dict[str, Any]) -> None:
    found = response(outcome.status, outcome)
    assert outcome.event_type == kind
    blank = {"completed_at": None, "incomplete_details": None, "error": None}
    assert {key: found[key] for key in blank} == blank | expected
    event = {"type": kind, "sequence_number": 0, "response": found}
    validate_own(event)
    validate_open_responses(event)


def test_the_principal_who_cancelled_is_not_in_the_response() -> None:
    assert "anna" not in str(response("cancelled", cancelled("user:anna")))


asked = st.fixed_dictionaries(
    {},
    optional={
        "instructions": st.none() | st.text(max_size=5) | st.just([]),
        "temperature": st.sampled_from([None, 0, 1, 2, 0.5, 3, "1", True]),
        "top_p": st.sampled_from([None, 0, 1.0, 7, "x"]),
        "tools": st.lists(
            st.sampled_from(
                [
                    {"type": "function", "name": "f"},
                    {
                        "type": "function",
                        "name": "f",
                        "parameters": {"type": "object"},
                        "strict": True,
                        "description": "d",
                    },
                    {"type": "function", "name": 5},
                    {"type": "function"},
                    {"type": "custom", "name": "c", "format": {"type": "text"}},
                    {"type": "custom"},
                    {"type": "mcp", "server_label": "s", "headers": {"a": "b"}},
                    {"type": "hologram", "strict": "x"},
                    {"type": 5},
                ]
            ),
            max_size=2,
        ),
        "tool_choice": st.sampled_from(
            [
                "auto",
                "none",
                "banana",
                {"type": "function", "name": "f"},
                {"type": "function"},
                {"type": "web_search"},
                {},
            ]
        ),
        "metadata": st.sampled_from([None, {}, {"a": "b"}, {"a": 1}]),
        "text": st.sampled_from(
            [
                None,
                {},
                {"format": None},
                {"format": {"type": "text"}},
                {"format": {"type": "new"}},
                {"format": "x"},
                {"verbosity": "low"},
                {"verbosity": 5},
            ]
        ),
        "reasoning": st.sampled_from(
            [None, {}, {"effort": "low"}, {"effort": 5}, {"summary": None}, {"summary": []}, {"new": 1}]
        ),
        "presence_penalty": st.sampled_from([None, 0, 1.5, "x", 9]),
        "frequency_penalty": st.sampled_from([None, -2, {}]),
        "truncation": st.sampled_from([None, "auto", "x"]),
        "service_tier": st.sampled_from([None, "flex", 5]),
        "max_tool_calls": st.sampled_from([None, 1, -1]),
        "max_output_tokens": st.sampled_from([None, 16, 0, 1.5]),
        "top_logprobs": st.sampled_from([None, 0, 20, 21]),
        "store": st.sampled_from([None, True, False, "x"]),
        "background": st.sampled_from([None, True, False, 1]),
        "user": st.sampled_from([None, "u", 5]),
        "safety_identifier": st.sampled_from([None, "u", 5]),
        "prompt_cache_key": st.sampled_from([None, "u", 5]),
    },
)


@settings(max_examples=200)
@given(asked)
def test_every_create_that_is_taken_is_echoed_as_the_protocol_says(request: dict[str, Any]) -> None:
    raw = parse_object(orjson.dumps({"model": "m", **request}), 128)
    try:
        taken = parse_create(raw)
    except RequestError:
        return
    event = {
        "type": "response.created",
        "sequence_number": 0,
        "response": response(**{k: v for k, v in raw.items() if k != "model"} | {"store": taken.stored}),
    }
    validate_own(event)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.text(max_size=3) | st.floats(),
        lambda inner: st.dictionaries(
            st.sampled_from(
                [
                    "input_tokens",
                    "output_tokens",
                    "total_tokens",
                    "input_tokens_details",
                    "cached_tokens",
                    "output_tokens_details",
                    "reasoning_tokens",
                ]
            ),
            inner,
        ),
        max_leaves=8,
    )
)
def test_usage_of_any_shape_becomes_whole_or_none(usage: Any) -> None:
    found = normal_usage(usage)
    if found is None:
        assert not isinstance(usage, dict)
        return
    WireUsage.model_validate(found)
    orjson.dumps(found)


@pytest.mark.parametrize(
    ("event_type", "given_response", "status", "code"),
    [
        ("response.completed", {}, "completed", None),
        (
            "response.incomplete",
            {"incomplete_details": {"reason": "content_filter"}},
            "incomplete",
            "content_filter",
        ),
        ("response.incomplete", {}, "incomplete", "upstream_error"),
        ("response.incomplete", {"incomplete_details": "x"}, "incomplete", "upstream_error"),
        ("response.cancelled", {}, "incomplete", "upstream_error"),
        (
            "response.failed",
            {"error": {"code": "rate_limit_exceeded", "message": "x"}},
            "failed",
            "rate_limit_exceeded",
        ),
        ("response.failed", {"error": "x"}, "failed", "upstream_error"),
        ("response.failed", {}, "failed", "upstream_error"),
        ("response.None", {}, "failed", "upstream_error"),
        ("response.in_progress", {}, "failed", "upstream_error"),
    ],
)
def test_the_upstreams_verdict_is_taken_over(
    event_type: str, given_response: dict[str, Any], status: str, code: str | None
) -> None:
    outcome = from_response(given_response, event_type)
    assert (outcome.status, outcome.code) == (status, code)


def test_a_long_message_of_an_upstream_is_shortened() -> None:
    outcome = from_error_event({"error": {"message": "x" * 100_000}})
    assert outcome.error is not None
    assert len(outcome.error["message"]) == 2_000
