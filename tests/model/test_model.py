"""A real small model behind the server: what a stub says on purpose, it says by itself."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest

from tests.http.calling import http, until
from tests.session.held import Waiting, next_call, output, outputs, taken, waits
from tests.session.play import checked, connected, response_id
from tests.support.gap_checker import CheckedRun, check_run
from tests.support.http_client import read_sse
from tests.support.sdk_processes import need_python_sdks, run_script
from tests.support.server import RunningServer

pytestmark = pytest.mark.model

ANSWER_S = 60.0
FREE_WITHIN_S = 5.0
"""How soon the model stops after a cancel; to finish what it was asked for takes it some 20 s."""
STORY = {"input": "Tell me a very long story about a dragon.", "temperature": 0, "max_output_tokens": 1500}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
Turn = Callable[..., Awaitable[tuple[list[dict[str, Any]], CheckedRun]]]


async def over_socket(server: RunningServer, **fields: Any) -> tuple[list[dict[str, Any]], CheckedRun]:
    """One turn; its events, and what the gap checker made of them."""
    async with connected(server.ws_url) as client:
        events = await client.run(wait_s=ANSWER_S, temperature=0, **fields)
    return list(events), checked(events)


async def over_sse(server: RunningServer, **fields: Any) -> tuple[list[dict[str, Any]], CheckedRun]:
    body = {"stream": True, "temperature": 0, **fields}
    stream = await read_sse("POST", f"{server.url}/v1/responses", json=body, wait_s=ANSWER_S)
    assert stream.done
    return stream.payloads, check_run(stream.payloads)


every_transport = pytest.mark.parametrize("turn", [over_socket, over_sse])
every_api = pytest.mark.parametrize("model", ["small-chat", "small-responses"])


def asking(city: str) -> list[dict[str, Any]]:
    """A question the model answers with a call, because it sees that it always did."""
    items: list[dict[str, Any]] = []
    for number, earlier in enumerate(("Rome", "Oslo", "Cairo")):
        call = {"call_id": f"call_{number}", "name": "get_weather", "arguments": json.dumps({"city": earlier})}
        items += [
            {"type": "message", "role": "user", "content": f"Weather in {earlier}?"},
            {"type": "function_call", **call},
            {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny."},
        ]
    return [*items, {"type": "message", "role": "user", "content": f"Weather in {city}?"}]


async def is_busy(model_url: str) -> bool:
    """Whether the model's one slot is taken."""
    async with httpx2.AsyncClient(trust_env=False, timeout=ANSWER_S) as client:
        (slot,) = (await client.get(f"{model_url}/slots")).json()
    return bool(slot["is_processing"])


@every_transport
@every_api
async def test_a_text_streams_and_has_its_usage(server: RunningServer, turn: Turn, model: str) -> None:
    events, run = await turn(server, model=model, input="Say hello.", max_output_tokens=64)
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert len(deltas) > 3
    assert run.text == "".join(deltas)
    assert run.terminal is not None
    usage = run.terminal["usage"]
    assert (run.terminal["status"], run.terminal["model"]) == ("completed", model)
    assert usage["input_tokens"] > 5
    assert usage["output_tokens"] >= len(deltas)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


async def test_a_text_that_needs_more_tokens_than_allowed_is_incomplete(server: RunningServer) -> None:
    _, run = await over_sse(server, model="small-chat", **{**STORY, "max_output_tokens": 16})
    assert run.terminal is not None
    assert run.terminal["status"] == "incomplete"
    assert run.terminal["incomplete_details"] == {"reason": "max_output_tokens"}
    assert run.terminal["usage"]["output_tokens"] == 16


@every_api
async def test_a_turn_goes_on_from_the_one_before(server: RunningServer, model: str) -> None:
    first, run = await over_sse(server, model=model, input="Say hello.", max_output_tokens=64)
    _, next_run = await over_sse(
        server, model=model, input="Say it again.", previous_response_id=response_id(first), max_output_tokens=64
    )
    assert run.terminal is not None and next_run.terminal is not None
    usage = run.terminal["usage"]
    assert next_run.terminal["usage"]["input_tokens"] > usage["input_tokens"] + usage["output_tokens"]
    assert next_run.text


@every_api
async def test_a_cancel_in_mid_answer_frees_the_model(server: RunningServer, model_url: str, model: str) -> None:
    async with connected(server.ws_url) as client:
        await client.hello()
        await client.create(model, **STORY)
        seen = await client.recv_until(
            lambda event: event["type"] == "response.output_text.delta", wait_s=ANSWER_S
        )
        assert await is_busy(model_url)
        await client.command("antiphon:cancel", response_id=response_id(seen))
        rest = await client.collect_run()
        await until(lambda: _free(model_url), FREE_WITHIN_S)
        run = checked(event for event in [*seen, *rest] if not event["type"].startswith("antiphon:"))
        assert run.terminal is not None and run.terminal["status"] == "cancelled"
        assert run.text
        answer = checked(
            await client.run(model, "Say hello.", temperature=0, max_output_tokens=64, wait_s=ANSWER_S)
        )
    assert answer.terminal is not None and answer.terminal["status"] == "completed"


async def _free(model_url: str) -> bool:
    return not await is_busy(model_url)


async def test_an_answer_follows_the_json_schema(server: RunningServer) -> None:
    wanted = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}
    _, run = await over_sse(server, model="small-chat", input="Bob is 31.", text=wanted, max_output_tokens=128)
    jsonschema.validate(json.loads(run.text), PERSON)


@every_transport
@every_api
async def test_a_call_streams_and_its_output_is_answered(server: RunningServer, turn: Turn, model: str) -> None:
    events, run = await turn(server, model=model, input=asking("Paris"), tools=[WEATHER], max_output_tokens=64)
    (call,) = run.calls
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert len(deltas) > 3
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})
    _, answer = await turn(
        server,
        model=model,
        input=[{"type": "function_call_output", "call_id": call["call_id"], "output": "Snow."}],
        previous_response_id=response_id(events),
        max_output_tokens=64,
    )
    assert answer.terminal is not None and answer.terminal["status"] in ("completed", "incomplete")
    assert not answer.calls


@every_api
async def test_a_held_call_gets_its_output_from_another_client_and_the_model_goes_on(
    server: RunningServer, model: str
) -> None:
    async with connected(server.ws_url) as creator, connected(server.ws_url) as other:
        await creator.hello()
        asked = {"input": asking("Paris"), "temperature": 0, "max_output_tokens": 64, "tools": [WEATHER]}
        await creator.create(model, **asked, antiphon={"client_tools": "hold"})
        called = await creator.recv_until(
            lambda event: event["type"] == "response.function_call_arguments.done", wait_s=ANSWER_S
        )
        run = Waiting(response_id(called), [await next_call(creator)])
        await waits(server, run)
        await taken(other, run.id, output(run.call_ids[0], "Snow."))
        # The second answer is the model's own affair; here counts that it is asked for it, with the output.
        seen = await creator.recv_until(
            lambda event: event["type"].endswith(".delta") or event["type"] == "response.completed",
            wait_s=ANSWER_S,
        )
        assert outputs(seen) == [(run.call_ids[0], "Snow.")]


async def test_openai_python_streams_a_text_and_reads_an_answer_into_a_class(server: RunningServer) -> None:
    script = Path(__file__).with_name("openai_client.py")
    result = await run_script([need_python_sdks(), script, f"{server.url}/v1"])
    assert result["deltas"] > 3
    assert isinstance(result["person"]["age"], int)


async def test_the_models_of_both_apis_are_listed(server: RunningServer) -> None:
    async with http(server) as client:
        listed = (await client.get("/v1/models")).json()
    assert {"small-chat", "small-responses"} <= {model["id"] for model in listed["data"]}
