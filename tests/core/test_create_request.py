"""A create is taken, or refused with the field at fault named as OpenAI names it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.core.create_request import INCLUDES, CreateRequest, parse_create
from antiphon.errors import RequestError

GOOD: dict[str, Any] = {"model": "m", "input": "hello"}


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(RequestError) as refused:
        parse_create({**GOOD, **fields})
    assert refused.value.status == 400
    assert refused.value.message
    return refused.value


MESSAGE = {"role": "user", "content": "hello"}

WRONG: list[tuple[str, Any, str]] = [
    ("model", 5, "model"),
    ("model", "", "model"),
    ("model", "x" * 257, "model"),
    ("input", 5, "input"),
    ("input", {}, "input"),
    ("input", None, "input"),
    ("input", [5], "input[0]"),
    ("input", [MESSAGE, "x"], "input[1]"),
    ("input", [MESSAGE, []], "input[1]"),
    ("input", [{"content": "x"}], "input[0].role"),
    ("input", [{"role": 5, "content": "x"}], "input[0].role"),
    ("input", [MESSAGE, {"role": "user"}], "input[1].content"),
    ("input", [{"role": "user", "content": 5}], "input[0].content"),
    ("input", [{"role": "user", "content": ["x"]}], "input[0].content[0]"),
    (
        "input",
        [{"role": "user", "content": [{"type": "input_text", "text": "x"}, {"text": "x"}]}],
        "input[0].content[1].type",
    ),
    ("input", [{"type": 5}], "input[0].type"),
    ("input", [{"type": None, **MESSAGE}], "input[0].type"),
    ("input", [{"id": 5, **MESSAGE}], "input[0].id"),
    ("input", [{"type": "function_call_output", "output": "x"}], "input[0].call_id"),
    ("input", [{"type": "function_call_output", "call_id": "", "output": "x"}], "input[0].call_id"),
    ("input", [{"type": "function_call_output", "call_id": "c", "output": None}], "input[0].output"),
    ("input", [{"type": "function_call", "call_id": 5, "name": "f"}], "input[0].call_id"),
    ("input", [{"type": "hologram", "call_id": 5}], "input[0].call_id"),
    ("previous_response_id", 5, "previous_response_id"),
    ("instructions", 5, "instructions"),
    ("store", "yes", "store"),
    ("store", 1, "store"),
    ("stream", 0, "stream"),
    ("background", "true", "background"),
    ("generate", 0, "generate"),
    ("include", "x", "include"),
    ("include", [5], "include[0]"),
    ("include", ["nothing.we.know"], "include"),
    ("tools", {}, "tools"),
    ("tools", [5], "tools[0]"),
    ("tools", [{}], "tools[0].type"),
    ("tools", [{"type": "web_search"}, {"type": 5}], "tools[1].type"),
    ("tools", [{"type": ""}], "tools[0].type"),
    ("tools", [{"type": "function"}], "tools[0].name"),
    ("tools", [{"type": "function", "name": ""}], "tools[0].name"),
    ("tools", [{"type": "custom", "name": 5}], "tools[0].name"),
    ("tools", [{"type": "function", "name": "f", "description": 5}], "tools[0].description"),
    ("tools", [{"type": "function", "name": "f", "parameters": "x"}], "tools[0].parameters"),
    ("tools", [{"type": "function", "name": "f", "strict": "x"}], "tools[0].strict"),
    ("tool_choice", 5, "tool_choice"),
    ("tool_choice", "banana", "tool_choice"),
    ("tool_choice", {}, "tool_choice.type"),
    ("tool_choice", {"type": "function"}, "tool_choice.name"),
    ("parallel_tool_calls", 1, "parallel_tool_calls"),
    ("max_tool_calls", "1", "max_tool_calls"),
    ("max_tool_calls", 0, "max_tool_calls"),
    ("max_output_tokens", 0, "max_output_tokens"),
    ("max_output_tokens", 1.5, "max_output_tokens"),
    ("max_output_tokens", True, "max_output_tokens"),
    ("temperature", "1", "temperature"),
    ("temperature", -0.1, "temperature"),
    ("temperature", 2.1, "temperature"),
    ("temperature", True, "temperature"),
    ("top_p", 1.1, "top_p"),
    ("top_logprobs", 21, "top_logprobs"),
    ("presence_penalty", 3, "presence_penalty"),
    ("frequency_penalty", "x", "frequency_penalty"),
    ("metadata", [], "metadata"),
    ("metadata", {"a": 5}, "metadata.a"),
    ("metadata", {"a": "x" * 513}, "metadata.a"),
    ("metadata", {"a" * 65: "x"}, "metadata." + "a" * 65),
    ("metadata", {str(n): "x" for n in range(17)}, "metadata"),
    ("text", "x", "text"),
    ("text", {"format": "x"}, "text.format"),
    ("text", {"format": {}}, "text.format.type"),
    ("text", {"verbosity": "loud"}, "text.verbosity"),
    ("reasoning", [], "reasoning"),
    ("reasoning", {"effort": 5}, "reasoning.effort"),
    ("reasoning", {"summary": []}, "reasoning.summary"),
    ("truncation", "maybe", "truncation"),
    ("context_management", {}, "context_management"),
    ("context_management", [5], "context_management[0]"),
    (
        "context_management",
        [{"type": "compaction", "compact_threshold": 999}],
        "context_management[0].compact_threshold",
    ),
    ("input", [{"type": "compaction_trigger"}, {"role": "user", "content": "x"}], "input[0]"),
    ("user", 5, "user"),
    ("safety_identifier", 5, "safety_identifier"),
    ("prompt_cache_key", 5, "prompt_cache_key"),
    ("service_tier", 5, "service_tier"),
    ("multi_agent", 5, "multi_agent"),
    ("conversation", 5, "conversation"),
    ("idempotency_key", "", "idempotency_key"),
    ("idempotency_key", "x" * 257, "idempotency_key"),
    ("idempotency_key", 5, "idempotency_key"),
    ("antiphon", 5, "antiphon"),
    ("antiphon", {"on_disconnect": "stop"}, "antiphon.on_disconnect"),
    ("antiphon", {"on_disconnect": -1}, "antiphon.on_disconnect"),
    ("antiphon", {"on_disconnect": "30"}, "antiphon.on_disconnect"),
    ("antiphon", {"on_disconnect": 86_401}, "antiphon.on_disconnect"),
    ("antiphon", {"labels": {"a": 5}}, "antiphon.labels.a"),
    ("antiphon", {"labels": {str(n): "x" for n in range(17)}}, "antiphon.labels"),
    ("antiphon", {"visibility": "public"}, "antiphon.visibility"),
    ("antiphon", {"upstream_authorization": 5}, "antiphon.upstream_authorization"),
    ("antiphon", {"on_disconect": 5}, "antiphon.on_disconect"),
]


@pytest.mark.parametrize(("field", "value", "param"), WRONG, ids=[f"{f}={str(v)[:30]}" for f, v, _ in WRONG])
def test_a_wrong_field_is_named(field: str, value: Any, param: str) -> None:
    error = refusal(**{field: value})
    assert error.code == "invalid_request"
    assert error.param == param


def test_a_model_may_be_left_to_the_agent_or_to_the_server() -> None:
    assert parse_create({"input": "x"}).model is None
    assert parse_create({"model": None, "input": "x"}).model is None


def test_the_message_tells_of_nothing_inside_the_server() -> None:
    for field, value, _ in WRONG:
        message = refusal(**{field: value}).message
        assert not any(word in message for word in ("pydantic", "instance of", "dictionary"))


def test_a_very_long_key_is_not_sent_back_whole() -> None:
    error = refusal(metadata={"k" * 1_000_000: "x"})
    assert error.param is not None
    assert len(error.param) + len(error.message) < 1_000


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"multi_agent": {"enabled": True}}, "multi_agent"),
    ],
)
def test_what_is_not_offered_is_refused_as_such(fields: dict[str, Any], param: str) -> None:
    error = refusal(**fields)
    assert (error.code, error.param) == ("unsupported_parameter", param)


def test_a_parent_and_a_conversation_together_are_refused() -> None:
    assert refusal(conversation="c", previous_response_id="r").code == "invalid_request"


@pytest.mark.parametrize("given", ["conv_1", {"id": "conv_1"}, {"id": "conv_1", "more": 1}])
def test_a_conversation_is_named_by_its_id_or_by_an_object_that_has_it(given: Any) -> None:
    assert parse_create({**GOOD, "conversation": given}).conversation_id == "conv_1"


@pytest.mark.parametrize("given", ["", {}, {"id": ""}, {"id": 5}])
def test_a_conversation_without_an_id_is_refused(given: Any) -> None:
    assert refusal(conversation=given).param == "conversation"


def test_multi_agent_that_is_switched_off_is_accepted() -> None:
    parse_create({**GOOD, "multi_agent": {"enabled": False}})


def test_unknown_fields_are_ignored_at_every_level_but_in_our_own_object() -> None:
    parse_create(
        {
            **GOOD,
            "surprise": 1,
            "input": [{**MESSAGE, "surprise": 1}, {"type": "hologram", "beam": []}],
            "tools": [
                {"type": "function", "name": "f", "surprise": 1},
                {"type": "laser", "name": 5, "strict": "x"},
            ],
            "text": {"surprise": 1, "format": {"type": "text", "surprise": 1}},
            "reasoning": {"surprise": 1},
        }
    )


def test_every_setting_may_be_null() -> None:
    nullable = set(CreateRequest.model_fields) - {"input"}
    request = parse_create({**GOOD, **dict.fromkeys(nullable)})
    assert request.stored
    assert request.antiphon.visibility == "tenant"


def test_every_key_of_our_own_object_may_be_null() -> None:
    keys = ("on_disconnect", "labels", "visibility", "upstream_authorization", "agent", "context")
    assert parse_create({**GOOD, "antiphon": dict.fromkeys(keys)}).antiphon.labels == {}


def test_the_seconds_of_a_disconnect_may_be_an_integer() -> None:
    wish = parse_create({**GOOD, "antiphon": {"on_disconnect": 30}}).antiphon.on_disconnect
    assert wish == 30.0
    assert isinstance(wish, float)


def test_text_input_stands_for_one_user_message() -> None:
    assert parse_create(GOOD).items() == [{"type": "message", "role": "user", "content": "hello"}]


def test_an_empty_list_and_a_missing_input_are_no_items() -> None:
    assert parse_create({**GOOD, "input": []}).items() == []
    assert parse_create({"model": "m"}).items() == []


def test_store_is_true_unless_the_client_says_false() -> None:
    assert [parse_create({**GOOD, "store": s}).stored for s in (None, True, False)] == [True, True, False]


def test_only_generate_false_is_a_warm_up() -> None:
    assert [parse_create({**GOOD, "generate": g}).is_warm_up for g in (None, True, False)] == [False, False, True]


def test_every_include_of_the_api_is_accepted() -> None:
    parse_create({**GOOD, "include": sorted(INCLUDES)})


def test_a_local_shell_output_may_name_its_call_in_the_id() -> None:
    parse_create({**GOOD, "input": [{"type": "local_shell_call_output", "id": "call_1", "output": "{}"}]})


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "name", "id", "role", "content", "str", "int", "format", "a"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(sorted(CreateRequest.model_fields)), junk, max_size=4))
def test_any_fields_are_taken_or_refused_with_a_param_that_begins_with_one_of_them(fields: dict[str, Any]) -> None:
    raw = {**GOOD, **fields}
    try:
        parse_create(raw)
    except RequestError as error:
        assert error.param is not None
        assert error.param.split(".")[0].split("[")[0] in raw
