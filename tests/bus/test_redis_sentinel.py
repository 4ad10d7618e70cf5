"""Failover: the nodes leave the old master, even while it still answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from antiphon.bus.redis import keys
from antiphon.errors import StartupError
from tests.bus.nodes import eventually, redis_node, started
from tests.support.redis import Engine, RedisServer, engines, redis_server
from tests.support.sentinel import promote, real_sentinels, scripted_sentinels, wait_in_step

HINT = keys.run_hint("resp_1")


@pytest.fixture(params=engines())
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[RedisServer, RedisServer]]:
    """A master and a replica that follows it."""
    engine: Engine = request.param
    with redis_server(engine) as master, redis_server(engine, replica_of=master) as replica:
        wait_in_step(replica)
        yield master, replica


async def test_a_replica_is_promoted_while_the_old_master_stays_reachable(
    servers: tuple[RedisServer, RedisServer],
) -> None:
    first, second = servers
    async with scripted_sentinels("main", first) as sentinels:
        one, two = redis_node(sentinels.url, "n1"), redis_node(sentinels.url, "n2")
        async with started(one, two):
            heard: list[bytes] = []
            await two.bus.subscribe(HINT, heard.append)
            await one.bus.publish(HINT, b"before")
            await eventually(lambda: heard == [b"before"])
            promote(second, instead_of=first)
            sentinels.name(second)
            await eventually(lambda: one.reconnected and two.reconnected)
            await eventually(lambda: one.bus.held and one.bus.healthy and two.bus.held and two.bus.healthy)
            await one.bus.publish(HINT, b"after")
            await eventually(lambda: heard == [b"before", b"after"])
            assert await one.bus.ask("n2", "q", b"", 5) == b"q: "
            left = [c["name"] for c in first.connections() if c["name"].startswith("antiphon:")]
            assert left == [], "nobody listens to the old master any more"
            assert not one.gone and not two.gone


async def test_the_old_master_stays_master_of_nobody(valkey: RedisServer) -> None:
    """The sentinels name another one, and the old one does not know: a command it takes would be lost."""
    with redis_server("valkey") as other:
        async with scripted_sentinels("main", valkey) as sentinels:
            node = redis_node(sentinels.url, "n1")
            async with started(node):
                sentinels.name(other)
                await eventually(lambda: other.command("EXISTS", keys.node_lease("n1")))
                await eventually(lambda: node.bus.held and node.bus.healthy)
                assert [c for c in valkey.connections() if c["name"].startswith("antiphon:")] == []


async def test_sentinels_that_are_ahead_of_the_promotion_do_not_mislead(
    servers: tuple[RedisServer, RedisServer],
) -> None:
    first, second = servers
    async with scripted_sentinels("main", first) as sentinels:
        node = redis_node(sentinels.url, "n1")
        async with started(node):
            sentinels.name(second)  # not promoted yet
            await eventually(lambda: not node.bus.healthy)
            promote(second, instead_of=first)
            await eventually(lambda: node.bus.healthy and node.bus.held)
            assert second.command("GET", keys.node_lease("n1")) == b"n1"


async def test_the_word_of_most_sentinels_counts(valkey: RedisServer) -> None:
    with redis_server("valkey") as stale:
        async with scripted_sentinels("main", valkey) as sentinels:
            sentinels.name(stale, by=[0])
            node = redis_node(sentinels.url, "n1")
            async with started(node):
                assert valkey.command("EXISTS", keys.node_lease("n1"))
                assert not stale.command("EXISTS", keys.node_lease("n1"))


async def test_a_sentinel_that_is_away_is_no_trouble(valkey: RedisServer) -> None:
    async with scripted_sentinels("main", valkey) as sentinels:
        gone = sentinels.servers[0]
        await gone.__aexit__()
        node = redis_node(sentinels.url, "n1")
        async with started(node):
            assert node.bus.held


async def test_a_server_that_is_named_but_is_a_replica_is_refused_at_start(
    servers: tuple[RedisServer, RedisServer],
) -> None:
    async with scripted_sentinels("main", servers[1]) as sentinels:
        node = redis_node(sentinels.url, "n1")
        with pytest.raises(StartupError, match="is not the master"):
            await node.bus.start()


async def test_real_sentinels_fail_over(servers: tuple[RedisServer, RedisServer]) -> None:
    first, second = servers
    engine: Engine = "valkey" if "valkey" in first.executable.name else "redis6"
    with real_sentinels("main", first, engine=engine) as sentinels:
        node = redis_node(sentinels.url, "n1")
        async with started(node):
            assert first.command("EXISTS", keys.node_lease("n1"))
            await asyncio.to_thread(sentinels.fail_over)
            await eventually(lambda: second.command("GET", keys.node_lease("n1")) == b"n1", 30)
            await eventually(lambda: node.bus.healthy and node.bus.held)
            assert await node.bus.ask("n1", "q", b"", 5) == b"q: "
