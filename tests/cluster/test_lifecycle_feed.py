"""The lifecycle feed for whoever knows nothing but SUBSCRIBE (PROTOCOL 16)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from antiphon_protocol.lifecycle import LifecycleEntry
from tests.feed.watching import watching
from tests.http.calling import until
from tests.session.held import calling, hold
from tests.session.play import words, write_script
from tests.support.cluster import LocalNode, cluster, process_cluster
from tests.support.follower import Follower
from tests.support.redis import Engine, RedisServer, engines
from tests.support.ws_client import ws_client

CHANNEL = "antiphon:v1:default:lifecycle"
STREAM = "antiphon:v1:default:feed"
RUNS = 200
ENDS = {"run.completed", "run.incomplete", "run.failed", "run.cancelled"}


@contextlib.asynccontextmanager
async def dashboard(server: RedisServer) -> AsyncIterator[list[dict[str, Any]]]:
    """A subscriber that is nothing but redis-py; the entries it hears."""
    heard: list[dict[str, Any]] = []
    async with redis.asyncio.Redis(port=server.port) as client, client.pubsub() as pubsub:
        await pubsub.subscribe(CHANNEL)

        take = heard.append

        async def listen() -> None:
            async for message in pubsub.listen():
                if message["type"] == "message":
                    take(json.loads(message["data"]))

        task = asyncio.create_task(listen())
        await until(lambda: bool(server.command("PUBSUB", "NUMSUB", CHANNEL)[1]))
        try:
            yield heard
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def ended(heard: list[dict[str, Any]]) -> list[str]:
    return [entry["run"]["response_id"] for entry in heard if entry["event"] in ENDS]


@pytest.mark.parametrize("engine", engines())
async def test_a_subscriber_sees_every_event_of_200_runs_on_two_nodes_without_a_gap(
    postgres_url: str, engine: Engine
) -> None:
    async with cluster(postgres_url, engine=engine) as c, dashboard(c.redis) as heard:
        model = write_script(c.folder, "short", [words(3)])
        await asyncio.gather(*(_many(node, model, RUNS // 2) for node in c.nodes))
        await until(lambda: len(ended(heard)) >= RUNS)
        stream = [json.loads(fields[b"entry"]) for _, fields in c.redis.command("XRANGE", STREAM, "-", "+")]
    assert [entry["rev"] for entry in heard] == list(range(1, len(heard) + 1))
    assert len({entry["epoch"] for entry in heard}) == 1
    assert stream == heard
    told: defaultdict[str, list[str]] = defaultdict(list)
    for entry in heard:
        LifecycleEntry.model_validate(entry)
        told[entry["run"]["response_id"]].append(entry["event"])
    assert len(told) == RUNS == len(ended(heard))
    life = ["run.created", "run.started", "run.step.started", "run.usage", "run.completed"]
    assert all([event for event in events if event != "run.updated"] == life for events in told.values())


async def _many(node: LocalNode, model: str, count: int) -> None:
    async with ws_client(node.ws_url) as client:
        for _ in range(count):
            await client.run(model)


async def test_the_end_of_a_run_whose_node_died_is_told_once_by_who_took_it(postgres_url: str) -> None:
    async with process_cluster(postgres_url, lease_s=1.0) as c, dashboard(c.redis) as heard:
        talking = write_script(c.folder, "talking", [words(2000, rate=50)])
        waiting = calling(c.folder, 1)
        fields = {"tools": [{"type": "function", "name": "look"}], "antiphon": {"client_tools": "hold"}}
        async with Follower(c.urls) as one, Follower(c.urls) as two:
            await one.create(talking)
            await two.create(waiting, **fields)
            await two.follow(until=lambda e: e["type"] == "response.output_item.done")
            await until(lambda: any(entry["event"] == "run.tool.waiting" for entry in heard))
            await c.a.kill()
            events = await one.follow()
            assert events[-1]["response"]["error"]["code"] == "server_lost"
            await until(lambda: one.run_id in ended(heard))
            await until(lambda: heard[-1]["run"]["state"] == "waiting_for_tool" or two.run_id in _last(heard))
        assert ended(heard) == [one.run_id]
        assert [entry["rev"] for entry in heard] == list(range(1, len(heard) + 1))


def _last(heard: list[dict[str, Any]]) -> set[str]:
    """Runs whose newest entry says that they wait."""
    newest = {entry["run"]["response_id"]: entry["run"]["state"] for entry in heard}
    return {run_id for run_id, state in newest.items() if state == "waiting_for_tool"}


async def test_dashboards_of_the_living_node_show_nothing_of_a_killed_one(postgres_url: str) -> None:
    """Field issues O-01, O-05: no run that goes on only on the page, no guest that is gone."""
    async with process_cluster(postgres_url, lease_s=2.0) as c, contextlib.AsyncExitStack() as stack:
        watch = await stack.enter_async_context(watching(c.b))
        owner = await stack.enter_async_context(ws_client(c.b.ws_url))
        await watch.subscribe()
        waiting = await hold(owner, calling(c.folder, 1))
        for _ in range(20):
            guest = await stack.enter_async_context(ws_client(c.a.ws_url))
            await guest.hello()
            await guest.attach(waiting.id)
        lost = await stack.enter_async_context(ws_client(c.a.ws_url))
        await lost.create(write_script(c.folder, "talking", [words(5000, rate=20)]))
        await watch.until(lambda seen: len(seen.rows) == 2 and len(seen.rows[waiting.id]["participants"]) == 21)
        await c.a.kill()
        seen = await watch.until(lambda seen: sorted(seen.states.values()) == ["failed", "waiting_for_tool"])
        await watch.until(lambda seen: len(seen.rows[waiting.id]["participants"]) == 1)
        assert seen.resets == []
        late = await stack.enter_async_context(watching(c.b))
        await late.subscribe()
        assert late.seen.states == seen.states
