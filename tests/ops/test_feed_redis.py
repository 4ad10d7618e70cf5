"""The feed that nodes share: every event once, in order, without a gap, for whoever only knows SUBSCRIBE."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

from antiphon.bus.redis.keys import FEEDS, feed
from antiphon.ops.feed_reading import position_key, rows_keys, run_key
from antiphon.ops.lifecycle import RING_ENTRIES
from antiphon_protocol.lifecycle import LIFECYCLE_EVENTS, LifecycleEntry
from tests.ops.feed_nodes import LIFE, Node, Subscriber, epochs, events_of, node, revs, stream, until
from tests.ops.states import state
from tests.support.redis import RedisServer, engines, redis_server


@pytest.fixture(params=engines())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with redis_server(request.param) as running:
        yield running


async def live(one: Node, run_ids: list[str]) -> None:
    """All the runs at once, with other things going on between their events."""
    begun = []
    for run_id in run_ids:
        begun.append(one.begin(run_id))
        await asyncio.sleep(0)
    for run in reversed(begun):
        one.end(run)
        await asyncio.sleep(0)


async def test_a_subscriber_hears_every_event_of_200_runs_on_two_nodes(server: RedisServer) -> None:
    async with Subscriber.on(server, "antiphon:v1:default:lifecycle") as dashboard:
        async with node(server) as a, node(server) as b:
            await asyncio.gather(
                live(a, [f"resp_a{n}" for n in range(100)]), live(b, [f"resp_b{n}" for n in range(100)])
            )
            await until(lambda: len(dashboard.heard) >= 1000)
        heard = dashboard.heard
    assert revs(heard) == list(range(1, 1001)) and len(epochs(heard)) == 1
    told = events_of(heard)
    assert len(told) == 200 and all(events == LIFE for events in told.values())
    assert stream(server) == heard
    for entry in heard[::100]:
        LifecycleEntry.model_validate(entry)
        assert entry["event"] in LIFECYCLE_EVENTS
    assert heard[-1]["run"]["state"] == "completed" and heard[0]["at"] == 1000.0


async def test_what_a_cut_off_subscriber_missed_is_in_the_stream(server: RedisServer) -> None:
    async with node(server) as one:
        async with Subscriber.on(server, "antiphon:v1:*:lifecycle") as dashboard:
            run = one.begin("resp_1")
            await until(lambda: len(dashboard.heard) == 2)
            server.command("CLIENT", "KILL", "TYPE", "pubsub")
            one.end(run)
            await one.sent()
            run = one.begin("resp_2")
            await one.sent()
            await until(lambda: server.command("PUBSUB", "NUMPAT") == 1)
            one.end(run)
            await until(lambda: bool(dashboard.heard) and dashboard.heard[-1]["rev"] == 10)
            epoch, rev = dashboard.heard[1]["epoch"], dashboard.heard[1]["rev"]
        page = await one.feed.reading.since("default", epoch, rev)
    assert page.entries is not None and [rev for rev, _ in page.entries] == list(range(3, 11))
    assert (page.epoch, page.head) == (epoch, 10)


async def test_tenants_are_apart_and_an_admin_hears_all(server: RedisServer) -> None:
    async with Subscriber.on(server, "antiphon:v1:*:lifecycle") as admin, node(server) as one:
        for tenant in ("acme", "other-1"):
            one.end(one.begin(f"resp_{tenant}", tenant))
        await until(lambda: len(admin.heard) == 10)
    for tenant in ("acme", "other-1"):
        found = stream(server, tenant)
        assert revs(found) == [1, 2, 3, 4, 5] and {entry["run"]["tenant"] for entry in found} == {tenant}


async def test_an_entry_that_is_sent_twice_is_there_once(server: RedisServer) -> None:
    async with Subscriber.on(server, "antiphon:v1:default:lifecycle") as dashboard:
        async with node(server) as one, node(server) as again:
            one.end(one.begin("resp_1"))
            await one.sent()
            for entry in one.lifecycle.since("default", 0) or []:
                again.feed.publish("default", entry)
            await again.sent()
            again.begin("resp_2")
            await until(lambda: len(dashboard.heard) == 7)
    assert revs(dashboard.heard) == revs(stream(server)) == list(range(1, 8))


async def test_a_former_owner_that_wakes_up_changes_nothing(server: RedisServer) -> None:
    async with node(server) as asleep, node(server) as adopter:
        run = asleep.begin("resp_1")
        await asleep.sent()
        told = await adopter.feed.take("resp_1", "default", 2)
        assert (told.n, told.event) == (2, "run.started")
        asleep.end(run)
        await asleep.sent()
        assert len(stream(server)) == 2
        adopter.lifecycle.take_over(state("resp_1"), told, 2)
        await adopter.sent()
        assert (await adopter.feed.take("resp_1", "default", 3)).event == "run.updated"
    found = stream(server)
    assert [entry["event"] for entry in found] == ["run.created", "run.started", "run.updated"]
    assert server.command("HGET", run_key("default", "resp_1"), "n") == b"3"


async def test_nothing_is_known_of_a_run_that_never_got_into_the_feed(server: RedisServer) -> None:
    async with node(server) as adopter:
        told = await adopter.feed.take("resp_1", "default", 2)
    assert (told.n, told.event) == (0, "")


async def test_the_entries_of_a_run_go_on_at_its_number_with_another_owner(server: RedisServer) -> None:
    async with node(server) as first, node(server) as second:
        run = first.begin("resp_1")
        await first.sent()
        second.lifecycle.take_over(run, await second.feed.take("resp_1", "default", 2), 2)
        second.end(run)
        await second.sent()
    assert events_of(stream(server))["resp_1"] == [*LIFE[:2], "run.updated", *LIFE[2:]]


async def test_a_position_is_answered_with_what_follows_or_with_a_reset(server: RedisServer) -> None:
    async with node(server) as one:
        assert (await one.feed.reading.since("default", "", 0)).epoch == ""
        one.end(one.begin("resp_1"))
        await one.sent()
        epoch = stream(server)[0]["epoch"]
        page = await one.feed.reading.since("default", epoch, 2, limit=2)
        assert page.entries is not None and [rev for rev, _ in page.entries] == [3, 4] and page.head == 5
        assert b'"rev":3,"event":"run.step.started"' in page.entries[0][1]
        assert (await one.feed.reading.since("default", epoch, 5)).entries == []
        for unknown in ((epoch, 6), ("f" * 16, 2), ("f" * 16, 5), ("", 0)):
            assert (await one.feed.reading.since("default", *unknown)).entries is None, unknown
        server.command("XTRIM", feed("default"), "MAXLEN", 2)
        assert (await one.feed.reading.since("default", epoch, 2)).entries is None
        assert (await one.feed.reading.since("default", epoch, 3)).entries is not None


async def test_the_stream_is_bounded(server: RedisServer) -> None:
    async with node(server) as one:
        run = one.begin("resp_1")
        for _ in range(RING_ENTRIES + 500):
            one.runs.note(run, event="run.usage")
        await one.sent()
    count = server.command("XLEN", feed("default"))
    assert RING_ENTRIES <= count < RING_ENTRIES + 500
    assert stream(server)[-1]["rev"] == RING_ENTRIES + 502


async def test_every_key_expires_and_that_of_an_ended_run_sooner(server: RedisServer) -> None:
    async with node(server) as one:
        one.begin("resp_live")
        one.end(one.begin("resp_over"))
        await one.sent()
        await one.feed.take("resp_taken", "default", 2)
        await until(lambda: server.command("EXISTS", FEEDS) == 1)
    keys = {key.decode(): server.command("PTTL", key) for key in server.command("KEYS", "*")}
    assert keys.keys() == {
        FEEDS,
        feed("default"),
        position_key("default"),
        *rows_keys("default"),
        *(run_key("default", run_id) for run_id in ("resp_live", "resp_over", "resp_taken")),
    }
    for key, ttl_ms in keys.items():
        longest_s = 3600 if key.endswith("resp_over") else 86_400
        assert (longest_s - 60) * 1000 < ttl_ms <= longest_s * 1000, key


def test_the_keys_of_a_tenant_are_on_one_shard() -> None:
    keys = [feed("acme"), position_key("acme"), *rows_keys("acme"), run_key("acme", "resp_1")]
    assert len({key_slot(key.encode()) for key in keys}) == 1
