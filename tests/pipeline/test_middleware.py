"""Middlewares around whole runs: what they rewrite is what happens, what they answer is the run (acceptance E)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from antiphon.errors import AntiphonError
from antiphon.hooks import Deny, Next, Reply, RunOutcome, RunRequest
from tests.http.calling import error_of, get, until
from tests.pipeline.agents import agent_of, post, serving
from tests.pipeline.hooking import around, events_of, nothing_is_left, rows
from tests.session.play import checked, connected, response_id, text_of
from tests.support.gap_checker import check_run
from tests.support.http_client import read_sse
from tests.support.server import RunningServer

AGENTS = [
    {"name": "a", "model": "small", "instructions": "told"},
    {"name": "closed", "model": "large"},
]
SMALL_ONLY = [{"id": "acme", "models": ["small"]}, {"id": "other"}]


async def test_the_model_the_store_and_the_next_turn_read_what_a_middleware_made_of_the_input() -> None:
    async def redact(request: RunRequest, go_on: Next) -> RunOutcome:
        return await go_on(request.with_texts(lambda text: text.replace("SECRET", "[gone]")))

    async with serving() as (stub, server):
        around(server, redact)
        first = (await post(server, model="small", input="my SECRET")).json()["id"]
        items = (await get(server, f"/v1/responses/{first}/input_items", "driver")).json()["data"]
        assert items[0]["content"][0]["text"] == "my [gone]"
        await post(server, model="small", input="more", previous_response_id=first)
        assert "SECRET" not in str([request.body for request in stub.requests])
        assert not any(
            b"SECRET" in bytes(value)
            for row in await rows(server, "responses")
            for value in row
            if isinstance(value, bytes)
        )
        assert [item["content"] for item in stub.requests[1].body["input"] if item["role"] == "user"] == [
            "my [gone]",
            "more",
        ]


async def test_a_rewritten_input_is_checked_like_any_other() -> None:
    async def adds_image(request: RunRequest, go_on: Next) -> RunOutcome:
        image = {"type": "input_image", "image_url": request.texts()[0]}
        return await go_on(replace(request, input=[{"role": "user", "content": [image]}]))

    async with serving() as (stub, server):
        around(server, adds_image)
        refused = await post(server, model="small", input="http://169.254.169.254/latest/meta-data")
        assert (refused.status_code, error_of(refused)["code"]) == (400, "input_url_not_allowed")
        assert stub.requests == []
        await nothing_is_left(server)
        assert (await post(server, model="small", input="https://example.com/a.png")).status_code == 200


async def test_a_rewritten_agent_and_model_are_the_runs() -> None:
    async def to_a(request: RunRequest, go_on: Next) -> RunOutcome:
        return await go_on(replace(request, agent="a", model=None))

    async with serving(agent=AGENTS) as (stub, server):
        around(server, to_a)
        response = (await post(server, model="other")).json()
        assert agent_of(server, response["id"]) == ("a", "system")
        assert (stub.requests[0].body["model"], stub.requests[0].body["instructions"]) == ("small", "told")


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"agent": "closed", "model": None}, 403, "model_not_allowed"),
        ({"agent": "nobody"}, 404, "agent_not_found"),
        ({"model": "large"}, 404, "model_not_found"),
        ({"input": [{"role": 5}]}, 400, "invalid_request"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, 400, "tool_output_unknown"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, 404, "item_not_found"),
    ],
)
async def test_a_rewrite_is_authorised_and_checked_like_any_request(
    change: dict[str, Any], status: int, code: str
) -> None:
    told: list[str] = []

    async def rewrite(request: RunRequest, go_on: Next) -> RunOutcome:
        try:
            return await go_on(replace(request, **change))
        except AntiphonError as error:
            told.append(error.code)
            raise

    async with serving(agent=AGENTS, tenant=SMALL_ONLY) as (stub, server):
        around(server, rewrite)
        answer = await post(server, model="small")
        assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        assert stub.requests == []
        await nothing_is_left(server)
        await until(lambda: told == [code])


async def twice(request: RunRequest, go_on: Next) -> RunOutcome:
    await go_on(request)
    return await go_on(request)


async def test_next_called_twice_changes_nothing_of_a_run_that_everybody_saw() -> None:
    async with serving() as (stub, server):
        around(server, twice)
        response = (await post(server, model="small")).json()
        assert response["status"] == "completed"
        assert events_of(server, response["id"]).count("run.started") == 1
        assert len(stub.requests) == 1


@pytest.mark.parametrize("junk", [None, "go on", 7, {"deny": True}, RuntimeError("SECRET")])
async def test_what_is_no_answer_is_an_error_and_never_lets_a_run_through(junk: Any) -> None:
    async def wrong(request: RunRequest, go_on: Next) -> Any:
        if isinstance(junk, Exception):
            raise junk
        return junk

    async with serving() as (stub, server):
        around(server, wrong)
        answer = await post(server, model="small")
        assert (answer.status_code, error_of(answer)["code"]) == (500, "server_error")
        assert "SECRET" not in answer.text
        assert stub.requests == []
        await nothing_is_left(server)


@pytest.mark.parametrize("raised", [True, False])
async def test_a_deny_is_403_and_leaves_nothing(raised: bool) -> None:
    async def refuse(request: RunRequest, go_on: Next) -> Deny:
        if raised:
            raise Deny()
        return Deny()

    async with serving() as (stub, server):
        around(server, refuse)
        answer = await post(server, model="small")
        assert (answer.status_code, error_of(answer)["code"], error_of(answer)["message"]) == (
            403,
            "denied",
            "agent.run denied",
        )
        assert answer.headers["x-should-retry"] == "false"
        assert stub.requests == []
        await nothing_is_left(server)


Ask = Callable[[RunningServer], Awaitable[tuple[str, str]]]


async def over_http(server: RunningServer) -> tuple[str, str]:
    response = (await post(server, None, model="small")).json()
    return response["id"], response["output"][0]["content"][0]["text"]


async def over_sse(server: RunningServer) -> tuple[str, str]:
    sent = {"model": "small", "input": "x", "stream": True}
    body = await read_sse("POST", f"{server.url}/v1/responses", json=sent)
    run = check_run(body.payloads)
    return run.response_id or "", run.text


async def over_socket(server: RunningServer) -> tuple[str, str]:
    async with connected(server.ws_url) as client:
        events = await client.run("small", "x")
        assert checked(events)
        return response_id(events), text_of(events)


@pytest.mark.parametrize("ask", [over_http, over_sse, over_socket])
async def test_an_answer_in_the_models_place_is_a_whole_run_without_a_model_call(ask: Ask) -> None:
    async def answer(request: RunRequest, go_on: Next) -> Reply:
        return Reply(text="from the cache")

    async with serving(auth=False) as (stub, server):
        around(server, answer, "cache")
        run_id, text = await ask(server)
        assert text == "from the cache"
        assert stub.requests == []
        events = events_of(server, run_id, "default")
        assert [event for event in events if event != "run.step.started"] == [
            "run.created",
            "run.started",
            "run.completed",
        ]
        stored = (await get(server, f"/v1/responses/{run_id}")).json()
        assert (stored["status"], stored["output"][0]["content"][0]["text"]) == ("completed", "from the cache")
        assert server.app.registry.get(run_id).upstream == "cache"


async def test_an_answer_may_be_items_and_the_conversation_goes_on_behind_it() -> None:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one"}]},
        {"type": "message", "role": "assistant", "content": "two"},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    ]

    async def answer(request: RunRequest, go_on: Next) -> Reply | RunOutcome:
        return await go_on(request) if request.previous_response_id else Reply(items=items)

    look = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    async with serving() as (stub, server):
        around(server, answer)
        first = (await post(server, model="small", tools=[look])).json()
        assert [item["type"] for item in first["output"]] == ["message", "message", "function_call"]
        assert [item["content"][0]["text"] for item in first["output"][:2]] == ["one", "two"]
        output = {"type": "function_call_output", "call_id": first["output"][2]["call_id"], "output": "seen"}
        second = await post(server, model="small", tools=[look], previous_response_id=first["id"], input=[output])
        assert second.json()["status"] == "completed"
        kinds = [item.get("type", "message") for item in stub.requests[0].body["input"]]
        assert kinds == ["message", "message", "message", "function_call", "function_call_output"]


async def test_a_middleware_hears_how_the_run_ended() -> None:
    heard: list[RunOutcome] = []

    async def listen(request: RunRequest, go_on: Next) -> RunOutcome:
        outcome = await go_on(request)
        heard.append(outcome)
        return outcome

    async with serving(agent=AGENTS) as (_, server):
        around(server, listen)
        run_id = (await post(server, model="agent:a")).json()["id"]
        await until(lambda: bool(heard))
        told = heard[0]
        assert (told.run_id, told.status, told.agent, told.source) == (run_id, "completed", "a", "system")
        assert (told.model, told.upstream) == ("small", "stub")
