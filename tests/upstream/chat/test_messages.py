"""The items of an input as messages, in the order Chat Completions wants."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from antiphon.errors import RequestError
from tests.upstream.chat.translating import chat, messages

PNG = "data:image/png;base64,iVBORw0KGgo="


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def call(call_id: str, name: str = "f", arguments: str = '{"a":1}', **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **fields}


def output(call_id: str, said: Any = "ok", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": said}


def reasoning(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def tool_calls(*ids: str, name: str = "f", arguments: str = '{"a":1}') -> list[dict[str, Any]]:
    return [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]


def tool(call_id: str, content: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def assistant(content: str | None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


# Messages


def test_a_string_is_a_message_of_the_user() -> None:
    assert chat("hi")["messages"] == [user("hi")]


def test_instructions_lead_as_a_message_of_the_system() -> None:
    assert messages(user("hi"), instructions="Be brief.")[0] == {"role": "system", "content": "Be brief."}


def test_instructions_may_be_a_list_of_items() -> None:
    given = [{"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}]
    assert messages(user("hi"), instructions=given) == [{"role": "system", "content": "Be brief."}, user("hi")]


def test_what_the_system_says_first_is_one_message_and_what_it_says_later_stays_in_its_place() -> None:
    developer = {"role": "developer", "content": "D"}
    assert messages({"role": "system", "content": "S"}, developer, user("hi"), developer, instructions="I") == [
        {"role": "system", "content": "I\n\nS\n\nD"},
        user("hi"),
        {"role": "system", "content": "D"},
    ]


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("plain", "plain"),
        ([], ""),
        ([{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        (
            [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": PNG, "detail": "low"}],
            [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}],
        ),
        (
            [{"type": "input_image", "image_url": "https://example.com/a.png", "detail": "original"}],
            [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}],
        ),
        (
            [{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}],
            [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}}],
        ),
        ([{"type": "input_file", "file_id": "file_1"}], [{"type": "file", "file": {"file_id": "file_1"}}]),
        (
            [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}],
            [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}],
        ),
    ],
)
def test_content_of_the_user_is_a_string_if_it_is_text_and_parts_otherwise(content: Any, sent: Any) -> None:
    assert messages(user(content)) == [user(sent)]


def test_what_the_assistant_said_and_refused_is_one_text() -> None:
    parts = [
        {"type": "output_text", "text": "a", "annotations": []},
        {"type": "output_text", "text": "b"},
        {"type": "refusal", "refusal": "no"},
    ]
    assert messages({"role": "assistant", "content": parts}) == [assistant("abno")]


def test_messages_of_the_assistant_in_a_row_stay_apart() -> None:
    assert messages(said("a"), said("b")) == [assistant("a"), assistant("b")]


# Thoughts


def test_thoughts_stand_in_the_message_that_came_of_them() -> None:
    assert messages(user("hi"), reasoning("hm"), said("a"), user("b"), said("c")) == [
        user("hi"),
        assistant("a", reasoning_content="hm"),
        user("b"),
        assistant("c"),
    ]


def test_thoughts_before_a_call_stand_beside_it() -> None:
    (message, _) = messages(reasoning("hm"), reasoning("so"), call("c1"), output("c1"))
    assert message == assistant(None, reasoning_content="hm\nso", tool_calls=tool_calls("c1"))


def test_thoughts_between_a_text_and_a_call_are_not_lost() -> None:
    (message, _) = messages(said("a"), reasoning("hm"), call("c1"), output("c1"))
    assert message == assistant("a", reasoning_content="hm", tool_calls=tool_calls("c1"))


def test_a_summary_stands_in_where_there_is_no_text() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}], "encrypted_content": "x"}
    assert messages(item, said("a")) == [assistant("a", reasoning_content="short")]


@pytest.mark.parametrize("fields", [{}, {"content": None}, {"content": []}, {"summary": [{}]}])
def test_thoughts_that_are_only_encrypted_are_left_out(fields: dict[str, Any]) -> None:
    item = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA", **fields}
    assert messages(item, said("a")) == [assistant("a")]


def test_thoughts_that_led_to_nothing_do_not_wander_to_a_later_answer() -> None:
    assert messages(reasoning("hm"), user("b"), said("c")) == [user("b"), assistant("c")]


# Calls and outputs


def test_calls_in_a_row_are_one_message_with_what_was_said_before_them() -> None:
    items = [said("Looking."), call("c1"), call("c2"), output("c1", "one"), output("c2", "two")]
    assert messages(*items) == [
        assistant("Looking.", tool_calls=tool_calls("c1", "c2")),
        tool("c1", "one"),
        tool("c2", "two"),
    ]


def test_pairs_of_calls_and_outputs_are_rounds() -> None:
    assert messages(call("c1"), output("c1"), call("c2"), output("c2"), said("done")) == [
        assistant(None, tool_calls=tool_calls("c1")),
        tool("c1"),
        assistant(None, tool_calls=tool_calls("c2")),
        tool("c2"),
        assistant("done"),
    ]


def test_what_is_said_between_calls_and_their_outputs_waits_for_the_last_of_them() -> None:
    items = [call("c1"), call("c2"), user("wait"), output("c2"), {"role": "system", "content": "S"}, output("c1")]
    assert messages(*items) == [
        assistant(None, tool_calls=tool_calls("c1", "c2")),
        tool("c2"),
        tool("c1"),
        user("wait"),
        {"role": "system", "content": "S"},
    ]


def test_what_the_assistant_says_behind_its_calls_stays_in_their_message() -> None:
    assert messages(said("a"), call("c1"), said("b"), reasoning("hm"), output("c1")) == [
        assistant("ab", tool_calls=tool_calls("c1"), reasoning_content="hm"),
        tool("c1"),
    ]


def test_a_call_without_an_output_hides_nothing() -> None:
    assert messages(call("c1"), user("still here")) == [
        assistant(None, tool_calls=tool_calls("c1")),
        user("still here"),
    ]


def test_an_output_without_its_call_is_passed_on() -> None:
    assert messages(output("c9")) == [tool("c9")]


def test_calls_that_share_an_id_get_their_own_and_their_outputs_in_order() -> None:
    items = [call("same"), call("same"), output("same", "one"), output("same", "two")]
    first, *outputs = messages(*items)
    ids = [one["id"] for one in first["tool_calls"]]
    assert ids[0] == "same" and len(set(ids)) == 2
    assert outputs == [tool(ids[0], "one"), tool(ids[1], "two")]


def test_an_id_used_again_in_a_later_round_is_a_new_one() -> None:
    first, answer, second, later = messages(call("same"), output("same"), call("same"), output("same"))
    assert second["tool_calls"][0]["id"] != first["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert later["tool_call_id"] == second["tool_calls"][0]["id"]


def test_an_id_longer_than_openai_allows_is_shortened_on_both_sides() -> None:
    first, answer = messages(call("x" * 41), output("x" * 41))
    assert first["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert len(answer["tool_call_id"]) <= 40


@pytest.mark.parametrize("arguments", ["not json", "{}", '{"a": [1]}'])
def test_arguments_go_back_as_the_model_wrote_them(arguments: str) -> None:
    (message,) = messages(call("c1", arguments=arguments))
    assert message["tool_calls"][0]["function"]["arguments"] == arguments


def test_empty_arguments_are_an_empty_object() -> None:
    (message,) = messages(call("c1", arguments=""))
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_custom_call_goes_back_as_the_function_the_model_called() -> None:
    item = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": 'é\n"q"'}
    first, answer = messages(item, output("c1", "done", "custom_tool_call_output"))
    function = first["tool_calls"][0]["function"]
    assert (function["name"], orjson.loads(function["arguments"])) == ("patch", {"input": 'é\n"q"'})
    assert answer == tool("c1", "done")


def test_a_call_of_a_namespace_goes_back_under_the_name_the_model_called() -> None:
    tools = [{"type": "namespace", "name": "files", "tools": [{"type": "function", "name": "read"}]}]
    (message,) = messages(call("c1", name="read", namespace="files"), tools=tools)
    assert message["tool_calls"][0]["function"]["name"] == "files__read"


def test_a_call_of_an_mcp_server_is_a_call_and_its_output() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "f", "arguments": '{"a":1}'}
    assert messages({**item, "output": "ok"}, {**item, "id": "mcp_2", "error": {"message": "no"}}) == [
        assistant(None, tool_calls=tool_calls("mcp_1")),
        tool("mcp_1"),
        assistant(None, tool_calls=tool_calls("mcp_2")),
        tool("mcp_2", '{"message":"no"}'),
    ]


def test_texts_of_an_output_are_joined() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert messages(call("c1"), output("c1", parts))[1] == tool("c1", "a\nb")


def test_images_of_an_output_follow_behind_all_outputs_as_a_message_of_the_user() -> None:
    image = {"type": "input_image", "image_url": PNG}
    items = [call("c1"), call("c2"), output("c1", [image]), output("c2"), user("and?")]
    assert [message["role"] for message in messages(*items)] == ["assistant", "tool", "tool", "user", "user"]
    _, first, _, pictures, last = messages(*items)
    assert first["content"]
    assert pictures["content"] == [{"type": "image_url", "image_url": {"url": PNG}}]
    assert last == user("and?")


# What cannot be said


@pytest.mark.parametrize(
    "kind", ["web_search_call", "file_search_call", "code_interpreter_call", "mcp_list_tools", "additional_tools"]
)
def test_traces_of_hosted_tools_are_left_out(kind: str) -> None:
    assert messages(user("hi"), {"type": kind, "id": "x_1", "tools": []}, said("a")) == [
        user("hi"),
        assistant("a"),
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "compaction",
        "compaction_trigger",
        "computer_call",
        "image_generation_call",
        "item_reference",
        "local_shell_call",
        "shell_call_output",
        "apply_patch_call",
        "tool_search_call",
        "something_new",
    ],
)
def test_items_that_cannot_be_said_are_refused_by_place(kind: str) -> None:
    with pytest.raises(RequestError, match=kind) as caught:
        messages(user("hi"), {"type": kind, "id": "x_1"})
    error = caught.value
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", "input[1].type")


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "input_image", "file_id": "file_1"}, "file_id"),
        ({"type": "input_image"}, "image_url"),
        ({"type": "input_file", "file_url": "https://example.com/a.pdf"}, "file_url"),
        ({"type": "input_file"}, "file_data"),
        ({"type": "computer_screenshot"}, "type"),
    ],
)
def test_parts_that_cannot_be_said_are_refused_by_place(part: dict[str, Any], field: str) -> None:
    for items, place in (
        ([user([{"type": "input_text", "text": "a"}, part])], "input[0].content[1]"),
        ([call("c1"), output("c1", [part])], "input[1].output[0]"),
    ):
        with pytest.raises(RequestError) as caught:
            messages(*items)
        assert (caught.value.code, caught.value.param) == ("unsupported_parameter", f"{place}.{field}")


def test_a_role_nobody_has_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        messages({"role": "critic", "content": "x"})
    assert caught.value.param == "input[0].role"
