"""Models behind a Chat Completions server: clients see the same runs as of any other, over socket and SSE."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from tests.session.play import checked, connected, response_id, stub_settings
from tests.support.chat_stub import call_chunks, chunk, play, text_chunks
from tests.support.gap_checker import CheckedRun, check_run
from tests.support.http_client import read_sse
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import Handler, StubConn, StubRequest, StubUpstream, in_turn

MODEL = "stub-model"
WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "patch"}
FILES = {"type": "namespace", "name": "files", "description": "", "tools": [{"type": "function", "name": "read"}]}
CALLS = [
    chunk({"reasoning_content": "Two places."}),
    *call_chunks(
        ("call_a", "get_weather", '{"city":"Łódź"}'),
        ("call_b", "patch", orjson.dumps({"input": "+é"}).decode()),
        ("call_c", "files__read", '{"path":"/"}'),
    ),
]


@contextlib.asynccontextmanager
async def chat_server(handler: Handler) -> AsyncIterator[tuple[StubUpstream, RunningServer]]:
    async with (
        StubUpstream(handler) as stub,
        running_server(**stub_settings(stub, api="chat")) as server,
    ):
        yield stub, server


async def over_socket(server: RunningServer, input: Any, **fields: Any) -> tuple[str, CheckedRun]:
    async with connected(server.ws_url) as client:
        events = await client.run(MODEL, input, **fields)
    return response_id(events), checked(events)


async def over_sse(server: RunningServer, input: Any, **fields: Any) -> tuple[str, CheckedRun]:
    body = {"model": MODEL, "input": input, "stream": True, **fields}
    stream = await read_sse("POST", f"{server.url}/v1/responses", json=body)
    run = check_run(stream.payloads)
    return str(run.response_id), run


every_transport = pytest.mark.parametrize("turn", [over_socket, over_sse])


@every_transport
async def test_a_text_comes_with_its_thoughts_and_usage(turn: Any) -> None:
    handler = play([chunk({"reasoning_content": "hm"}), *text_chunks("Grüße ", "🚀")])
    async with chat_server(handler) as (_, server):
        _, run = await turn(server, "hi")
    assert run.text == "Grüße 🚀"
    assert [item["type"] for item in run.items] == ["reasoning", "message"]
    assert run.terminal is not None
    assert (run.terminal["status"], run.terminal["usage"]["total_tokens"]) == ("completed", 10)


@every_transport
async def test_calls_of_every_kind_are_answered_and_the_model_hears_the_answers(turn: Any) -> None:
    async with chat_server(in_turn(play(CALLS), play(text_chunks("Cold.")))) as (stub, server):
        tools = [WEATHER, PATCH, FILES]
        parent, run = await turn(server, "Weather?", tools=tools, instructions="Be brief.")
        weather, patch, read = run.calls
        assert (weather["name"], weather["arguments"]) == ("get_weather", '{"city":"Łódź"}')
        assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "patch", "+é")
        assert (read["name"], read["namespace"]) == ("read", "files")
        outputs = [
            {"type": "function_call_output", "call_id": read["call_id"], "output": "a file"},
            {"type": "custom_tool_call_output", "call_id": patch["call_id"], "output": "patched"},
            {"type": "function_call_output", "call_id": weather["call_id"], "output": "4 degrees"},
        ]
        _, answer = await turn(server, outputs, previous_response_id=parent, tools=tools)
        assert answer.text == "Cold."
        first, second = (request.body["messages"] for request in stub.requests)
    assert first == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]
    question, calls, *answers = second
    assert question == {"role": "user", "content": "Weather?"}
    assert calls["reasoning_content"] == "Two places."
    assert [(c["id"], c["function"]["name"]) for c in calls["tool_calls"]] == [
        ("call_a", "get_weather"),
        ("call_b", "patch"),
        ("call_c", "files__read"),
    ]
    assert orjson.loads(calls["tool_calls"][1]["function"]["arguments"]) == {"input": "+é"}
    assert [(each["role"], each["tool_call_id"], each["content"]) for each in answers] == [
        ("tool", "call_c", "a file"),
        ("tool", "call_b", "patched"),
        ("tool", "call_a", "4 degrees"),
    ]


@every_transport
async def test_a_text_that_is_cut_off_fails_and_keeps_what_came(turn: Any) -> None:
    async with chat_server(play([chunk({"content": "half"})])) as (_, server):
        _, run = await turn(server, "hi")
    assert run.terminal is not None
    assert (run.terminal["status"], run.terminal["error"]["code"]) == ("failed", "upstream_error")
    assert run.terminal["output"][0]["content"][0]["text"] == "half"


async def test_a_cancel_closes_the_upstreams_connection_and_keeps_what_came() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(chunk({"content": "half"}), named=False)
        await conn.held()

    async with chat_server(handler) as (stub, server), connected(server.ws_url) as client:
        await client.hello()
        await client.create(MODEL, "hi")
        seen = await client.recv_until(lambda event: event["type"] == "response.output_text.delta")
        await client.command("antiphon:cancel", response_id=response_id(seen))
        await asyncio.wait_for((await stub.request(0)).closed, 0.5)
        run = checked(
            [event for event in [*seen, *await client.collect_run()] if event["type"][:9] != "antiphon:"]
        )
    assert run.terminal is not None
    assert (run.terminal["status"], run.text) == ("cancelled", "half")
