"""`POST /v1/responses/compact`: a shorter form of a history, to be the input of a new chain."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from antiphon.core.compaction import SUMMARY_HEAD
from antiphon_protocol.bodies import CompactedResponse
from tests.http.calling import MODEL, create, error_of, http, key_of, stub_server
from tests.support import stub_upstream as stub
from tests.support.compacting import asks_for_summary, compacting, said
from tests.support.server import RunningServer, running_server

TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]


def user(words: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": words}


async def post(server: RunningServer, key: str | None = None, **fields: Any) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.post("/v1/responses/compact", json={"model": MODEL, **fields})


async def compact(server: RunningServer, **fields: Any) -> dict[str, Any]:
    answer = await post(server, **fields)
    assert answer.status_code == 200, answer.text
    given: dict[str, Any] = answer.json()
    CompactedResponse.model_validate(given)
    return given


async def test_a_chain_becomes_what_users_said_and_a_compaction_that_a_new_chain_goes_on_from() -> None:
    async with stub_server(compacting("what was done", stub.text(1))) as (upstream, server):
        first = (await create(server, "one", model=MODEL))["id"]
        compacted = await compact(
            server, previous_response_id=first, input=[user("two")], instructions="Keep names.", store=None
        )
        assert compacted["object"] == "response.compaction"
        assert [item["type"] for item in compacted["output"]] == ["message", "message", "compaction"]
        assert [item["content"][0]["text"] for item in compacted["output"][:2]] == ["one", "two"]
        assert compacted["usage"]["total_tokens"] == 4
        asked = (await upstream.request(1)).body
        assert asks_for_summary(asked)
        assert (said(asked)[:-1], asked["instructions"]) == (["one", "w0 ", "two"], "Keep names.")
        await create(server, [*compacted["output"], user("three")], model=MODEL)
        await create(server, [compacted["output"][-1], user("three")], model=MODEL)
        for index in (2, 3):
            items = (await upstream.request(index)).body["input"]
            assert said({"input": items}) == ["one", "SUMMARY what was done", "two", "three"]
            assert not [item for item in items if "id" in item], "no ids that the upstream does not know"


async def test_a_whole_history_in_the_input_is_compacted_as_well() -> None:
    pair = [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ]
    async with stub_server(compacting("s", stub.text(1))) as (upstream, server):
        compacted = await compact(server, input=[user("one"), *pair])
        assert [item["type"] for item in compacted["output"]] == ["message", "compaction"]
        await create(server, compacted["output"], model=MODEL)
        assert said((await upstream.request(1)).body) == ["one", "SUMMARY s"]


async def test_nothing_is_stored_of_a_compaction_and_it_cannot_be_continued() -> None:
    async with stub_server(compacting("s", stub.text(1))) as (_, server):
        made = await compact(server, input="one")
        async with http(server) as client:
            assert (await client.get(f"/v1/responses/{made['id']}")).status_code == 404
            body = {"model": MODEL, "input": "on", "previous_response_id": made["id"]}
            answer = await client.post("/v1/responses", json=body)
        assert error_of(answer)["code"] == "previous_response_not_found"


async def test_what_cannot_be_compacted_is_refused_before_any_call_of_the_model() -> None:
    async with stub_server(compacting("s", stub.calls(("f", "{}")))) as (upstream, server):
        opened = (await create(server, "one", model=MODEL, tools=TOOLS))["id"]
        for fields, status, code in (
            ({}, 400, "invalid_request"),
            ({"input": []}, 400, "invalid_request"),
            ({"previous_response_id": opened}, 400, "tool_output_missing"),
            ({"input": "x", "previous_response_id": "resp_" + "0" * 32}, 404, "previous_response_not_found"),
            ({"input": "x", "model": "no-such-model"}, 404, "model_not_found"),
            ({"input": [{"type": "item_reference", "id": "msg_1"}]}, 404, "item_not_found"),
        ):
            answer = await post(server, **fields)
            assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("failing", "status", "code"),
    [
        (stub.answering(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}), 400, None),
        (stub.answering(401, {"error": {"message": "no", "code": "invalid_api_key"}}), 502, "upstream_error"),
        (stub.play(stub.events_of_text([""])), 502, "upstream_error"),
    ],
    ids=["too long", "unauthorized", "empty"],
)
async def test_a_failing_call_of_the_model_is_an_error_and_the_history_stays(
    failing: stub.Handler, status: int, code: str | None
) -> None:
    async with stub_server(compacting(failing, stub.text(1))) as (upstream, server):
        first = (await create(server, "one", model=MODEL))["id"]
        answer = await post(server, previous_response_id=first)
        assert answer.status_code == status
        assert error_of(answer)["code"] == (code or "context_length_exceeded")
        await create(server, "two", model=MODEL, previous_response_id=first)
        assert said(upstream.requests[-1].body) == ["one", "w0 ", "two"]


async def test_a_viewer_may_not_compact() -> None:
    keys = [key_of("v", role="viewer")]
    async with running_server(auth="required", key=keys) as server:
        answer = await post(server, "v", model="antiphon/echo", input="x")
        assert (answer.status_code, error_of(answer)["code"]) == (403, "forbidden")


async def test_a_built_in_model_compacts_too() -> None:
    async with running_server() as server:
        made = await compact(server, model="antiphon/echo", input="hello")
        again = await create(server, [*made["output"], user("and now?")])
        assert again["output"][0]["content"][0]["text"] == "and now?"
        assert SUMMARY_HEAD not in str(made)
