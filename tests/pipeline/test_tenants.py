"""Runs of one tenant are nothing to another: events, tools, usage, errors, feed (acceptance I)."""

from __future__ import annotations

import asyncio

from tests.http.calling import UNKNOWN_ID, get, until
from tests.pipeline.agents import call, now, post, serving
from tests.pipeline.hooking import lifecycle
from tests.support.stub_upstream import answering, in_turn, text
from tests.support.ws_client import ws_client

TENANTS = [{"id": "acme", "tools": ["one"]}, {"id": "other", "tools": ["two"]}]
AGENTS = [
    {"name": "a", "tier": "user", "tenant": tenant, "model": "small", "instructions": f"for {tenant}"}
    for tenant in ("acme", "other")
]


async def test_nothing_of_a_run_reaches_another_tenant_whatever_its_request_says() -> None:
    refuse = answering(400, {"error": {"message": "SECRET", "code": "bad"}})
    async with (
        serving(
            handler=in_turn(text(2), refuse, text(2)), tenant=TENANTS, agent=AGENTS, tool=[now("one"), now("two")]
        ) as (
            _,
            server,
        ),
        ws_client(server.ws_url, api_key="foreign") as watching,
    ):
        await watching.hello()
        ended = (await post(server, model="agent:a", tenant="other")).json()["id"]
        failed = (await post(server, model="agent:a", background=True)).json()["id"]
        await until(lambda: server.app.registry.get(failed).terminal is not None)
        theirs = (await post(server, "foreign", model="agent:a", tenant="acme")).json()["id"]
        assert {run_id for run_id, _ in lifecycle(server, "acme")} == {ended, failed}
        assert {run_id for run_id, _ in lifecycle(server, "other")} == {theirs}
        for run_id in (ended, failed):
            told = await get(server, f"/v1/responses/{run_id}", "foreign")
            none = await get(server, f"/v1/responses/{UNKNOWN_ID}", "foreign")
            assert told.status_code == 404
            assert told.text.replace(run_id, UNKNOWN_ID) == none.text
            attached = await watching.command("antiphon:attach", response_id=run_id)
            assert attached["type"] == "antiphon:error"
        assert not any(run_id in event.raw for event in watching.received for run_id in ("SECRET", theirs))
        assert [state.tenant for state in server.app.registry] == ["acme", "acme", "other"]


async def test_a_continuation_of_another_tenants_response_is_of_one_that_does_not_exist() -> None:
    async with serving(agent=AGENTS) as (stub, server):
        run_id = (await post(server, model="agent:a")).json()["id"]
        told, none = [
            await post(server, "foreign", model="agent:a", previous_response_id=one)
            for one in (run_id, UNKNOWN_ID)
        ]
        assert told.status_code == none.status_code == 404
        assert told.text.replace(run_id, UNKNOWN_ID) == none.text
        assert len(stub.requests) == 1


async def test_runs_of_two_tenants_at_once_stay_apart() -> None:
    async with serving(agent=AGENTS) as (stub, server):
        keys = ["driver", "foreign"] * 5
        answers = await asyncio.gather(*(post(server, key, model="agent:a") for key in keys))
        for key, answer in zip(keys, answers, strict=True):
            tenant = {"driver": "acme", "foreign": "other"}[key]
            assert server.app.registry.get(answer.json()["id"]).tenant == tenant
            foreign = {"driver": "foreign", "foreign": "driver"}[key]
            assert (await call(server, foreign, "GET", f"/v1/responses/{answer.json()['id']}")).status_code == 404
        told = sorted(request.body["instructions"] for request in stub.requests)
        assert told == ["for acme"] * 5 + ["for other"] * 5
