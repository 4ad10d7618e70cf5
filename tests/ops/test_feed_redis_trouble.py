"""Redis is away, slow, empty or full: nothing is lost for a while, and nothing is lost in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from antiphon.bus.redis.keys import FEEDS, feed
from antiphon.errors import BusError
from antiphon.ops.feed_outbox import FeedOutbox
from antiphon.ops.feed_reading import position_key
from antiphon.ops.feed_redis import RedisFeed
from tests.ops.feed_nodes import LIFE, Subscriber, epochs, events_of, node, revs, stream, until
from tests.support.redis import RedisServer, redis_server
from tests.support.relay import DOWN, Relay


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


async def test_after_a_restart_with_its_log_everything_follows_in_order() -> None:
    with redis_server(aof=True) as server:
        async with node(server) as one:
            run = one.begin("resp_1")
            await one.sent()
            server.kill()
            one.end(run)
            one.end(one.begin("resp_2"))
            await until(lambda: not one.feed.healthy)
            server.start()
            await one.sent()
            assert one.feed.healthy and one.feed.lost == 0
        found = stream(server)
    assert revs(found) == list(range(1, 11)) and len(epochs(found)) == 1
    assert events_of(found) == {"resp_1": LIFE, "resp_2": LIFE}


async def test_after_a_restart_empty_a_new_epoch_tells_of_all_live_runs(server: RedisServer) -> None:
    async with node(server) as a, node(server) as b:
        a.begin("resp_a")
        run = b.begin("resp_b")
        b.end(b.begin("resp_over"))
        await asyncio.gather(a.sent(), b.sent())
        old = epochs(stream(server))
        server.kill()
        server.start()
        b.end(run)
        await b.sent()
        a.begin("resp_new")
        await until(lambda: len(events_of(stream(server)).get("resp_a", [])) == 1)
        await a.sent()
    found = stream(server)
    assert revs(found) == list(range(1, len(found) + 1))
    assert len(epochs(found)) == 1 and not epochs(found) & old
    told = events_of(found)
    assert told["resp_b"] == LIFE[2:] and told["resp_a"] == ["run.updated"]
    assert told["resp_new"][:2] == LIFE[:2] and "resp_over" not in told


async def test_a_pause_of_redis_loses_and_doubles_nothing(server: RedisServer) -> None:
    async with Subscriber.on(server, "antiphon:v1:default:lifecycle") as dashboard:
        async with node(server, timeout_s=0.2) as one:
            run = one.begin("resp_1")
            await one.sent()
            server.pause()
            one.end(run)
            await until(lambda: not one.feed.healthy)
            one.end(one.begin("resp_2"))
            server.resume()
            await one.sent()
            await until(lambda: len(dashboard.heard) >= 10)
    assert revs(dashboard.heard) == list(range(1, 11))
    assert events_of(dashboard.heard) == {"resp_1": LIFE, "resp_2": LIFE}


async def test_a_batch_whose_answer_was_lost_is_there_once(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A look that falls into the hole would cost the one connection over which the batch gets there, and the first
    # look comes right after the first batch.
    monkeypatch.setattr(RedisFeed, "look", AsyncMock())
    async with Relay("127.0.0.1", server.port) as relay, node(server, port=relay.port, timeout_s=0.2) as one:
        run = one.begin("resp_1")
        await one.sent()
        relay.blackhole([DOWN])
        one.end(run)
        await until(lambda: len(stream(server)) == 5)
        await until(lambda: not one.feed.healthy)
        assert one.feed.waiting_bytes > 0
        one.begin("resp_2")
        relay.restore()
        await one.sent()
    assert events_of(stream(server)) == {"resp_1": LIFE, "resp_2": LIFE[:2]}
    assert revs(stream(server)) == list(range(1, 8))


async def test_entries_without_room_are_counted_and_begin_a_new_epoch(server: RedisServer) -> None:
    with capture_logs() as logs:
        async with node(server) as one:
            one.feed._outbox = FeedOutbox(limit_bytes=20_000)
            alive = one.begin("resp_alive")
            await one.sent()
            old = epochs(stream(server))
            server.pause()
            for n in range(100):
                one.end(one.begin(f"resp_{n}"))
                assert one.feed.waiting_bytes <= 20_000
            server.resume()
            await one.sent()
            lost = one.feed.lost
            one.end(alive)
            await one.sent()
    found = stream(server)
    assert not epochs(found) & old and len(epochs(found)) == 1
    assert revs(found) == list(range(1, len(found) + 1))
    assert 400 < lost < 500 and lost == sum(log["entries"] for log in logs if log["event"] == "feed_entries_lost")
    assert events_of(found)["resp_alive"] == ["run.updated", *LIFE[2:]]
    assert events_of(found)["resp_99"][-1] == "run.completed"


@pytest.mark.parametrize("part", ["position", "whole"])
async def test_a_lost_position_is_a_new_epoch_from_one_on(server: RedisServer, part: str) -> None:
    async with node(server) as one:
        run = one.begin("resp_1")
        await one.sent()
        old = stream(server)[0]["epoch"]
        server.command("DEL", position_key("default"), *([feed("default")] if part == "whole" else []))
        one.end(run)
        await one.sent()
        assert (await one.feed.reading.since("default", old, 2)).entries is None
    found = stream(server)
    assert revs(found) == [1, 2, 3] and not epochs(found) & {old}


async def test_a_lost_stream_goes_on_in_its_epoch_and_says_that_older_entries_are_gone(
    server: RedisServer,
) -> None:
    async with node(server) as one:
        run = one.begin("resp_1")
        await one.sent()
        epoch = stream(server)[0]["epoch"]
        server.command("DEL", feed("default"))
        assert (await one.feed.reading.since("default", epoch, 1)).entries is None
        one.end(run)
        await one.sent()
        assert (await one.feed.reading.since("default", epoch, 1)).entries is None
        page = await one.feed.reading.since("default", epoch, 2)
    assert page.entries is not None and [rev for rev, _ in page.entries] == [3, 4, 5]


async def test_a_server_that_lost_its_newest_entries_begins_a_new_epoch() -> None:
    at_once = {"repl-diskless-sync-delay": "0"}
    with redis_server(options=at_once) as server, redis_server(replica_of=server) as replica:
        await until(lambda: replica.command("INFO", "replication")["master_link_status"] == "up")
        async with node(server) as one:
            run = one.begin("resp_1")
            await one.sent()
            await until(lambda: replica.command("XLEN", feed("default")) == 2)
            old = stream(replica)[0]["epoch"]
            replica.command("REPLICAOF", "NO", "ONE")
            one.runs.note(run, event="run.step.started")
            await one.sent()
            one.feed._commands = lambda: promoted
            async with replica.client() as promoted:
                one.runs.note(run, event="run.usage")
                await one.sent()
                await until(lambda: len(stream(replica)) == 2)
        found = stream(replica)
    assert [entry["event"] for entry in found] == ["run.usage", "run.updated"]
    assert revs(found) == [1, 2] and not epochs(found) & {old}


async def test_a_full_server_takes_nothing_by_halves(server: RedisServer) -> None:
    async with node(server) as one:
        run = one.begin("resp_1")
        await one.sent()
        server.command("CONFIG", "SET", "maxmemory", 1)
        one.end(run)
        await until(lambda: not one.feed.healthy)
        assert len(stream(server)) == 2
        server.command("CONFIG", "SET", "maxmemory", 0)
        await one.sent()
    assert revs(stream(server)) == [1, 2, 3, 4, 5] and events_of(stream(server)) == {"resp_1": LIFE}


async def test_the_feed_of_one_tenant_that_is_refused_does_not_stop_the_others(server: RedisServer) -> None:
    server.command("SET", position_key("bad"), "taken by somebody else")
    async with node(server) as one:
        one.end(one.begin("resp_bad", "bad"))
        one.end(one.begin("resp_1", "good"))
        await until(lambda: len(stream(server, "good")) == 5)
        await until(lambda: not one.feed.healthy)
        server.command("DEL", position_key("bad"))
        await one.sent()
        assert one.feed.healthy
    assert events_of(stream(server, "bad")) == {"resp_bad": LIFE}
    assert revs(stream(server, "bad")) == [1, 2, 3, 4, 5]


async def test_closing_sends_what_is_left_and_does_not_wait_for_a_dead_server(server: RedisServer) -> None:
    async with node(server) as one:
        one.end(one.begin("resp_1"))
        await one.feed.aclose()
        assert len(stream(server)) == 5
    async with node(server) as one:
        server.pause()
        one.begin("resp_2")
        with capture_logs() as logs:
            async with asyncio.timeout(4):
                await one.feed.aclose(within_s=0.1)
        server.resume()
    assert [log["entries"] for log in logs if log["event"] == "feed_entries_lost"] == [2]


async def test_who_asks_while_redis_is_away_is_told(server: RedisServer) -> None:
    async with node(server, timeout_s=0.2) as one:
        server.kill()
        with pytest.raises(BusError):
            await one.feed.reading.since("default", "", 0)
        with pytest.raises(BusError):
            await one.feed.take("resp_1", "default", 2)


async def test_a_batch_that_is_taken_while_redis_is_asked_for_positions_is_no_new_epoch(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with node(server) as one:
        run = one.begin("resp_1")
        await one.sent()
        told: list[str] = []
        one.feed.on_new_epoch = told.append
        ask = one.feed.reading.positions

        async def slow(tenants: Sequence[str]) -> dict[str, tuple[str, int]]:
            answer = await ask(tenants)
            one.end(run)
            await one.sent()
            return answer

        monkeypatch.setattr(one.feed.reading, "positions", slow)
        await one.feed.look()
        assert told == []


async def test_tenants_that_are_long_idle_leave_no_trace_in_redis_nor_in_the_node(server: RedisServer) -> None:
    async with node(server, ttl_s=1.0) as one:
        for number in range(200):
            one.end(one.begin(f"resp_{number}", tenant=f"t{number}"))
        await one.sent()
        await one.feed.look()
        assert len(one.feed._seen) == server.command("ZCARD", FEEDS) == 200
        await until(lambda: not server.command("EXISTS", position_key("t0"), position_key("t199")))
        one.clock.at += 2.0
        await one.feed.look()
        assert one.feed._seen == {}
        one.clock.at += 2.0
        one.end(one.begin("resp_new", tenant="new"))
        await one.sent()
        await one.feed.look()
        assert server.command("ZRANGE", FEEDS, 0, -1) == [b"new"]
        await until(lambda: not server.command("KEYS", "*{t*"))
