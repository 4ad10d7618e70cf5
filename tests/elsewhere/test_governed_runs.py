"""Runs that change hands keep what they hold of quotas, the rules of their agent, and pay for each call once."""

from __future__ import annotations

from typing import Any

import httpx2

from antiphon.bus.redis.keys import admission
from antiphon.core.quotas import tokens_counter
from tests.cluster.answering import until_taken
from tests.http.calling import until
from tests.session.held import calling, hold, output, taken
from tests.session.play import stub_settings
from tests.support.cluster import LocalNode, ProcessNode, cluster, process_cluster, waits_durably
from tests.support.redis import RedisServer
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, calls, text
from tests.support.ws_client import TERMINALS, Event, ws_client

AGENT: dict[str, Any] = {
    "name": "a",
    "model": "stub-model",
    "instructions": "told",
    "client_tools": "hold",
    "tools": [],
}
ONE_SLOT = [{"id": "default", "quotas": {"concurrent_runs": 1}}]
MANY = {"period": "month", "tenant": "default", "tokens": 1_000_000}
WAIT_S = 30.0


async def looks_first(request: StubRequest, conn: StubConn) -> None:
    """A model that calls a tool of the client, and says something once it has the answer."""
    answered = any(item.get("type") == "function_call_output" for item in request.body["input"])
    await (text(3) if answered else calls(("look", "{}")))(request, conn)


def slots(redis: RedisServer) -> int:
    return int(redis.command("ZCARD", admission("default", "slots")) or 0)


def counted_tokens(redis: RedisServer, at: float) -> int:
    return int(redis.command("HGET", admission("default", "counters"), tokens_counter(at)) or 0)


async def another(node: LocalNode | ProcessNode) -> tuple[int, str]:
    """Try to start one more run."""
    async with httpx2.AsyncClient(base_url=node.url, timeout=WAIT_S, trust_env=False) as http:
        answer = await http.post("/v1/responses", json={"model": "antiphon/echo", "input": "x"})
    return answer.status_code, "" if answer.status_code == 200 else answer.json()["error"]["code"]


async def usage(node: LocalNode | ProcessNode, model: str) -> dict[str, Any]:
    """What was used of a model, as an admin reads it."""
    async with httpx2.AsyncClient(base_url=node.url, timeout=WAIT_S, trust_env=False) as http:
        rows = (await http.get("/v1/usage", params={"by": "model"})).json()["data"]
    return next((row for row in rows if row["model"] == model), {"calls": 0})


def ended(events: list[Event]) -> dict[str, Any]:
    response: dict[str, Any] = next(event for event in events if event["type"] in TERMINALS)["response"]
    return response


async def test_a_drain_hands_a_run_over_with_its_one_slot_its_agent_and_its_bill(postgres_url: str) -> None:
    async with (
        StubUpstream(looks_first, models=("stub-model",)) as stub,
        cluster(
            postgres_url, lease_s=10.0, agent=[AGENT], tenant=ONE_SLOT, budget=[MANY], **stub_settings(stub)
        ) as c,
        ws_client(c.a.ws_url) as owner,
        ws_client(c.b.ws_url) as client,
    ):
        await owner.hello()
        await client.hello()
        run = await hold(owner, "agent:a")
        await waits_durably(c.redis, run.id, WAIT_S)
        assert await another(c.b) == (429, "too_many_runs")
        await c.a.stop()
        await until(lambda: c.b.app.engine.directory.own(run.id) is not None, WAIT_S)
        assert await another(c.b) == (429, "too_many_runs")
        assert slots(c.redis) == 1
        lane = (await client.attach(run.id, after="now"))["stream_id"]
        await taken(client, run.id, output(run.call_ids[0]), stream_id=lane)
        response = ended(await client.collect_attachment(lane))
        assert response["status"] == "completed"
        assert [request.body["instructions"] for request in stub.requests] == ["told", "told"]
        await c.b.app.accounts.flush()
        rows = await c.b.app.accounts.usage.calls_of(run.id)
        assert sorted(row.step for row in rows) == ["1", "2"] and {row.agent for row in rows} == {"a"}
        total = sum(row.total_tokens for row in rows)
        assert total == response["usage"]["total_tokens"] > 0
        await until(lambda: slots(c.redis) == 0, WAIT_S)
        assert counted_tokens(c.redis, rows[0].at) == total
        assert (await another(c.b))[0] == 200


async def test_when_the_owner_is_killed_what_was_charged_stays_and_the_rest_is_charged_once(
    postgres_url: str,
) -> None:
    async with process_cluster(postgres_url, lease_s=1.0, tenant=ONE_SLOT, budget=[MANY]) as c:
        model = calling(c.folder, 1)

        async def are_charged(count: int) -> bool:
            return int((await usage(c.b, model))["calls"]) == count

        async with ws_client(c.b.ws_url) as client:
            await client.hello()
            async with ws_client(c.a.ws_url) as owner:
                run = await hold(owner, model)
                await waits_durably(c.redis, run.id, WAIT_S)
                await until(lambda: are_charged(1), WAIT_S)
                await c.a.kill()
            await until_taken(client, run.id, output(run.call_ids[0]), WAIT_S)
            lane = (await client.attach(run.id))["stream_id"]
            response = ended(await client.collect_attachment(lane, wait_s=WAIT_S))
        assert response["status"] == "completed"
        await until(lambda: are_charged(2), WAIT_S)
        charged = await usage(c.b, model)
        assert charged["total_tokens"] == response["usage"]["total_tokens"] > 0
        await until(lambda: slots(c.redis) == 0, WAIT_S)
        assert counted_tokens(c.redis, response["created_at"]) == charged["total_tokens"]
        assert await another(c.b) == (200, "")


async def test_a_run_that_nobody_can_go_on_with_leaves_its_slot_at_once(postgres_url: str) -> None:
    """Its process is killed while its model speaks: what it said to clients cannot be said again."""
    async with process_cluster(postgres_url, lease_s=1.0, tenant=ONE_SLOT) as c, ws_client(c.a.ws_url) as owner:
        (c.folder / "scripts" / "endless.toml").write_text(
            '[[turns]]\nsteps = [{ text = "w{n} ", repeat = 100000, rate = 20, chunk = "all" }]\n'
        )
        await owner.create("antiphon/script:endless")
        # Two seconds of words: the row of the run, which others go by, has long been written.
        await owner.recv_until(lambda event: event.get("delta", "").startswith("w40"))
        assert slots(c.redis) == 1
        await c.a.kill()
        await until(lambda: slots(c.redis) == 0, WAIT_S)
        assert await another(c.b) == (200, "")
