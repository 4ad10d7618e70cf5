"""Commands that are cancelled or time out: no answer ever reaches another question, no connection is lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from antiphon.bus.redis.address import parse_address
from antiphon.bus.redis.connection import Connections, answering
from antiphon.errors import BusError
from antiphon.journal.redis.exchange import ask
from antiphon.settings.storage import BusSettings
from tests.bus.nodes import eventually
from tests.support.redis import RedisServer
from tests.support.relay import DOWN, Relay

CONNECTIONS = 32


@pytest.fixture
async def relay(server: RedisServer) -> AsyncIterator[Relay]:
    async with Relay("127.0.0.1", server.port) as relay:
        yield relay


@pytest.fixture
async def connections(relay: Relay) -> AsyncIterator[Connections]:
    settings = BusSettings(connections=CONNECTIONS, command_timeout_s=5)
    connections = Connections(parse_address(f"redis://127.0.0.1:{relay.port}"), settings, "n1")
    yield connections
    relay.restore()
    await connections.close()


async def value_of(connections: Connections, key: str) -> Any:
    return await connections.commands.get(key)


async def test_half_of_500_reads_are_cancelled_and_every_value_still_matches_its_key(
    server: RedisServer, relay: Relay, connections: Connections
) -> None:
    commands = connections.commands
    keys = [f"key:{number}" for number in range(500)]
    await commands.mset({key: f"value of {key}" for key in keys})
    before = server.command("INFO", "stats")["total_connections_received"]
    relay.delay(0.1)
    random.seed(7)
    for _ in range(2):
        reads = [asyncio.create_task(value_of(connections, key)) for key in keys]
        for read in random.sample(reads, 250):
            asyncio.get_running_loop().call_later(random.uniform(0, 0.6), read.cancel)
            # others are cancelled as their answer comes, or as they wait for a connection
        for key, value in zip(keys, await asyncio.gather(*reads, return_exceptions=True), strict=True):
            assert isinstance(value, asyncio.CancelledError | RedisError) or value == f"value of {key}".encode()
    relay.delay(0.0)
    values = await asyncio.gather(*(commands.get(key) for key in keys))
    assert values == [f"value of {key}".encode() for key in keys]
    after = server.command("INFO", "stats")["total_connections_received"]
    assert after - before > CONNECTIONS, "connections with an answer outstanding were thrown away"


async def test_the_pool_has_all_its_connections_after_any_cancellations(
    relay: Relay, connections: Connections
) -> None:
    """Also when a task is cancelled while it takes a connection, or gives one back."""
    commands = connections.commands
    await commands.set("key", "value")
    random.seed(11)
    for _ in range(100):
        reads = [asyncio.create_task(value_of(connections, "key")) for _ in range(CONNECTIONS * 3)]
        for _ in range(random.randrange(4)):
            await asyncio.sleep(0)
        for read in random.sample(reads, CONNECTIONS):
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
    relay.delay(0.05)
    began = time.monotonic()
    results = await asyncio.gather(*(commands.get("key") for _ in range(CONNECTIONS)))
    assert results == [b"value"] * CONNECTIONS
    assert connections.pool.can_get_connection()
    assert time.monotonic() - began < 20.0, "nobody waited for a connection that was lost"


async def test_a_cancelled_pipeline_leaves_no_answers_behind(relay: Relay, connections: Connections) -> None:
    commands = connections.commands
    await commands.mset({f"key:{number}": number for number in range(50)})
    relay.delay(0.05)
    pipelines = []
    for _ in range(CONNECTIONS):
        pipeline = commands.pipeline(transaction=False)
        for number in range(50):
            pipeline.get(f"key:{number}")
        pipelines.append(asyncio.create_task(pipeline.execute()))
    await asyncio.sleep(0.06)
    for task in pipelines:
        task.cancel()
    await asyncio.gather(*pipelines, return_exceptions=True)
    relay.delay(0.0)
    values = await asyncio.gather(*(commands.get(f"key:{number}") for number in range(50)))
    assert values == [b"%d" % number for number in range(50)]


async def test_a_command_that_times_out_drops_its_connection(relay: Relay, connections: Connections) -> None:
    commands = connections.commands
    await commands.mset({"a": "1", "b": "2"})
    relay.blackhole([DOWN])
    with pytest.raises(BusError):
        async with answering(0.1):
            await commands.get("a")
    relay.restore([DOWN])
    assert await commands.get("b") == b"2"


async def test_who_finds_no_connection_waits_for_one_but_not_for_ever(relay: Relay) -> None:
    settings = BusSettings(connections=2, command_timeout_s=0.5)
    connections = Connections(parse_address(f"redis://127.0.0.1:{relay.port}"), settings, "n1")
    await asyncio.gather(*(connections.commands.get("key") for _ in range(50)))
    relay.blackhole()
    commands = [asyncio.create_task(value_of(connections, "key")) for _ in range(10)]
    results = await asyncio.gather(*commands, return_exceptions=True)
    assert all(isinstance(result, RedisError) for result in results)
    assert any("free" in str(result) for result in results if isinstance(result, RedisConnectionError))
    relay.reset()
    relay.restore()
    assert await eventually(lambda: connections.pool.can_get_connection())
    await connections.close()


async def test_commands_whose_callers_were_cancelled_leave_no_connection_behind_a_closed_pool(
    server: RedisServer, relay: Relay
) -> None:
    """Some are on their way as it is closed, others have not begun."""
    for hops in range(12):
        connections = Connections(parse_address(f"redis://127.0.0.1:{relay.port}"), BusSettings(), "left")
        callers = [asyncio.create_task(ask(connections.commands, "GET", "key")) for _ in range(20)]
        for _ in range(hops):
            await asyncio.sleep(0)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        await connections.close()
        with pytest.raises(BusError):
            await ask(connections.commands, "GET", "key")
    assert await eventually(
        lambda: not [open_ for open_ in server.connections() if open_["name"] == "antiphon:left"]
    )


async def test_idle_connections_that_the_server_closed_are_opened_anew_without_an_error(
    server: RedisServer,
) -> None:
    connections = Connections(parse_address(server.url), BusSettings(connections=CONNECTIONS), "n1")
    commands = connections.commands
    await asyncio.gather(*(commands.get("key") for _ in range(CONNECTIONS)))
    server.kill()
    server.start()
    for _ in range(10):
        await asyncio.sleep(0)  # the loop reads that they are closed
    for _ in range(CONNECTIONS * 2):
        assert await commands.get("key") is None
    await connections.close()
