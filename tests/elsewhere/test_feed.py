"""The feed of several nodes: one history for everybody, wherever they listen (PROTOCOL 10.10, 16)."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.backends import SeveralNodes
from antiphon.bus.redis.keys import feed
from antiphon.ops.lifecycle import ENDS
from tests.elsewhere.two_nodes import Nodes, two_nodes
from tests.feed.watching import Dashboard, Watch, watching
from tests.http.calling import begin, get, http, until
from tests.http.calling import slow as slow_model
from tests.session.held import calling, hold
from tests.session.play import response_id, words, write_script
from tests.support.server import RunningServer
from tests.support.ws_client import ws_client

STREAM = "antiphon:v1:default:feed"


async def many(server: RunningServer, model: str, count: int) -> None:
    async with ws_client(server.ws_url) as client:
        for _ in range(count):
            await client.run(model)


async def test_dashboards_of_both_nodes_see_the_same_runs_start_and_end(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, watching(nodes.here) as here, watching(nodes.there) as there:
        model = write_script(nodes.folder, "short", [words(3)])
        await here.subscribe()
        await there.subscribe()
        await asyncio.gather(many(nodes.here, model, 30), many(nodes.there, model, 30))
        for watch in (here, there):
            await watch.until(lambda seen: list(seen.states.values()) == ["completed"] * 60)
        assert [delta["rev"] for delta in here.seen.deltas] == list(range(1, here.seen.rev + 1))
        assert here.seen.deltas == there.seen.deltas and here.seen.resets == there.seen.resets == []
        await late_dashboard_on(nodes, here.seen)
        await _resumed(nodes, there, here.seen)


async def late_dashboard_on(nodes: Nodes, seen: Dashboard) -> None:
    async with watching(nodes.there) as late:
        answer = await late.subscribe()
        assert (late.seen.rows, answer["epoch"], answer["rev"]) == (seen.rows, seen.epoch, seen.rev)
    listed = (await get(nodes.there, "/v1/runs", state="completed")).json()
    assert {run["response_id"] for run in listed["data"]} == seen.rows.keys()


async def _resumed(nodes: Nodes, watch: Watch, seen: Dashboard) -> None:
    """From any node's position, also by one that did not listen then: its own view knows less than the stream."""
    await watch.client.command("antiphon:feed.unsubscribe")
    await forget_view(nodes.there)
    await watch.subscribe(**{"from": {"epoch": seen.epoch, "rev": 7}})
    again = await watch.until(lambda again: again.rev == seen.rev)
    assert again.deltas == seen.deltas[7:]
    run_id = seen.deltas[0]["run"]["response_id"]
    told = (await get(nodes.there, f"/v1/runs/{run_id}")).json()
    assert [entry["event"] for entry in told["timeline"]] == seen.events_of(run_id)


async def test_a_run_whose_entries_left_the_stream_is_still_a_row_of_a_snapshot(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.here.ws_url) as client:
        await client.hello()
        waiting = await hold(client, calling(nodes.folder, 1))
        ended = await begin(nodes.here, "x")
        redis = nodes.cluster.redis
        async with watching(nodes.there) as watch:
            await watch.subscribe()
            await watch.until(lambda seen: seen.states == {waiting.id: "waiting_for_tool", ended: "completed"})
        await forget_view(nodes.there)
        redis.command("XTRIM", feed("default"), "MAXLEN", 1)
        async with watching(nodes.there) as late:
            await late.subscribe()
            assert late.seen.states == {waiting.id: "waiting_for_tool", ended: "completed"}

            async def counted() -> bool:
                tenants = (await get(nodes.there, "/v1/admin/tenants")).json()["data"]
                return {"id": "default", "paused": False, "live_runs": 1} in tenants

            await until(counted)


async def test_messages_that_are_lost_cost_no_event_and_a_lost_feed_begins_anew(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, watching(nodes.there) as watch:
        talking = await begin(nodes.here, model=slow_model(nodes.here))
        await watch.subscribe()
        redis = nodes.cluster.redis
        for _ in range(3):
            redis.command("CLIENT", "KILL", "TYPE", "pubsub")
            await begin(nodes.here, "x")
        seen = await watch.until(lambda seen: sorted(seen.states.values()) == ["completed"] * 3 + ["running"])
        assert seen.resets == []
        # Nobody says anything for a while after this: the owner finds it out by itself.
        redis.command("DEL", STREAM, *redis.command("KEYS", "{antiphon:v1:default:feed}:*"))
        await watch.until(lambda seen: seen.resets and seen.states == {talking: "running"})
        assert watch.seen.resets[0] == "epoch"
        async with http(nodes.there) as web:
            await web.post(f"/v1/responses/{talking}/cancel")
        await watch.until(lambda seen: seen.states == {talking: "cancelled"})


async def test_progress_of_a_run_is_told_on_every_node(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, watching(nodes.there) as watch:
        talking = await begin(nodes.here, model=slow_model(nodes.here))
        await watch.subscribe()
        seen = await watch.until(lambda seen: len(seen.progress) >= 2)
        assert {row["response_id"] for row in seen.progress} == {talking}
        assert seen.progress[1]["head"] > seen.progress[0]["head"]


async def test_a_run_whose_end_was_never_told_does_not_stay(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field issue O-01: whoever should have said it died, and left the run ended."""
    async with two_nodes(postgres_url) as nodes, watching(nodes.there) as watch:
        backends = nodes.there.app.backends
        assert isinstance(backends, SeveralNodes)
        rows = backends._stale_rows
        monkeypatch.setattr(rows, "_silent_s", -1.0)
        await watch.subscribe()
        forgetful = nodes.here.app.backends
        assert isinstance(forgetful, SeveralNodes)
        add = forgetful._feed._outbox.add
        monkeypatch.setattr(
            forgetful._feed._outbox, "add", lambda tenant, entry: {} if entry.last else add(tenant, entry)
        )
        stored = await begin(nodes.here, "x")
        async with ws_client(nodes.here.ws_url) as client:
            unstored = response_id(await client.run(store=False))
        goes_on = await begin(nodes.here, model=slow_model(nodes.here))
        ends = {stored: "completed", unstored: "completed", goes_on: "running"}
        await watch.until(lambda seen: seen.states == dict.fromkeys(ends, "running"))
        await until(lambda: nodes.here.app.registry.get(unstored).terminal is not None)
        for _ in range(2):
            await rows.sweep()
        await watch.until(lambda seen: seen.states == ends)
        await rows.sweep()
        assert [event for event in watch.look().events_of(stored) if event in ENDS] == ["run.completed"]


async def forget_view(server: RunningServer) -> None:
    """What the node knows of the feed is gone; the next one who asks has it read anew."""
    feeds = server.app.engine.feeds
    await feeds._drop(feeds._views["default"])
