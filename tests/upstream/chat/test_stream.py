"""Chunks of Chat Completions become the events of a response: texts, calls, probabilities, usage, ends."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.runs import drive
from tests.support.chat_stub import Chunk, call_chunks, calling, chunk, fragment, text_chunks, usage
from tests.support.gap_checker import CheckedRun
from tests.upstream.chat.translating import raw_events, run

STOP = chunk({}, "stop")


def types(result: CheckedRun) -> list[str]:
    return [item["type"] for item in result.items]


def message_part(result: CheckedRun, kind: str = "output_text") -> dict[str, Any]:
    parts = [part for item in result.items if item["type"] == "message" for part in item["content"]]
    return next(part for part in parts if part["type"] == kind)


def end(chunks: list[Any]) -> tuple[str, Any, Any]:
    """How clients see the end: status, code or reason, usage."""
    response = drive(raw_events(chunks))[0].outcome
    assert response is not None
    return response.status, response.code, response.usage


# Texts


def test_items_come_in_the_order_in_which_the_model_made_them() -> None:
    chunks = [
        chunk({"role": "assistant", "reasoning_content": "hm"}),
        chunk({"content": "a"}),
        *call_chunks(("1", "f", "{}"), ("2", "g", "{}"))[1:],
    ]
    result = run(chunks)
    assert types(result) == ["reasoning", "message", "function_call", "function_call"]
    assert result.items[0]["content"] == [{"type": "reasoning_text", "text": "hm"}]


def test_an_item_is_finished_when_the_next_begins() -> None:
    events = [orjson.loads(e) for e in raw_events([chunk({"reasoning": "hm"}), chunk({"content": "a"})])]
    assert [event["type"] for event in events] == [
        "response.reasoning_text.delta",
        "response.output_item.done",
        "response.output_text.delta",
    ]


def test_a_text_behind_calls_is_a_message_of_its_own() -> None:
    chunks = [chunk({"content": "a"}), calling(fragment("{}", "f", "1")), chunk({"content": "b"}), STOP]
    result = run(chunks)
    assert types(result) == ["message", "function_call", "message"]
    assert result.text == "ab"


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"reasoning_content": "", "reasoning": "hm", "content": ""},
        {"reasoning": {"x": 1}, "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}, {"type": "reasoning.encrypted"}]},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_thoughts_are_found_under_every_name_and_told_once(delta: dict[str, Any]) -> None:
    result = run([chunk(delta), STOP])
    assert types(result) == ["reasoning"]
    assert result.items[0]["content"][0]["text"] == "hm"


def test_a_content_of_parts_is_their_text() -> None:
    parts = ["a", {"type": "text", "text": "b"}, {"type": "text", "text": None}, {"type": "image"}, 5]
    assert run([chunk({"content": parts}), STOP]).text == "ab"


def test_a_refusal_is_a_part_of_the_message() -> None:
    result = run([chunk({"content": "Well"}), chunk({"refusal": "no "}), chunk({"refusal": "way"}), STOP])
    assert (result.text, message_part(result, "refusal")["refusal"]) == ("Well", "no way")


@pytest.mark.parametrize(
    "odd",
    [
        {**chunk(), "choices": []},
        {**chunk(), "choices": None},
        {**chunk(), "choices": {}},
        {**chunk(), "choices": [None]},
        {**chunk(), "choices": [{}]},
        {"id": "x"},
        chunk(None),
        {**chunk(), "choices": [{"index": 0, "delta": None}]},
        chunk({"content": None, "tool_calls": None, "refusal": None, "reasoning_content": None}),
        chunk({"content": 5, "refusal": [], "reasoning": 1, "tool_calls": 3, "function_call": "x"}),
        chunk({"content": "of another choice"}, index=1),
        b"no json",
        b"[1]",
        b"null",
        b"[" * 100_000,
    ],
)
def test_a_chunk_that_says_nothing_changes_nothing(odd: Any) -> None:
    chunks = text_chunks("a", "b")
    for place in range(len(chunks)):
        assert run([*chunks[:place], odd, *chunks[place:]]).text == "ab"


def test_halves_of_a_character_are_joined_in_texts_thoughts_and_calls() -> None:
    def halves(make: str) -> list[bytes]:
        return [make.replace("X", half).encode() for half in ("\\ud83d", "\\ude80")]

    text = '{"choices":[{"index":0,"delta":{"content":"X"}}]}'
    thought = '{"choices":[{"index":0,"delta":{"reasoning":"X"}}]}'
    call = '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"X"}}]}}]}'
    result = run([*halves(thought), *halves(text), *halves(call), chunk({}, "tool_calls")])
    assert result.items[0]["content"][0]["text"] == result.text == result.calls[0]["arguments"] == "🚀"


@pytest.mark.parametrize("size", [100_000, 5_000_000])
def test_a_large_delta_comes_whole(size: int) -> None:
    said = "漢" * (size // 3)
    assert run(text_chunks(said)).text == said


@given(st.lists(st.text(max_size=5), max_size=6))
def test_deltas_add_up_to_what_was_said(texts: list[str]) -> None:
    assert run(text_chunks(*texts)).text == "".join(texts)


# Calls


def test_a_call_keeps_its_id_at_the_upstream_for_the_way_back() -> None:
    assembler, _ = drive(raw_events(call_chunks(("call_theirs", "f", '{"a":1}'))))
    assert assembler.items[0].upstream["call_id"] == "call_theirs"
    assert assembler.items[0].call_id != "call_theirs"


def test_a_call_is_announced_with_its_first_arguments_and_streams() -> None:
    chunks = [calling(fragment("", "f", "1")), calling(fragment('{"a"')), calling(fragment(":1}"))]
    events = [orjson.loads(event) for event in raw_events(chunks)]
    assert [(event["type"].removeprefix("response."), event.get("delta")) for event in events] == [
        ("output_item.added", None),
        ("function_call_arguments.delta", '{"a"'),
        ("function_call_arguments.delta", ":1}"),
    ]


@pytest.mark.parametrize("arguments", ["", None, "{}"])
def test_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    (call,) = run([calling(fragment(arguments, "f", "1")), chunk({}, "tool_calls")]).calls
    assert (call["name"], call["arguments"]) == ("f", "{}")


def test_arguments_that_are_no_json_reach_the_client_as_they_are() -> None:
    (call,) = run([calling(fragment("{city: Oslo", "f", "1")), chunk({}, "tool_calls")]).calls
    assert call["arguments"] == "{city: Oslo"


def test_a_call_without_a_name_is_called_unknown() -> None:
    (call,) = run([calling(fragment("{}", None, "1")), chunk({}, "tool_calls")]).calls
    assert call["name"] == "unknown"


def test_custom_and_namespaced_calls_come_back_as_what_the_client_knows() -> None:
    patch = {"type": "custom", "name": "patch"}
    tools = [patch, {"type": "namespace", "name": "n", "tools": [patch, {"type": "function", "name": "f"}]}]
    arguments = json.dumps({"input": 'é\n"'})
    chunks = call_chunks(("1", "patch", arguments), ("2", "n__patch", "raw"), ("3", "n__f", "{}"))
    first, second, third = run(chunks, tools).calls
    assert (first["type"], first["name"], first["input"]) == ("custom_tool_call", "patch", 'é\n"')
    assert "namespace" not in first
    assert (second["type"], second["name"], second["namespace"]) == ("custom_tool_call", "patch", "n")
    assert second["input"] == "raw"
    assert (third["type"], third["name"], third["namespace"]) == ("function_call", "f", "n")


def test_a_call_cut_off_by_the_limit_is_incomplete() -> None:
    result = run([calling(fragment('{"a"', "f", "1")), chunk({}, "length")])
    assert (result.calls[0]["status"], result.calls[0]["arguments"]) == ("incomplete", '{"a"')


# Probabilities and sources


def token(text: str, logprob: float = -0.5, **fields: Any) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": [], **fields}


def test_probabilities_come_with_the_text_they_are_of() -> None:
    top = [{"token": "b", "logprob": -2, "bytes": None}]
    chunks = [
        chunk({"content": "a"}, logprobs={"content": [token("a", top_logprobs=top)], "refusal": None}),
        chunk({"content": ""}, logprobs={"content": [token("half")]}),
        chunk({"content": "bc"}, logprobs={"content": [token("bc")]}),
        chunk({"content": "d"}, logprobs=None),
        chunk({"content": "e"}, logprobs={"content": None}),
        STOP,
    ]
    found = message_part(run(chunks))["logprobs"]
    assert [entry["token"] for entry in found] == ["a", "half", "bc"]
    assert found[0]["top_logprobs"] == [{"token": "b", "logprob": -2, "bytes": []}]


def test_sources_become_annotations_of_the_text() -> None:
    citation = {"url": "https://example.com", "title": "T", "start_index": 1, "end_index": 2, "content": "x"}
    given = [
        {"type": "url_citation", "url_citation": citation},
        {"type": "url_citation", "url_citation": {"url": "https://example.org"}},
        {"type": "file", "file": {}},
        None,
    ]
    chunks = [chunk({"annotations": given[:1]}), chunk({"content": "a"}), chunk({"annotations": given[1:]}), STOP]
    first, second = message_part(run(chunks))["annotations"]
    assert first == {"type": "url_citation", **{k: v for k, v in citation.items() if k != "content"}}
    assert (second["url"], second["title"]) == ("https://example.org", "https://example.org")


# Usage


def test_usage_is_told_with_its_details() -> None:
    details = {
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    _, _, found = end([chunk({"content": "a"}), STOP, usage(9, 3, **details)])
    assert found == {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 12,
    }


COUNTS = {"prompt_tokens": 9, "completion_tokens": 3}


@pytest.mark.parametrize(
    "chunks",
    [
        [STOP, {**chunk(), "choices": [], "usage": COUNTS}],
        [{**STOP, "usage": COUNTS}],
        [{**STOP, "x_groq": {"usage": COUNTS}}],
        [chunk({}, "stop", usage=COUNTS)],
        [
            {**chunk({"content": "a"}), "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
            {**STOP, "usage": COUNTS},
        ],
        [{**chunk(), "choices": [], "usage": COUNTS}, STOP],
        [STOP, {"usage": COUNTS}],
    ],
)
def test_usage_is_found_wherever_it_stands_and_the_last_counts(chunks: list[Chunk]) -> None:
    found = end([chunk({"content": "a"}), *chunks])[2]
    assert (found["input_tokens"], found["output_tokens"]) == (9, 3)


@pytest.mark.parametrize("given", [None, {}, "7", []])
def test_without_usable_usage_there_is_none(given: Any) -> None:
    assert end([{**STOP, "usage": given}]) == ("completed", None, None)


def test_usage_behind_the_reason_ends_the_answer_and_nothing_follows() -> None:
    assert len(raw_events([STOP, usage(), chunk({"content": "late"}), usage()])) == 1


# The end, after the table in `stream.py`


@pytest.mark.parametrize(
    ("reason", "status", "why"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("function_call", "completed", None),
        ("eos", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("error", "failed", "upstream_error"),
        ("abort", "failed", "upstream_error"),
    ],
)
def test_the_reason_decides_how_the_response_ends(reason: str, status: str, why: str | None) -> None:
    assert end([chunk({"content": "a"}), chunk({}, reason)])[:2] == (status, why)


def test_the_reason_may_come_with_the_last_delta_and_deltas_after_it() -> None:
    assert run([chunk({"content": "a"}, "stop"), chunk({"content": "b"}, "stop")]).text == "ab"


@pytest.mark.parametrize("reason", [None, "", 0])
def test_without_a_reason_there_is_no_end(reason: Any) -> None:
    (event,) = raw_events([chunk({"content": "a"}, reason), usage()])
    assert orjson.loads(event)["type"] == "response.output_text.delta"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"error": {"code": "overloaded", "message": "busy"}}, "overloaded"),
        ({"error": {"code": 502, "message": "busy"}}, "upstream_error"),
        ({"error": "busy"}, "upstream_error"),
        ({"object": "error", "code": "overloaded", "message": "busy"}, "overloaded"),
        ({"detail": "busy"}, "upstream_error"),
        ({**chunk({"content": ""}, "error"), "error": {"code": "overloaded", "message": "busy"}}, "overloaded"),
        ({**chunk(), "choices": [], "error": {"message": "busy"}}, "upstream_error"),
    ],
)
def test_an_error_in_any_shape_fails_the_response_and_keeps_what_came(said: dict[str, Any], code: str) -> None:
    assembler, _ = drive(raw_events([chunk({"content": "a"}), said, chunk({"content": "late"}), STOP]))
    outcome = assembler.outcome
    assert outcome is not None and outcome.error is not None
    assert (outcome.status, outcome.error["code"], outcome.error["message"]) == ("failed", code, "busy")
    assert [text.split.text for item in assembler.items for text in item.texts.values()] == ["a"]


def test_a_null_error_beside_a_delta_is_none() -> None:
    assert run([{**chunk({"content": "a"}), "error": None}, STOP]).text == "a"


def test_a_whole_answer_as_the_only_chunk_is_read() -> None:
    message = {"role": "assistant", "content": "a"}
    assert run([{"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}]).text == "a"


def test_a_whole_message_beside_the_last_delta_is_not_told_twice() -> None:
    last = {"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    assert run([chunk({"content": "a"}), chunk({"content": "b"}), last]).text == "ab"
