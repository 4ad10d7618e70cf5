"""`GET /v1/conversations/{id}/runs`: a second device finds what was said (PROTOCOL 11.9)."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_protocol.bodies import RunList
from tests.http.calling import begin, create, ended, error_of, get, http, key_of, slow
from tests.session.play import connected, started
from tests.support.server import RunningServer, running_server

TENANTS = [{"id": "acme"}, {"id": "other"}]
KEYS = [
    key_of("anna", name="anna", tenant="acme", role="driver"),
    key_of("bob", name="bob", tenant="acme", role="driver"),
    key_of("boss", name="boss", tenant="acme", role="operator"),
    key_of("other", name="other", tenant="other", role="operator"),
]


async def runs(server: RunningServer, conversation: str, key: str | None = None, **query: Any) -> dict[str, Any]:
    answer = await get(server, f"/v1/conversations/{conversation}/runs", key, **query)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    RunList.model_validate(page)
    return page


def conversation_of(server: RunningServer, response_id: str) -> str:
    return server.app.registry.get(response_id).conversation_id


def ids(page: dict[str, Any]) -> list[str]:
    return [state["response_id"] for state in page["data"]]


async def test_runs_come_newest_first_the_running_one_too_and_page_without_a_gap(tmp_path: Any) -> None:
    async with running_server(tmp_path) as server:
        first = await create(server, "0")
        conversation = conversation_of(server, first["id"])
        made = [first["id"]]
        for n in range(1, 4):
            made.insert(0, (await create(server, str(n), previous_response_id=made[0]))["id"])
        going = await begin(server, "on", model=slow(server), previous_response_id=made[0])
        page = await runs(server, conversation)
        assert ids(page) == [going, *made] and page["has_more"] is False
        assert [state["state"] for state in page["data"]][1:] == ["completed"] * 4
        assert page["data"][0]["state"] in ("queued", "running")
        assert {state["principal"] for state in page["data"]} == {"user:local"}
        newest = await runs(server, conversation, limit=2)
        older = await runs(server, conversation, limit=2, before=ids(newest)[-1])
        oldest = await runs(server, conversation, limit=2, before=ids(older)[-1])
        assert ids(newest) + ids(older) + ids(oldest) == [going, *made]
        assert [p["has_more"] for p in (newest, older, oldest)] == [True, True, False]
        assert ids(await runs(server, conversation, before=made[-1])) == []
        async with http(server) as client:
            await client.post(f"/v1/responses/{going}/cancel")
            await client.delete(f"/v1/responses/{made[0]}")
        made.pop(0)
    async with running_server(tmp_path) as server:
        assert ids(await runs(server, conversation)) == [going, *made]


async def test_private_runs_are_seen_by_their_creator_and_operators_and_foreign_ones_by_nobody() -> None:
    async with running_server(auth="required", key=KEYS, tenant=TENANTS) as server:
        shared = await begin(server, "x", key="anna")
        await ended(server, shared, "anna")
        private = await begin(
            server, "y", key="anna", previous_response_id=shared, antiphon={"visibility": "private"}
        )
        await ended(server, private, "anna")
        conversation = conversation_of(server, shared)
        assert ids(await runs(server, conversation, "anna")) == [private, shared]
        assert ids(await runs(server, conversation, "boss")) == [private, shared]
        assert ids(await runs(server, conversation, "bob")) == [shared]
        path = f"/v1/conversations/{conversation}/runs"
        foreign = await get(server, path, "other")
        unknown = await get(server, "/v1/conversations/conv_unknown/runs", "other")
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.text.replace(conversation, "conv_unknown") == unknown.text
        assert error_of(unknown)["code"] == "conversation_not_found"
        assert error_of(await get(server, path, "bob", before=private))["param"] == "before"


async def test_the_input_of_a_run_can_be_read_as_soon_as_anybody_is_told_of_it() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        for _ in range(5):
            await client.create(slow(server), "asked just now")
            run_id = await started(client)
            answer = await get(server, f"/v1/responses/{run_id}/input_items")
            assert answer.status_code == 200, answer.text
            assert answer.json()["data"][0]["content"][0]["text"] == "asked just now"
            await client.send({"type": "response.cancel", "response_id": run_id})
            await client.collect_run()


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"limit": "x"}, {"before": "resp_none"}])
async def test_a_bad_query_is_refused_by_name(query: dict[str, str]) -> None:
    async with running_server() as server:
        response_id = (await create(server))["id"]
        answer = await get(server, f"/v1/conversations/{conversation_of(server, response_id)}/runs", **query)
    assert answer.status_code == 400
    assert error_of(answer)["param"] in query
