"""What a cluster costs Redis and itself, and what bursts do to it (field issues U-05, U-09, U-11)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.cluster.leaks import sizes
from tests.http.calling import until
from tests.session.held import calling, hold, output, taken
from tests.session.play import log_bytes, started, words, write_script
from tests.support.cluster import LocalNode, cluster, process_cluster
from tests.support.follower import Follower, read_whole
from tests.support.gap_checker import check_run
from tests.support.redis import RedisServer, redis_server
from tests.support.ws_client import Event, WsClient, ws_client

SOCKETS = 300
RUNS = 120
TIGHT = {"client-output-buffer-limit": "pubsub 256kb 128kb 2"}
"""Under a hundredth of what a server grants by default, so that a burst of 6 MB is as one of 768 MB."""


def subscribers(server: RedisServer) -> set[tuple[str, str]]:
    """Name and id of each connection that subscribes."""
    return {(one["name"], one["id"]) for one in server.connections() if "P" in one["flags"]}


def channels(server: RedisServer) -> set[Any]:
    return {*server.command("PUBSUB", "CHANNELS"), *server.command("PUBSUB", "SHARDCHANNELS")}


async def test_a_burst_cuts_nobody_off_and_a_node_that_slept_through_it_catches_up(postgres_url: str) -> None:
    """U-05: a result of 2 MB and 96 events of 64 KB, with a node stopped that follows the run."""
    with redis_server("valkey", options=TIGHT) as redis:
        async with process_cluster(postgres_url, nodes=3, redis=redis, lease_s=20.0) as c:
            turns = [{"call": {"name": "look", "arguments": {}}}], [words(96, text="y" * 65_536)]
            model = write_script(c.folder, "burst", *turns)
            asleep, awake = c.nodes[1], c.nodes[2]
            async with ws_client(c.a.ws_url) as owner, ws_client(awake.ws_url) as other:
                run = await hold(owner, model)
                await other.hello()
                lane = (await other.attach(run.id))["stream_id"]
                async with Follower(lambda: [asleep.ws_url], run.id) as sleeper:
                    await sleeper.follow(until=lambda event: event["type"] == "response.output_item.done")
                    before = subscribers(redis)
                    asleep.pause()
                    try:
                        await taken(other, run.id, output(run.call_ids[0], "z" * 2_000_000), stream_id=lane)
                        await other.collect_attachment(lane, 30)
                    finally:
                        asleep.resume()
                    await sleeper.follow()
                    sleeper.checked()
                    assert sleeper.connections == 1
                assert subscribers(redis) == before
                live = [event for event in other.received if _is_logged(event, lane)]
            check_run(live)
            assert await read_whole(asleep.ws_url, run.id) == log_bytes(live)


def _is_logged(frame: Event, lane: str) -> bool:
    return frame.get("stream_id") == lane and not frame["type"].startswith(("antiphon:", "response.inject."))


async def test_sockets_cost_redis_no_connections_and_no_channels_of_their_own(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-09: 300 sockets of one node follow 16 runs of the other."""
    monkeypatch.setattr("antiphon.runs.elsewhere.remote_runs._IDLE_S", 1.0)
    async with cluster(postgres_url, lease_s=10.0) as c, contextlib.AsyncExitStack() as stack:
        owner = await stack.enter_async_context(ws_client(c.a.ws_url))
        model = write_script(c.folder, "held", [words(1), {"delay_s": 60}])
        for n in range(16):
            await owner.create(model, stream_id=f"r{n}")
        quiet_channels = channels(c.redis)
        run_ids = [await started(owner, f"r{n}") for n in range(16)]
        async with contextlib.AsyncExitStack() as sockets:
            for start in range(0, SOCKETS, 50):
                joining = [_follow(c.b, sockets, run_ids[n % len(run_ids)]) for n in range(start, start + 50)]
                await asyncio.gather(*joining)
            assert all(_connections(c.redis, node) < 20 for node in c.nodes)
            assert len(channels(c.redis) - quiet_channels) <= len(run_ids)
        await until(lambda: channels(c.redis) <= quiet_channels, 20)
        assert all(_connections(c.redis, node) < 20 for node in c.nodes)


def _connections(server: RedisServer, node: LocalNode) -> int:
    return [one["name"] for one in server.connections()].count(f"antiphon:{node.app.engine.bus.node}")


async def _follow(node: LocalNode, sockets: contextlib.AsyncExitStack, run_id: str) -> None:
    client = await sockets.enter_async_context(ws_client(node.ws_url))
    await client.hello()
    await client.attach(run_id)


async def test_after_many_short_runs_nothing_is_left_in_redis_or_in_the_nodes(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-11: whatever grew with the runs, in whatever container of a node, has shrunk again."""
    monkeypatch.setattr("antiphon.ops.registry.KEEP_ENDED_S", 0.5)
    monkeypatch.setattr("antiphon.runs.directory._TURNS_KEPT", 10)
    monkeypatch.setattr("antiphon.ops.lifecycle.RING_ENTRIES", 10)
    monkeypatch.setattr("antiphon.governance.usage.meter._RUNS_REMEMBERED", 10)
    monkeypatch.setattr("antiphon.core.durations.NEWEST", 10)
    async with cluster(postgres_url, lease_s=10.0, bus={"linger_s": 0.5}, store={"grace_s": 0.5}) as c:
        held = calling(c.folder, 1)
        await asyncio.gather(*(_short_run(c.nodes, held, n) for n in range(20)))
        await _settled(c.nodes, c.redis)
        quiet = [sizes(node.app) for node in c.nodes]
        quiet_channels = channels(c.redis)
        for start in range(0, RUNS, 20):
            await asyncio.gather(*(_short_run(c.nodes, held, n) for n in range(start, start + 20)))
        await _settled(c.nodes, c.redis)
        await until(lambda: channels(c.redis) <= quiet_channels, 20)
        every = c.redis.command("KEYS", "*")
        assert [key for key in every if c.redis.command("PTTL", key) == -1] == []
        for node, before in zip(c.nodes, quiet, strict=True):
            grown = {path: size for path, size in sizes(node.app).items() if size > before.get(path, 0) + RUNS / 4}
            assert grown == {}, f"node {node.name}"


async def _short_run(nodes: list[LocalNode], held: str, n: int) -> None:
    """One of every kind: kept or not, watched, answered or cancelled from elsewhere, with sockets that just go."""
    near, far = (nodes[n % 2], nodes[(n + 1) % 2])
    async with ws_client(near.ws_url) as owner, ws_client(far.ws_url) as other:
        await other.hello()
        if n % 3 == 0:
            run = await hold(owner, held, store=n % 2 == 0)
            lane = (await other.attach(run.id))["stream_id"]
            if n % 2:
                await taken(other, run.id, output(run.call_ids[0]), stream_id=lane)
            else:
                await other.command("antiphon:cancel", response_id=run.id)
            await other.collect_run(lane)
        else:
            await owner.create(input=str(n), store=n % 2 == 0)
            await other.attach(await started(owner))
        await _go(owner, n)
        await _go(other, n + 1)


async def _go(client: WsClient, n: int) -> None:
    if n % 2:
        await client.abort()
    else:
        await client.close()


async def _settled(nodes: list[LocalNode], server: RedisServer) -> None:
    """Every run has ended and its time is over, on every node."""
    await until(lambda: not server.command("KEYS", "antiphon:v1:run:*"), 20)
    await until(lambda: all(not node.app.engine.remote.all() for node in nodes), 20)
    for node in nodes:
        await node.app.engine.janitor.clean()
