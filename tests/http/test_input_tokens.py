"""`POST /v1/responses/input_tokens`: counted by who would read it, or refused (PROTOCOL 11.1)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from antiphon_protocol.bodies import InputTokens
from tests.http.calling import MODEL, create, error_of, http, key_of, stub_server
from tests.http.test_conversations import conversation
from tests.support import stub_upstream as stub
from tests.support.compacting import said
from tests.support.server import RunningServer, running_server

TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]


def counting(answer: stub.Handler) -> stub.Handler:
    """A model server that counts every input as 42 tokens, and answers creates."""

    async def handler(request: stub.StubRequest, conn: stub.StubConn) -> None:
        if request.path.endswith("/responses/input_tokens"):
            conn.answer(200, {"object": "response.input_tokens", "input_tokens": 42})
        else:
            await answer(request, conn)

    return handler


async def count(server: RunningServer, key: str | None = None, **fields: Any) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.post("/v1/responses/input_tokens", json={"model": MODEL, **fields})


async def test_the_upstream_counts_what_a_create_would_send_it() -> None:
    async with stub_server(counting(stub.text(1))) as (upstream, server):
        first = await create(server, "one", model=MODEL)
        one = await conversation(server, items=[{"role": "user", "content": "zero"}])
        for history, words in (
            ({"previous_response_id": first["id"]}, ["one", "w0 ", "two"]),
            ({"conversation": one}, ["zero", "two"]),
        ):
            answer = await count(server, input="two", instructions="Be kind.", tools=TOOLS, **history)
            assert answer.status_code == 200, answer.text
            InputTokens.model_validate(answer.json())
            assert answer.json() == {"object": "response.input_tokens", "input_tokens": 42}
            asked = upstream.requests[-1]
            assert asked.headers["accept"] == "application/json"
            assert (said(asked.body), asked.body["instructions"]) == (words, "Be kind.")
            assert [tool["name"] for tool in asked.body["tools"]] == ["f"]
            assert asked.body.keys() == {"model", "input", "instructions", "tools"}, "the route refuses others"
        await create(server, "two", model=MODEL, conversation=one)  # counting has locked nothing


async def test_tools_of_the_server_are_counted_as_the_functions_a_model_sees() -> None:
    async with stub_server(counting(stub.text(1))) as (upstream, server):
        clock = {"type": "mcp", "server_label": "antiphon", "allowed_tools": ["current_time"]}
        assert (await count(server, input="x", tools=[clock])).status_code == 200
        assert [(t["type"], t["name"]) for t in upstream.requests[0].body["tools"]] == [
            ("function", "current_time")
        ]


async def test_a_built_in_model_counts_as_its_usage_does() -> None:
    async with running_server() as server:
        counted = (await count(server, model="antiphon/echo", input="one two three")).json()["input_tokens"]
        made = await create(server, "one two three")
        assert counted == made["usage"]["input_tokens"] == 3


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_an_upstream_that_cannot_count_is_no_reason_to_guess(status: int) -> None:
    async with stub_server(stub.answering(status, {"error": {"message": "no"}})) as (_, server):
        answer = await count(server, input="x")
        assert (answer.status_code, error_of(answer)["code"]) == (400, "counting_not_supported")
        assert error_of(answer)["param"] == "model"


async def test_an_upstream_that_speaks_chat_is_not_even_asked() -> None:
    async with stub_server(stub.text(1), upstream={"api": "chat"}) as (upstream, server):
        answer = await count(server, input="x")
        assert (answer.status_code, error_of(answer)["code"]) == (400, "counting_not_supported")
        assert not upstream.requests


@pytest.mark.parametrize(
    ("handler", "status"),
    [
        (stub.answering(400, {"error": {"message": "bad", "code": "invalid_prompt"}}), 400),
        (stub.answering(200, {"input_tokens": "many"}), 502),
        (stub.answering(200, {"input_tokens": 1}, content_type="text/html"), 200),
        (stub.answering(500, {"error": {"message": "down"}}), 503),
    ],
    ids=["refused", "no number", "a strange type", "down"],
)
async def test_what_the_upstream_says_about_it_is_passed_on(handler: stub.Handler, status: int) -> None:
    async with stub_server(handler) as (_, server):
        assert (await count(server, input="x")).status_code == status


async def test_counting_costs_no_request_of_the_tenant_and_is_for_drivers() -> None:
    keys = [key_of("d", tenant="acme", role="driver"), key_of("v", tenant="acme", role="viewer")]
    quota = {"tenant": [{"id": "acme", "quotas": {"requests_per_day": 1}}]}
    async with running_server(auth="required", key=keys, **quota) as server:
        for _ in range(3):
            assert (await count(server, "d", model="antiphon/echo", input="x")).status_code == 200
        await create(server, key="d")
        assert (await count(server, "d", model="antiphon/echo", input="x")).status_code == 200, "none is left"
        answer = await count(server, "v", model="antiphon/echo", input="x")
        assert (answer.status_code, error_of(answer)["code"]) == (403, "forbidden")
