"""The built-in models echo and demo, and the events they are made of."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest

from antiphon.core.assembly.reading import read_event
from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall
from antiphon.upstream.demo import DemoUpstream
from antiphon.upstream.echo import EchoUpstream
from antiphon.upstream.events import Answer
from antiphon.upstream.schema_example import example
from tests.upstream.calling import FastClock, SystemClock, events_of, kinds, model_call, text_in

CANONICAL_TEXT = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def output(text: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": "c", "output": text}


def function(name: str = "get_weather", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "name": name, "parameters": schema}


def echo() -> EchoUpstream:
    return EchoUpstream(SystemClock())


def demo(words_per_s: float = 0) -> DemoUpstream:
    return DemoUpstream(SystemClock(), words_per_s)


def body(items: Any, **rest: Any) -> ModelCall:
    return model_call({"model": "antiphon/demo", "input": items, **rest})


# Events


def all_parts() -> list[dict[str, Any]]:
    answer = Answer("m", 1.9)
    events = answer.begin() + answer.reasoning("think ") + answer.reasoning("more")
    events += answer.text("a") + answer.text("é")
    events += answer.call("f", '{"a":1}', "call_1") + answer.call("g", "free text", custom=True)
    events += answer.text("again") + answer.end({"input_tokens": 1, "output_tokens": 2, "reasoning_tokens": 1})
    return [json.loads(event) for event in events]


def test_events_are_numbered_without_a_hole_from_zero() -> None:
    assert [event["sequence_number"] for event in all_parts()] == list(range(len(all_parts())))


def test_the_finished_output_equals_the_items_that_were_done_in_order() -> None:
    events = all_parts()
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == done
    assert [item["type"] for item in done] == [
        "reasoning",
        "message",
        "function_call",
        "custom_tool_call",
        "message",
    ]
    assert done[0]["summary"] == [{"type": "summary_text", "text": "think more"}]
    assert done[1]["content"][0]["text"] == "aé"
    assert (done[2]["call_id"], done[2]["arguments"]) == ("call_1", '{"a":1}')
    assert done[3]["input"] == "free text"
    assert {item["status"] for item in done} == {"completed"}


def test_deltas_of_every_kind_add_up_to_the_text_that_is_done() -> None:
    events = all_parts()
    for stem, field in (
        ("output_text", "text"),
        ("reasoning_summary_text", "text"),
        ("function_call_arguments", "arguments"),
        ("custom_tool_call_input", "input"),
    ):
        deltas: dict[int, str] = {}
        for event in events:
            if event["type"] == f"response.{stem}.delta":
                deltas[event["output_index"]] = deltas.get(event["output_index"], "") + event["delta"]
        done = {e["output_index"]: e[field] for e in events if e["type"] == f"response.{stem}.done"}
        assert deltas == done


def test_usage_stands_in_the_terminal_event_only() -> None:
    events = all_parts()
    assert events[0]["response"]["usage"] is None
    assert events[-1]["response"]["usage"] == {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 3,
    }


# Echo


@pytest.mark.parametrize(
    "text", ["hello big  world", " lead and trail \n", "漢字 🚀 👩‍💻 é", "x", "a\nb\tc", "w " * 5000]
)
async def test_echo_gives_the_text_back_exactly(text: str) -> None:
    events = await events_of(echo(), model_call({"input": text}))
    assert text_in(events) == text
    assert kinds(events)[:4] == CANONICAL_TEXT[:4]
    assert kinds(events)[-4:] == CANONICAL_TEXT[-4:]
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == text


async def test_echo_sends_the_canonical_events_word_by_word() -> None:
    assert kinds(await events_of(echo(), model_call({"input": "hello"}))) == CANONICAL_TEXT
    words = [e["delta"] for e in await events_of(echo(), model_call({"input": "a b  c"})) if "delta" in e]
    assert words == ["a ", "b  ", "c"]


async def test_echo_takes_the_last_message_of_the_user_in_every_shape() -> None:
    parts = [
        {"type": "input_text", "text": "la"},
        {"type": "input_image", "image_url": "x"},
        {"type": "input_text", "text": "st"},
    ]
    items = [
        user("first"),
        {"role": "assistant", "content": "no"},
        user(parts),
        {"type": "reasoning", "summary": []},
    ]
    assert text_in(await events_of(echo(), model_call({"input": items}))) == "last"


@pytest.mark.parametrize("items", ["", [], [output("x")], [user([])], [user(None)], ["odd", 7, None], None])
async def test_echo_of_nothing_is_an_empty_answer(items: Any) -> None:
    events = await events_of(echo(), model_call({"input": items}))
    assert text_in(events) == ""
    assert kinds(events) == CANONICAL_TEXT


async def test_echo_lets_others_run_between_batches() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await events_of(echo(), model_call({"input": "w " * 3200}))
    task.cancel()
    assert turns >= 100


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"null"])
async def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    for upstream in (echo(), demo()):
        with pytest.raises(UpstreamError) as caught:
            await events_of(upstream, ModelCall(run_id="r", model="m", body=raw))
        assert caught.value.status == 400


# Demo


async def test_demo_without_tools_talks_about_antiphon_and_ends() -> None:
    events = await events_of(demo(), body("hi {there}"))
    assert "Antiphon" in text_in(events)
    assert "hi {there}" in text_in(events)
    assert events[-1]["type"] == "response.completed"
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]


async def test_demo_keeps_its_pace_without_drift() -> None:
    clock = FastClock()
    events = await events_of(DemoUpstream(clock, 30, clock.sleep), body("hi"))
    deltas = kinds(events).count("response.output_text.delta")
    assert deltas > 60
    assert clock.at - 1000 == pytest.approx((deltas - 1) / 30)


async def test_demo_calls_the_first_function_with_arguments_that_fit_its_schema() -> None:
    tools = [
        {"type": "web_search"},
        {"type": "custom", "name": "shell"},
        function(city={"type": "string"}, unit={"enum": ["c", "f"]}, days={"type": "integer", "minimum": 2}),
        function("second"),
    ]
    (call,) = calls_of(await events_of(demo(), body("weather?", tools=tools)))
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert json.loads(call["arguments"]) == {"city": "Paris", "unit": "c", "days": 2}
    assert call["call_id"].startswith("call_")


def calls_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in events[-1]["response"]["output"] if item["type"].endswith("_call")]


async def test_demo_calls_a_custom_tool_with_the_users_words() -> None:
    events = await events_of(demo(), body("do it", tools=[{"type": "custom", "name": "shell"}]))
    (call,) = calls_of(events)
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "shell", "do it")


async def test_demo_follows_a_forced_choice_and_a_forbidden_one() -> None:
    tools = [function("one"), function("two")]
    forced = await events_of(demo(), body("x", tools=tools, tool_choice={"type": "function", "name": "two"}))
    assert [call["name"] for call in calls_of(forced)] == ["two"]
    forbidden = await events_of(demo(), body("x", tools=tools, tool_choice="none"))
    assert calls_of(forbidden) == []
    assert "`one`" in text_in(forbidden)


@pytest.mark.parametrize("question", ["What time is it?", "What time is it? ", "What time is it?!"])
async def test_demo_repeats_a_question_without_its_last_mark(question: str) -> None:
    for tools in ([], [function()]):
        text = text_in(await events_of(demo(), body(question, tools=tools)))
        assert "What time is it. " in text


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"local_time":"noon","utc":true}', "the local time is noon and the utc is true."),
        ('{"a":1,"b":null,"c":"x"}', "the a is 1, the b is null and the c is x."),
        ('{"error":"not there"}', "the error is not there."),
        ('{"a":{"b":1}}', '{"a":{"b":1}}'),
        ("{}", "{}"),
        ("[1]", "[1]"),
        ("7", "7"),
        ("{oops", "{oops"),
    ],
)
async def test_demo_tells_a_small_object_in_words(given: str, told: str) -> None:
    text = text_in(await events_of(demo(), body([user("x"), output(given)])))
    assert f"It says: {told}\n" in text


async def test_demo_writes_at_length_when_asked_and_calls_no_tool() -> None:
    clock = FastClock()
    asked = body("Write a long answer.", tools=[function()])
    events = await events_of(DemoUpstream(clock, 30, clock.sleep), asked)
    assert calls_of(events) == []
    assert text_in(events).count("\n\n") >= 3
    assert 8 < clock.at - 1000 < 15
    forced = {"type": "function", "name": "get_weather"}
    for rest in ({"tool_choice": forced}, {"tool_choice": "required"}):
        asked = body("Write a long answer.", tools=[function()], **rest)
        assert len(calls_of(await events_of(demo(), asked))) == 1
    assert calls_of(await events_of(demo(), body("How long is it?", tools=[function()])))


@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
async def test_demo_answers_with_what_the_tools_gave(kind: str) -> None:
    parts = [{"type": "input_text", "text": "22 degrees"}]
    items = [user("x"), {"type": "function_call", "call_id": "c"}, output("sunny", kind), output(parts, kind)]
    events = await events_of(demo(), body(items, tools=[function()]))
    assert "sunny; 22 degrees" in text_in(events)
    assert calls_of(events) == []


CLOCK = function("current_time")
TEN_PAST_NOON = '{"time":"2030-05-04T12:10:07+00:00","weekday":"Saturday","timezone":"UTC"}'


def clock_call(name: str = "current_time") -> dict[str, Any]:
    return {"type": "function_call", "call_id": "clock", "name": name, "arguments": "{}"}


def clock_says(text: str = TEN_PAST_NOON) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "clock", "output": text}


@pytest.mark.parametrize("tools", [[CLOCK], [function(), CLOCK], [{"type": "custom", "name": "shell"}, CLOCK]])
@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_demo_asks_the_clock_of_the_server_before_it_says_a_word(tools: Any, choice: str) -> None:
    events = await events_of(demo(), body("weather?", tools=tools, tool_choice=choice))
    (call,) = calls_of(events)
    assert (call["name"], call["arguments"]) == ("current_time", "{}")
    assert text_in(events) == ""


async def test_demo_mentions_the_time_and_then_goes_on_as_without_a_clock() -> None:
    asked = [user("weather?"), clock_call(), clock_says()]
    events = await events_of(demo(), body(asked, tools=[function(), CLOCK]))
    assert "The server's clock says 12:10 UTC on a Saturday. Let me ask your tool" in text_in(events)
    assert [call["name"] for call in calls_of(events)] == ["get_weather"]
    talked = await events_of(demo(), body(asked, tools=[CLOCK]))
    assert "12:10 UTC on a Saturday. Antiphon is" in text_in(talked)
    assert calls_of(talked) == []
    at_length = await events_of(demo(), body([user("a long answer"), clock_call(), clock_says()], tools=[CLOCK]))
    assert "12:10 UTC on a Saturday. It takes" in text_in(at_length)


async def test_demo_answers_with_the_result_of_the_clients_tool_and_not_with_that_of_the_clock() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}
    asked = [user("weather?"), clock_call(), clock_says(), call, output("sunny")]
    text = text_in(await events_of(demo(), body(asked, tools=[function(), CLOCK])))
    assert "It says: sunny\n" in text
    assert "12:10" not in text


async def test_demo_takes_the_result_of_a_client_that_leaves_the_call_of_the_server_out_of_the_history() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "get_weather", "arguments": "{}"}
    events = await events_of(demo(), body([user("weather?"), call, output("sunny")], tools=[function(), CLOCK]))
    assert "It says: sunny\n" in text_in(events)
    assert calls_of(events) == []


async def test_demo_asks_the_clock_again_when_the_user_speaks_again() -> None:
    asked = [user("one"), clock_call(), clock_says(), {"role": "assistant", "content": "x"}, user("two")]
    assert len(calls_of(await events_of(demo(), body(asked, tools=[CLOCK])))) == 1


async def test_demo_goes_on_when_the_clock_fails() -> None:
    asked = [user("hello"), clock_call(), clock_says("error: the clock stands still")]
    text = text_in(await events_of(demo(), body(asked, tools=[CLOCK])))
    assert "I heard: hello. The server would not tell me the time." in text


async def test_demo_leaves_the_clock_alone_where_a_choice_forbids_it() -> None:
    tools = [function(), CLOCK]
    assert calls_of(await events_of(demo(), body("x", tools=tools, tool_choice="none"))) == []
    forced = {"type": "function", "name": "get_weather"}
    (call,) = calls_of(await events_of(demo(), body("x", tools=tools, tool_choice=forced)))
    assert call["name"] == "get_weather"


async def test_demo_tells_a_clients_tool_of_the_same_name_from_the_clock_of_the_server() -> None:
    ours = "antiphon__current_time"
    tools = [CLOCK, function(ours)]
    (call,) = calls_of(await events_of(demo(), body("x", tools=tools)))
    assert call["name"] == ours
    asked = [user("x"), clock_call(ours), clock_says()]
    (call,) = calls_of(await events_of(demo(), body(asked, tools=tools)))
    assert call["name"] == "current_time"


@pytest.mark.parametrize(
    ("question", "called"),
    [
        ("Ask me a question.", "ask_person"),
        ("What time is it?", "get_local_time"),
        ("Anything.", "get_local_time"),
    ],
)
async def test_demo_chooses_the_function_that_the_question_names(question: str, called: str) -> None:
    tools = [{"type": "custom", "name": "question"}, function("get_local_time"), function("ask_person")]
    assert [call["name"] for call in calls_of(await events_of(demo(), body(question, tools=tools)))] == [called]


async def test_call_ids_differ_from_call_to_call() -> None:
    both = [calls_of(await events_of(demo(), body("x", tools=[function()])))[0]["call_id"] for _ in range(2)]
    assert len(set(both)) == 2


def one(name: str, schema: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name], **rest}


@pytest.mark.parametrize(
    "schema",
    [
        one("a", {"type": ["string", "null"]}),
        one("a", {"type": "array", "items": {"type": "number"}}),
        one("a", {"type": "array", "minItems": 3, "items": {"enum": ["x"]}}),
        one("a", {"type": "string", "format": "date-time"}),
        one("a", {"type": "string", "minLength": 20, "maxLength": 30}),
        one("a", {"type": "number", "exclusiveMinimum": 5}),
        one("a", {"anyOf": [{"type": "null"}, {"type": "integer"}]}),
        one("a", {"$ref": "#/$defs/P"}, **{"$defs": {"P": one("x", {"type": "boolean"})}}),
        one("a", {"const": 3}),
        one("a", {"type": "string", "default": "dd"}),
        one("a", {}, additionalProperties=False),
        {"properties": {"b": {"type": "string"}}},
        {"allOf": [one("q", {"type": "string"})]},
        {"type": "object", "additionalProperties": False},
        {},
    ],
)
def test_example_arguments_are_valid_for_the_schema(schema: dict[str, Any]) -> None:
    jsonschema.validate(example(schema, "some words"), schema)


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    loop = {"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}}}}
    assert isinstance(example(loop, ""), dict)


@pytest.mark.parametrize(
    ("name", "words", "value"),
    [
        ("city", "What is the weather in Oslo?", "Oslo"),
        ("location", "How is it in New York, please?", "New York"),
        ("city", "Hello. What may I expect of the weather?", "Paris"),
        ("city", "Oslo weather", "Paris"),
        ("cmd", "Please say Hello", "echo hello"),
    ],
)
def test_a_name_in_the_question_goes_before_the_fixed_example(name: str, words: str, value: str) -> None:
    assert example(one(name, {"type": "string"}), words) == {name: value}


@pytest.mark.parametrize("schema", [None, "text", [], {"type": "object", "properties": []}])
def test_a_schema_that_cannot_be_read_gives_an_empty_object(schema: Any) -> None:
    assert example(schema, "") == {}


async def test_every_built_in_event_can_be_read_by_the_assembler() -> None:
    for upstream in (echo(), demo()):
        async for batch in upstream.stream(body("x", tools=[function()])):
            assert all(read_event(event) for event in batch)
