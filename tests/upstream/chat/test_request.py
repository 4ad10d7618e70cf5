"""The fields of a Responses body in a Chat Completions body, and its tools."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.upstream.chat.request import check_chat_body, limit_field
from antiphon.upstream.chat.tools import ChatTools, ToolIdentity
from tests.upstream.chat.translating import chat

F = {"type": "function", "name": "f", "description": "Does f.", "parameters": {"type": "object"}, "strict": True}
G = {"type": "function", "name": "g"}
PATCH = {
    "type": "custom",
    "name": "patch",
    "description": "Edits.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
FILES = {"type": "namespace", "name": "files", "description": "", "tools": [{**F, "name": "read"}, PATCH]}
ALWAYS = {"model", "messages", "stream", "stream_options"}


def function_names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {}),
        ({"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
        (
            {"presence_penalty": 1, "frequency_penalty": -1},
            {"presence_penalty": 1, "frequency_penalty": -1},
        ),
        ({"user": "u", "safety_identifier": "s"}, {"user": "u", "safety_identifier": "s"}),
        (
            {"prompt_cache_key": "k", "prompt_cache_retention": "24h", "service_tier": "flex"},
            {"prompt_cache_key": "k", "prompt_cache_retention": "24h", "service_tier": "flex"},
        ),
        ({"max_output_tokens": 10}, {"max_tokens": 10}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": None}}, {}),
        ({"text": {"verbosity": "low", "format": {"type": "text"}}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {}, "strict": True},
                }
            },
        ),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"top_logprobs": 0}, {}),
        ({"include": ["reasoning.encrypted_content"], "truncation": "auto", "metadata": {"a": "b"}}, {}),
        ({"max_tool_calls": 3, "context_management": [{"type": "compaction"}], "temperature": None}, {}),
        ({"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}, {}),
    ],
)
def test_each_field_goes_out_under_the_name_it_has_there(fields: dict[str, Any], sent: dict[str, Any]) -> None:
    body = chat(**fields)
    assert {key: value for key, value in body.items() if key not in ALWAYS} == sent


def test_every_call_streams_and_asks_for_its_usage() -> None:
    body = chat(stream=False)
    assert (body["model"], body["stream"], body["stream_options"]) == ("m", True, {"include_usage": True})


@pytest.mark.parametrize(
    ("host", "field"),
    [
        ("api.openai.com", "max_completion_tokens"),
        ("eu.api.openai.com", "max_completion_tokens"),
        ("mine.openai.azure.com", "max_completion_tokens"),
        ("127.0.0.1", "max_tokens"),
        ("api.deepseek.com", "max_tokens"),
        ("notopenai.com", "max_tokens"),
    ],
)
def test_the_limit_has_the_name_that_the_host_listens_to(host: str, field: str) -> None:
    assert limit_field(host) == field


# Tools


def test_a_function_keeps_its_description_schema_and_strictness() -> None:
    sent = {"name": "f", "description": "Does f.", "parameters": {"type": "object"}, "strict": True}
    assert chat(tools=[F])["tools"] == [{"type": "function", "function": sent}]


def test_a_function_without_a_schema_takes_nothing() -> None:
    (tool,) = chat(tools=[{**G, "parameters": None, "strict": None}])["tools"]
    assert tool["function"] == {"name": "g", "parameters": {"type": "object", "properties": {}}}


def test_a_custom_tool_is_a_function_of_one_text_and_tells_its_grammar() -> None:
    (tool,) = chat(tools=[PATCH])["tools"]
    function = tool["function"]
    assert (function["name"], list(function["parameters"]["properties"])) == ("patch", ["input"])
    assert function["parameters"]["required"] == ["input"]
    assert all(said in function["description"] for said in ("Edits.", "lark", "start: /.+/"))


def test_tools_of_a_namespace_are_functions_that_know_where_they_come_from() -> None:
    body = {"tools": [F, FILES]}
    tools = ChatTools(body)
    assert function_names(chat(**body)) == ["f", "files__read", "files__patch"]
    assert tools.identity("files__read") == ToolIdentity("read", "files")
    assert tools.identity("files__patch") == ToolIdentity("patch", "files", "custom_tool_call")
    assert tools.identity("f") == tools.identity("f") == ToolIdentity("f")
    assert tools.identity("invented") == ToolIdentity("invented")


def test_tools_that_come_as_an_item_are_tools() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [FILES]}
    body = chat([item, {"role": "user", "content": "hi"}], tools=[F])
    assert function_names(body) == ["f", "files__read", "files__patch"]
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_a_tool_given_twice_is_offered_once_as_given_last() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [{**F, "description": "New."}]}
    (tool,) = chat([item], tools=[F])["tools"]
    assert tool["function"]["description"] == "New."


def test_names_no_function_can_have_become_ones_it_can_and_stay_apart() -> None:
    long = "x" * 70
    given = [
        {"type": "namespace", "name": "a.b", "tools": [G, {**G, "name": "c d"}]},
        {"type": "namespace", "name": "a_b", "tools": [G]},
        {**G, "name": "a_b__c_d"},
        {"type": "namespace", "name": long, "tools": [G, {**G, "name": "h"}]},
    ]
    names = function_names(chat(tools=given))
    assert len(names) == len(set(names)) == 6
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names)
    tools = ChatTools({"tools": given})
    assert [(tools.identity(name).namespace, tools.identity(name).name) for name in names] == [
        ("a.b", "g"),
        ("a.b", "c d"),
        ("a_b", "g"),
        (None, "a_b__c_d"),
        (long, "g"),
        (long, "h"),
    ]
    assert names == function_names(chat(tools=given))


@pytest.mark.parametrize(
    "kind",
    [
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "image_generation",
        "computer",
        "computer_use_preview",
        "mcp",
        "local_shell",
        "shell",
        "apply_patch",
        "tool_search",
        "something_new",
    ],
)
def test_tools_a_chat_server_does_not_have_are_refused_by_place(kind: str) -> None:
    for body, place in (
        ({"tools": [F, {"type": kind}]}, "tools[1]"),
        ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": kind}]}]}, "tools[0].tools[0]"),
        ({"input": [{"type": "additional_tools", "tools": [{"type": kind}]}]}, "input[0].tools[0]"),
    ):
        with pytest.raises(RequestError, match=kind) as caught:
            check_chat_body(body)
        error = caught.value
        assert (error.status, error.code, error.param) == (400, "unsupported_parameter", f"{place}.type")


# The choice


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("none", "none"),
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        ({"type": "custom", "name": "patch"}, {"type": "function", "function": {"name": "patch"}}),
        (
            {"type": "function", "name": "read", "namespace": "files"},
            {"type": "function", "function": {"name": "files__read"}},
        ),
    ],
)
def test_a_choice_of_a_tool_names_its_function(choice: Any, sent: Any) -> None:
    body = chat(tools=[F, PATCH, FILES], tool_choice=choice, parallel_tool_calls=False)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (sent, False)


def test_allowed_tools_are_the_only_ones_offered() -> None:
    choice = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "custom", "name": "patch"}, {"type": "function", "name": "f"}],
    }
    body = chat(tools=[F, G, PATCH], tool_choice=choice)
    assert (body["tool_choice"], function_names(body)) == ("required", ["patch", "f"])


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "function", "name": "missing"}, "tool_choice.name"),
        ({"type": "web_search"}, "tool_choice.type"),
        ({"type": "mcp", "server_label": "s"}, "tool_choice.type"),
        ({"type": "allowed_tools", "tools": [{"type": "function", "name": "x"}]}, "tool_choice.tools[0].name"),
        ({"type": "allowed_tools", "tools": [{"type": "mcp"}]}, "tool_choice.tools[0].type"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused_by_name(choice: Any, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        chat(tools=[F], tool_choice=choice)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
    ],
)
def test_other_things_a_chat_server_does_not_have_are_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_chat_body(fields)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", param)


def test_a_body_may_be_checked_in_part() -> None:
    check_chat_body({})
    check_chat_body({"tools": [F], "tool_choice": {"type": "function", "name": "f"}})
    check_chat_body({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]})
