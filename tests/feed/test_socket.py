"""The feed over a socket, on one machine (PROTOCOL 10.10)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon.ops.feed.view import Audience
from tests.feed.watching import watching
from tests.http.calling import begin, ended, http, key_of, slow, until
from tests.session.held import calling, hold
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

KEYS = [
    key_of("anna", name="anna", tenant="acme"),
    key_of("viewer", name="viewer", tenant="acme", role="viewer"),
    key_of("operator", name="operator", tenant="acme", role="operator"),
    key_of("admin", name="admin", tenant="default", role="admin"),
    key_of("other", name="other", tenant="other"),
]
TENANTS = [{"id": "acme", "quotas": {"feed_subscriptions": 3}}, {"id": "other"}]
LIFE = ["run.created", "run.started", "run.step.started", "run.usage", "run.completed"]
LIVE = ["queued", "running", "waiting_for_tool"]


@contextlib.asynccontextmanager
async def tenants(**settings: Any) -> AsyncIterator[RunningServer]:
    async with running_server(auth="required", key=KEYS, tenant=TENANTS, **settings) as server:
        yield server


async def test_a_dashboard_sees_what_goes_on_and_then_every_event_of_every_run() -> None:
    async with running_server() as server, watching(server) as watch, ws_client(server.ws_url) as client:
        await client.run()
        before = await begin(server, model=slow(server))
        answer = await watch.subscribe()
        assert answer["initial"] is True and answer["tenant"] == "default"
        assert sorted(watch.seen.states.values()) == ["completed", "running"]
        for _ in range(20):
            await client.run()
        async with http(server) as web:
            await web.post(f"/v1/responses/{before}/cancel")
        seen = await watch.until(lambda seen: len(seen.rows) == 22 and set(seen.states.values()) != {"running"})
        await watch.until(lambda seen: seen.states[before] == "cancelled")
        told = [seen.events_of(run_id) for run_id in list(seen.rows)[2:]]
        assert [[event for event in events if event != "run.updated"] for events in told] == [LIFE] * 20
        assert [delta["rev"] for delta in seen.deltas] == list(range(answer["rev"] + 1, seen.rev + 1))
        text = "".join(event.raw for event in watch.client.received)
        assert "hello" not in text.replace("antiphon:hello", ""), "the feed is metadata only"


async def test_a_filter_shows_what_passes_it_and_says_when_it_does_no_more() -> None:
    async with running_server() as server, watching(server) as watch, ws_client(server.ws_url) as client:
        slowly = await begin(server, model=slow(server))
        await client.run()
        await watch.subscribe(filter={"state": LIVE, "model": slow(server)})
        assert list(watch.seen.rows) == [slowly]
        await client.run()
        async with http(server) as web:
            await web.post(f"/v1/responses/{slowly}/cancel")
        seen = await watch.until(lambda seen: not seen.rows)
        assert seen.deltas[-1]["op"] == "remove" and seen.deltas[-1]["event"] == "run.cancelled"
        assert {delta["run"]["response_id"] for delta in seen.deltas} == {slowly}
        answer = await watch.subscribe(
            filter={"state": "completed", "conversation_id": [], "principal": "user:local"}
        )
        assert answer["type"] == "antiphon:feed.bookmark" and len(watch.seen.rows) == 2


async def test_a_client_goes_on_where_it_was_or_is_told_to_begin_anew() -> None:
    async with running_server() as server, watching(server) as watch, ws_client(server.ws_url) as client:
        await client.run()
        first = await watch.subscribe()
        await client.command("antiphon:ping")
        for _ in range(3):
            await client.run()
        await watch.until(lambda seen: seen.rev == first["rev"] + 15)
        at = {"epoch": first["epoch"], "rev": first["rev"] + 4}
        again = await watch.subscribe(**{"from": at})
        assert (again["rev"], again["initial"], watch.seen.rows) == (at["rev"], True, {})
        seen = await watch.until(lambda seen: seen.rev == first["rev"] + 15)
        assert [delta["rev"] for delta in seen.deltas] == list(range(at["rev"] + 1, seen.rev + 1))
        assert not any("coalesced" in delta for delta in seen.deltas)
        for position, reason in (
            ({"epoch": "f" * 16, "rev": 3}, "epoch"),
            ({"epoch": first["epoch"], "rev": 1_000_000}, "too_old"),
        ):
            await watch.subscribe(**{"from": position})
            assert (watch.seen.resets, len(watch.seen.rows)) == ([reason], 4)


async def test_leaving_the_filter_is_told_to_a_client_that_was_away() -> None:
    async with running_server() as server, watching(server) as watch:
        ending, quiet = await begin(server, model=slow(server)), await begin(server, model=slow(server))
        only_live = {"filter": {"state": LIVE}}
        await watch.subscribe(**only_live)
        rows, at = dict(watch.seen.rows), {"epoch": watch.seen.epoch, "rev": watch.seen.rev}
        assert rows.keys() == {ending, quiet}
        await watch.client.command("antiphon:feed.unsubscribe")
        async with http(server) as web:
            await web.post(f"/v1/responses/{ending}/cancel")
        await server_ended(server, ending)
        await watch.subscribe(**only_live, **{"from": at})
        seen = await watch.until(lambda seen: any(delta["op"] == "remove" for delta in seen.deltas))
        assert {delta["run"]["response_id"] for delta in seen.deltas if delta["op"] == "remove"} == {ending}


async def server_ended(server: RunningServer, run_id: str) -> None:
    await until(lambda: server.app.registry.get(run_id).terminal is not None)


async def test_what_comes_close_together_can_be_asked_for_as_one() -> None:
    async with running_server() as server, watching(server) as watch, ws_client(server.ws_url) as client:
        await watch.subscribe(mode="latest")
        for _ in range(10):
            await client.run()
        seen = await watch.until(lambda seen: list(seen.states.values()) == ["completed"] * 10)
        assert sum(delta.get("coalesced", 1) for delta in seen.deltas) == seen.deltas[-1]["rev"]
        assert len(seen.deltas) < 50


async def test_progress_is_told_while_runs_move_and_only_of_what_is_shown() -> None:
    async with running_server() as server, watching(server) as watch, watching(server) as other:
        moving = await begin(server, model=slow(server))
        await watch.subscribe()
        await other.subscribe(filter={"state": "completed"})
        seen = await watch.until(lambda seen: len(seen.progress) >= 2)
        assert {row["response_id"] for row in seen.progress} == {moving}
        assert seen.progress[1]["head"] > seen.progress[0]["head"] > 0
        async with http(server) as web:
            await web.post(f"/v1/responses/{moving}/cancel")
        await watch.until(lambda seen: seen.states[moving] == "cancelled")
        assert other.look().progress == []
        told = len(watch.look().progress)
        await other.until(lambda seen: seen.deltas == [] and server.app.engine.feeds.subscriptions == 2)
        assert len(watch.look().progress) <= told + 1


async def test_calls_that_are_waited_for_and_those_who_come_and_go_are_in_the_rows() -> None:
    async with running_server() as server, watching(server) as watch, ws_client(server.ws_url) as client:
        await watch.subscribe()
        await client.hello()
        waiting = await hold(client, calling(server.data_dir, 1))
        seen = await watch.until(lambda seen: seen.states.get(waiting.id) == "waiting_for_tool")
        told = next(d for d in seen.deltas if d["event"] == "run.tool.waiting")
        assert [call["call_id"] for call in told["run"]["pending_calls"]] == waiting.call_ids  # O-09
        async with ws_client(server.ws_url) as guest:
            await guest.hello()
            await guest.attach(waiting.id)
            await watch.until(lambda seen: len(seen.rows[waiting.id]["participants"]) == 2)
        seen = await watch.until(lambda seen: len(seen.rows[waiting.id]["participants"]) == 1)
        assert seen.deltas[-1]["event"] == "run.updated"


async def test_private_runs_are_told_to_their_creator_and_to_operators_only() -> None:
    async with tenants() as server, watching(server, "anna") as anna, watching(server, "viewer") as viewer:
        async with watching(server, "operator") as operator:
            for watch in (anna, viewer, operator):
                await watch.subscribe()
            private = await begin(server, "x", key="anna", antiphon={"visibility": "private"})
            shared = await begin(server, "x", key="anna")
            for watch in (anna, operator):
                await watch.until(lambda seen: seen.states == {private: "completed", shared: "completed"})
            seen = await viewer.until(lambda seen: seen.states == {shared: "completed"})
            assert {delta["run"]["response_id"] for delta in seen.deltas} == {shared}
            await ended(server, shared, "viewer")
            refused = await viewer.client.command("antiphon:feed.subscribe", tenant="other")
            unknown = await viewer.client.command("antiphon:feed.subscribe", tenant="nowhere")
            assert refused | {"id": ""} == unknown | {"id": ""} and refused["code"] == "tenant_not_found"


async def test_an_admin_watches_any_tenant_each_as_a_feed_of_its_own() -> None:
    async with tenants() as server, watching(server, "admin") as one, watching(server, "admin") as two:
        assert (await one.subscribe(tenant="acme"))["tenant"] == "acme"
        assert (await two.subscribe(tenant="other"))["tenant"] == "other"
        of_acme, of_other = await begin(server, "x", key="anna"), await begin(server, "x", key="other")
        await one.until(lambda seen: seen.states == {of_acme: "completed"})
        await two.until(lambda seen: seen.states == {of_other: "completed"})


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"filter": {"stat": "running"}}, "invalid_command", "filter.stat"),
    ({"filter": {"state": "sleeping"}}, "invalid_command", "filter.state"),
    ({"filter": {"agent": [""]}}, "invalid_command", "filter.agent[0]"),
    ({"mode": "some"}, "invalid_command", "mode"),
    ({"from": {"epoch": "x", "rev": -1}}, "invalid_command", "from.rev"),
    ({"tenant": "no such/tenant"}, "tenant_not_found", "tenant"),
]


async def test_what_cannot_be_meant_is_refused() -> None:
    async with running_server() as server, watching(server) as watch:
        for fields, code, param in REFUSED:
            refused = await watch.client.command("antiphon:feed.subscribe", **fields)
            assert (refused["type"], refused["code"], refused["param"]) == ("antiphon:error", code, param)
        assert server.app.engine.feeds.subscriptions == 0


@pytest.mark.parametrize("field", ["agent", "state"])
async def test_a_filter_of_too_many_values_is_refused_with_the_limit(field: str) -> None:
    values = [f"a{number}" for number in range(101)] if field == "agent" else ["running"] * 101
    async with running_server() as server, watching(server) as watch:
        refused = await watch.client.command("antiphon:feed.subscribe", filter={field: values})
        assert (refused["code"], refused["param"]) == ("invalid_command", f"filter.{field}")
        assert "100" in refused["message"]


async def test_a_connection_and_a_tenant_have_so_many_feeds() -> None:
    async with tenants(limits={"feeds_per_connection": 2}) as server, watching(server, "admin") as admin:
        for tenant in ("a", "b", "a"):
            assert (await admin.subscribe(tenant=tenant))["type"] == "antiphon:feed.bookmark"
        refused = await admin.client.command("antiphon:feed.subscribe", tenant="c")
        assert refused["code"] == "too_many_feeds"
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                watch = await stack.enter_async_context(watching(server, "anna"))
                assert (await watch.subscribe())["type"] == "antiphon:feed.bookmark"
                await watch.subscribe()  # in the place of the first
            one_more = await stack.enter_async_context(watching(server, "viewer"))
            assert (await one_more.client.command("antiphon:feed.subscribe"))["code"] == "quota_exceeded"
            await watch.client.command("antiphon:feed.unsubscribe")
            assert (await one_more.subscribe())["type"] == "antiphon:feed.bookmark"
        await until(lambda: server.app.engine.feeds.subscriptions == 2)


async def test_a_closed_connection_leaves_nothing_behind() -> None:
    async with running_server() as server:
        for _ in range(20):
            async with watching(server) as watch:
                await watch.subscribe()
                assert (await watch.client.command("antiphon:feed.unsubscribe"))["type"] == "antiphon:ok"
                await watch.subscribe()
        feeds = server.app.engine.feeds
        await until(lambda: feeds.subscriptions == 0)
        view = await feeds.view("default")
        assert (view.subscriptions, len(view._audiences)) == (0, 0)


async def flood(server: RunningServer, run_id: str, entries: int) -> None:
    """So many events of one run, as fast as they come."""
    state = server.app.registry.get(run_id)
    for n in range(entries):
        server.app.registry.note(state, event="run.updated")
        if n % 50 == 0:
            await asyncio.sleep(0.001)


async def test_a_slow_dashboard_is_told_the_newest_of_each_run_and_misses_nothing() -> None:
    async with running_server(limits={"outbox_bytes": 4096}) as server:
        async with watching(server) as slow_one, watching(server) as quick:
            await slow_one.subscribe()
            await quick.subscribe()
            talking = await begin(server, model=slow(server))
            await slow_one.until(lambda seen: talking in seen.rows)
            slow_one.client.stop_reading()
            audience = only_audience(server)
            while len(audience.live) == 2:
                await flood(server, talking, 500)
            await flood(server, talking, 2000)
            over = await begin(server, "x")
            await quick.until(lambda seen: seen.states.get(over) == "completed")
            assert not any("coalesced" in delta for delta in quick.seen.deltas)
            slow_one.client.resume_reading()
            seen = await slow_one.until(lambda seen: seen.states.get(over) == "completed")
            assert max(delta.get("coalesced", 1) for delta in seen.deltas) > 1000
            assert server.app.engine.feeds.coalesced > 0
            await until(lambda: len(audience.live) == 2)


async def test_a_dashboard_that_never_reads_is_closed_and_others_hear_everything() -> None:
    settings: dict[str, Any] = {"limits": {"outbox_bytes": 4096}, "timeouts": {"stalled_socket_s": 0.5}}
    async with running_server(**settings) as server, watching(server) as asleep, watching(server) as awake:
        await asleep.subscribe()
        await awake.subscribe()
        talking = await begin(server, model=slow(server))
        asleep.client.stop_reading()
        while server.app.engine.feeds.subscriptions == 2:
            await flood(server, talking, 500)
        head = (await server.app.engine.feeds.view("default")).log.head
        await awake.until(lambda seen: seen.rev >= head)


def only_audience(server: RunningServer) -> Audience:
    (view,) = server.app.engine.feeds._views.values()
    (audience,) = view._audiences.values()
    return audience
