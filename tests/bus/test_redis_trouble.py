"""What a node does when Redis is killed, frozen, emptied, or cuts it off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from antiphon.bus.redis import keys
from antiphon.errors import BusError
from tests.bus.nodes import LEASE_S, Node, RedisCluster, eventually, redis_node, started
from tests.support.redis import RedisServer, redis_server
from tests.support.relay import DOWN

HINT = keys.run_hint("resp_1")


@pytest.fixture
async def nodes(server: RedisServer) -> AsyncIterator[tuple[Node, Node]]:
    """Two nodes on each engine."""
    pair = redis_node(server.url, "n1"), redis_node(server.url, "n2")
    async with started(*pair):
        yield pair


async def works(asker: Node, asked: Node, within_s: float = 40.0) -> None:
    """Both are healthy and hold their leases, questions are answered, hints are heard."""
    await eventually(lambda: all(node.bus.healthy and node.bus.held for node in (asker, asked)), within_s)
    assert await asker.bus.ask(asked.id, "works", b"?", 5) == b"works: ?"
    heard: list[bytes] = []
    await asked.bus.subscribe(HINT, heard.append)
    await asker.bus.publish(HINT, b"hint")
    await eventually(lambda: heard == [b"hint"])
    await asked.bus.unsubscribe(HINT, heard.append)
    assert await asker.bus.alive() == {asker.id, asked.id}


async def test_redis_is_killed_and_comes_back_empty(server: RedisServer, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    heard: list[bytes] = []
    await two.bus.subscribe(HINT, heard.append)
    server.kill()
    await eventually(lambda: not one.bus.held and not two.bus.held and not one.bus.healthy)
    with pytest.raises(BusError):
        await one.bus.alive()
    server.start()
    await works(one, two)
    await eventually(lambda: one.reconnected and two.reconnected)
    assert heard == [b"hint"], "what was subscribed before is subscribed again"
    assert one.suspended and one.resumed
    assert not one.gone and not two.gone, "both were away for the same reason"


async def test_redis_is_killed_and_comes_back_with_its_log() -> None:
    with redis_server("valkey", aof=True) as server:
        one, two = redis_node(server.url, "n1"), redis_node(server.url, "n2")
        async with started(one, two):
            server.kill()
            await eventually(lambda: not one.bus.held and not two.bus.held)
            server.start()
            await works(one, two)
            assert not one.gone and not two.gone


async def test_a_lease_lost_in_a_quick_restart_is_a_loss_even_though_no_time_went_by() -> None:
    """What a node owned may have been taken, or be gone: it has to look before it acts again."""
    with redis_server("valkey") as server:
        node = redis_node(server.url, "n1", lease_s=5)
        async with started(node):
            server.kill()
            server.start()
            await eventually(lambda: node.suspended and node.resumed)
            await eventually(lambda: node.bus.held and node.bus.healthy)
            assert server.command("SMEMBERS", keys.NODES) == {b"n1"}


async def test_redis_is_frozen_for_longer_than_a_lease(server: RedisServer, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    server.pause()
    try:
        await eventually(lambda: one.suspended and two.suspended)
        until = time.monotonic() + 3 * LEASE_S
        await eventually(lambda: time.monotonic() > until)
        assert not one.bus.held and not two.bus.held
    finally:
        server.resume()
    await works(one, two)
    assert not one.gone and not two.gone, "nobody was dead"


async def test_the_subscribers_are_killed(server: RedisServer, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    heard: list[bytes] = []
    await two.bus.subscribe(HINT, heard.append)
    await eventually(lambda: two.bus.healthy)

    async def kill(round_: int) -> None:
        server.command("CLIENT", "KILL", "TYPE", "pubsub")
        await eventually(lambda: two.reconnected == round_)
        await one.bus.publish(HINT, b"%d" % round_)
        await eventually(lambda: len(heard) == round_)

    for round_ in (1, 2, 3):
        await kill(round_)
    assert heard == [b"1", b"2", b"3"]
    assert two.bus.held and not two.suspended


async def test_everything_is_flushed(server: RedisServer, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    heard: list[bytes] = []
    await two.bus.subscribe(HINT, heard.append)
    server.command("FLUSHALL")
    await eventually(lambda: one.resumed and two.resumed)
    await works(one, two)
    assert heard == [b"hint"]
    assert not one.gone and not two.gone
    assert server.command("EXISTS", keys.CLUSTER) == 1


async def test_a_subscriber_that_does_not_read_is_cut_off_alone_and_comes_back() -> None:
    limits = {"client-output-buffer-limit": "pubsub 1mb 1mb 10"}
    with redis_server("valkey", options=limits) as server:
        cluster = RedisCluster(server)
        slow, quick = await cluster.node("n1", lease_s=30), await cluster.node("n2", lease_s=30)
        heard: dict[str, list[bytes]] = {"slow": [], "quick": []}
        await slow.bus.subscribe(HINT, heard["slow"].append)
        await quick.bus.subscribe(HINT, heard["quick"].append)
        cluster.relays["n1"].blackhole([DOWN])
        payload = b"x" * 64 * 1024
        while len(server.command("CLIENT", "LIST", "TYPE", "pubsub").splitlines()) > 1:
            await quick.bus.publish(HINT, payload)
        cluster.relays["n1"].restore([DOWN])
        await eventually(lambda: slow.reconnected)
        await quick.bus.publish(HINT, b"last")
        await eventually(lambda: heard["slow"][-1:] == heard["quick"][-1:] == [b"last"])
        assert quick.reconnected == 0
        assert len(heard["slow"]) < len(heard["quick"]), "what it missed it was told of: it was reconnected"
        await asyncio.gather(slow.bus.stop(), quick.bus.stop())
        await cluster.aclose()


async def test_a_changed_password_is_seen_and_the_node_recovers_when_it_is_changed_back(
    server: RedisServer, nodes: tuple[Node, Node]
) -> None:
    one, two = nodes
    await eventually(lambda: one.bus.healthy)
    server.command("CONFIG", "SET", "requirepass", "other")
    server.options["requirepass"] = "other"
    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server.command("CLIENT", "KILL", "TYPE", "pubsub")
    await eventually(lambda: not one.bus.healthy and not one.bus.held)
    server.command("CONFIG", "SET", "requirepass", "")
    del server.options["requirepass"]
    await works(one, two)


async def test_a_message_whose_arrival_was_not_confirmed_is_sent_again_and_handled_once(
    server: RedisServer,
) -> None:
    cluster = RedisCluster(server)
    one, two = await cluster.node("n1", command_timeout_s=0.5, lease_s=30), await cluster.node("n2", lease_s=30)
    await one.bus.ask("n2", "q", b"before", 5)
    relay = cluster.relays["n1"]
    relay.blackhole([DOWN])  # it arrives, and nobody says so
    for number in range(5):
        one.bus.tell("n2", "t", b"%d" % number)
    ask = asyncio.create_task(one.bus.ask("n2", "q", b"after", 10))
    await eventually(lambda: len(two.messages) >= 6)
    relay.reset()
    relay.restore([DOWN])
    assert await ask == b"q: after"
    assert [payload for _, _, payload in two.messages] == [b"before", b"0", b"1", b"2", b"3", b"4", b"after"]
    await asyncio.gather(one.bus.stop(), two.bus.stop())
    await cluster.aclose()


async def test_a_large_message_of_which_a_piece_is_lost_is_dropped_whole(server: RedisServer) -> None:
    one, two = redis_node(server.url, "n1", lease_s=30), redis_node(server.url, "n2", lease_s=30)
    async with started(one, two):
        fields = ["from", "n1", "type", "tell", "id", "0", "kind", "t", "data", "x", "pieces", "3"]
        inbox = keys.node_inbox("n2")
        for number, piece in ((1, 0), (2, 1), (3, 0), (4, 2), (5, 1)):
            server.command("XADD", inbox, "*", *fields, "nr", number, "piece", piece)
        for number, piece in ((6, 0), (7, 1), (7, 1), (8, 2)):
            server.command("XADD", inbox, "*", *fields, "nr", number, "piece", piece)
        await eventually(lambda: two.messages)
        await eventually(lambda: server.command("XLEN", inbox) == 0)
        assert two.messages == [("n1", "t", b"xxx")]


async def test_an_answer_that_is_nonsense_does_not_end_the_reading(server: RedisServer) -> None:
    one, two = redis_node(server.url, "n1", lease_s=30), redis_node(server.url, "n2", lease_s=30)
    never = asyncio.Event()

    async def wait(sender: str, kind: str, payload: bytes) -> bytes:
        await never.wait()
        return b""

    async with started(one, two):
        two.answer, echo = wait, two.answer
        asked = asyncio.create_task(one.bus.ask("n2", "q", b"1", 3))
        await eventually(lambda: two.messages)
        fields = "from n9 nr 1 piece 0 pieces 1 type error id 1 kind q data ?".split()
        server.command("XADD", keys.node_inbox("n1"), "*", *fields)
        two.answer = echo
        with pytest.raises(BusError):
            await asked
        await works(one, two)
        never.set()


async def test_a_thousand_subscriptions_and_questions_use_few_connections(server: RedisServer) -> None:
    one, two = (redis_node(server.url, name, command_timeout_s=20, lease_s=30) for name in ("n1", "n2"))
    heard: list[bytes] = []
    channels = [keys.run_hint(f"resp_{number}") for number in range(1000)]
    async with started(one, two):
        await asyncio.gather(*(one.bus.subscribe(channel, heard.append) for channel in channels))
        await asyncio.gather(*(two.bus.publish(channel, b"") for channel in channels))
        await asyncio.gather(*(two.bus.ask("n1", "q", b"", 60) for _ in range(1000)))
        await eventually(lambda: len(heard) == 1000, 30)
        names = [client["name"] for client in server.connections()]
        assert names.count("antiphon:n1") < 20 and names.count("antiphon:n2") < 20
        for channel in channels:
            await one.bus.unsubscribe(channel, heard.append)
        await eventually(lambda: not subscribed(server))


def subscribed(server: RedisServer) -> list[bytes]:
    sharded = server.command("PUBSUB", "SHARDCHANNELS") if server.version >= (7, 0) else []
    return [*server.command("PUBSUB", "CHANNELS"), *sharded]


async def test_hints_of_runs_are_sharded_where_the_server_can(
    server: RedisServer, nodes: tuple[Node, Node]
) -> None:
    one, _ = nodes
    await one.bus.subscribe(HINT, print)
    expected = b"SPUBLISH" if server.version >= (7, 0) else b"PUBLISH"
    assert one.bus.publish_command.encode() == expected  # type: ignore[attr-defined]
    assert (HINT.encode() in server.command("PUBSUB", "CHANNELS")) == (expected == b"PUBLISH")


async def test_every_key_of_the_bus_has_an_expiry(server: RedisServer, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    two.answer = wait_for_ever
    ask = asyncio.create_task(one.bus.ask("n2", "q", b"", 5))
    one.bus.tell("n2", "t", b"")
    await eventually(lambda: len(two.messages) == 2)
    everything = server.command("KEYS", "*")
    assert keys.NODES.encode() in everything and keys.node_inbox("n2").encode() in everything
    assert [key for key in everything if server.command("PTTL", key) < 0] == []
    ask.cancel()


async def wait_for_ever(sender: str, kind: str, payload: bytes) -> bytes:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def test_nothing_is_left_of_a_node_that_was_forgotten(server: RedisServer, nodes: tuple[Node, Node]) -> None:
    one, two = nodes
    await one.bus.ask("n2", "q", b"", 5)
    server.command("SADD", keys.node_runs("n2"), "resp_1")
    await two.bus.stop()
    await one.bus.forget_node("n2")
    assert [key for key in server.command("KEYS", "*") if b"n2" in key] == []
    assert server.command("SMEMBERS", keys.NODES) == {b"n1"}
