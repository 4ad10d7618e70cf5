"""Redis away, emptied, slow, or moved while runs go on: they go on or end truthfully, and clients are told (H)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from tests.chaos.rounds import LEASE_S, PAUSE_S, ROUNDS, end_of, nodes_here, rest, serves, settled
from tests.http.calling import until
from tests.session.held import calling, inject, output, outputs
from tests.session.play import words, write_script
from tests.support.cluster import Cluster, LocalNode
from tests.support.follower import Follower
from tests.support.redis import redis_server
from tests.support.sentinel import real_sentinels
from tests.support.ws_client import ws_client

pytestmark = pytest.mark.chaos

TRUTHFUL = ("completed", "server_lost", "storage_unavailable")
COME_BACK = ("owner_unavailable", "storage_unavailable", "response_not_found")
LOOK = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]


@dataclass
class Scene:
    """Runs of every kind in the middle of their lives, each with a client on both nodes."""

    cluster: Cluster[LocalNode]
    followers: list[tuple[Follower, Follower]]
    waiting: Follower
    call_id: str

    async def end(self) -> list[str]:
        """Answer the call that is waited for, and how all of them ended."""
        answered = asyncio.create_task(self._answer())
        ends = [end_of(await settled(self.cluster, *pair)) for pair in self.followers]
        await answered
        events = await settled(self.cluster, self.waiting)
        assert end_of(events) in TRUTHFUL
        if end_of(events) == "completed":
            assert outputs(events) == [(self.call_id, "seen")]
        return [*ends, end_of(events)]

    async def _answer(self) -> None:
        """As a client does that is told to come back: until it is taken, or the run is over."""
        async with asyncio.timeout(30), ws_client(self.cluster.b.ws_url) as client:
            run_id = self.waiting.run_id
            assert run_id is not None
            while True:
                answer = await inject(client, run_id, output(self.call_id, "seen", result_id="r"))
                if answer["type"] == "response.inject.created":
                    return
                code = answer["error"]["code"]
                if code == "response_already_completed":
                    return
                assert code in COME_BACK, answer.raw
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def scene(c: Cluster[LocalNode]) -> AsyncIterator[Scene]:
    """Stored and unstored runs that talk for three seconds, and one that waits."""
    talking = write_script(c.folder, "talking", [words(90, rate=30)])
    waiting = calling(c.folder, 1, name="waiting")
    near, far = (lambda: [c.a.ws_url, c.b.ws_url]), (lambda: [c.b.ws_url, c.a.ws_url])
    async with contextlib.AsyncExitStack() as stack:
        held = await stack.enter_async_context(Follower(far))
        await held.create(waiting, tools=LOOK, antiphon={"client_tools": "hold"})
        await held.follow(until=lambda event: event["type"] == "response.output_item.done")
        talkers = [await stack.enter_async_context(Follower(near)) for _ in range(4)]
        # At once: on a slow machine the first must not be over before the trouble begins.
        ids = await asyncio.gather(*(one.create(talking, store=n % 2 == 0) for n, one in enumerate(talkers)))
        watchers = [await stack.enter_async_context(Follower(far, run_id)) for run_id in ids]
        pairs = list(zip(talkers, watchers, strict=True))
        for pair in pairs:
            for follower in pair:
                await follower.follow(until=lambda event: event["type"] == "response.output_text.delta")
        yield Scene(c, pairs, held, held.log[-1]["item"]["call_id"])


Trouble = Callable[[Cluster[LocalNode]], Awaitable[None]]


async def killed_and_empty(c: Cluster[LocalNode]) -> None:
    c.redis.kill()
    await rest(LEASE_S / 2)
    await asyncio.to_thread(c.redis.start)


async def away_longer_than_a_lease_and_empty(c: Cluster[LocalNode]) -> None:
    c.redis.kill()
    await rest(2 * LEASE_S)
    await asyncio.to_thread(c.redis.start)


async def paused(c: Cluster[LocalNode]) -> None:
    c.redis.pause()
    try:
        await rest(PAUSE_S)
    finally:
        c.redis.resume()


async def flushed(c: Cluster[LocalNode]) -> None:
    c.redis.command("FLUSHALL")


async def subscribers_cut_off(c: Cluster[LocalNode]) -> None:
    for _ in range(5):
        c.redis.command("CLIENT", "KILL", "TYPE", "pubsub")
        await rest(0.1)


async def everybody_cut_off(c: Cluster[LocalNode]) -> None:
    for _ in range(5):
        c.redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await rest(0.1)


async def output_buffers_overflow(c: Cluster[LocalNode]) -> None:
    """Each hint is more than a subscriber may be owed, as with a burst that it cannot take."""
    c.redis.command("CONFIG", "SET", "client-output-buffer-limit", "pubsub 64 64 1")
    try:
        await rest(LEASE_S)
    finally:
        c.redis.command("CONFIG", "SET", "client-output-buffer-limit", "pubsub 32mb 8mb 60")


@pytest.mark.parametrize(
    "trouble",
    [
        killed_and_empty,
        away_longer_than_a_lease_and_empty,
        paused,
        flushed,
        subscribers_cut_off,
        everybody_cut_off,
        output_buffers_overflow,
    ],
    ids=lambda trouble: trouble.__name__,
)
async def test_runs_go_on_or_end_truthfully_when_redis_is(postgres_url: str, trouble: Trouble) -> None:
    with redis_server("valkey") as redis:
        async with nodes_here(postgres_url, redis) as c:
            for _ in range(ROUNDS):
                async with scene(c) as before:
                    await trouble(c)
                    ends = await before.end()
                # Its owners live through all of it, so nothing is lost with them.
                assert ends == ["completed"] * len(ends)
                await serves(c)


async def test_with_an_append_only_file_nothing_is_lost_and_no_epoch_changes(postgres_url: str) -> None:
    with redis_server("valkey", aof=True) as redis:
        async with nodes_here(postgres_url, redis) as c:
            for _ in range(ROUNDS):
                async with scene(c) as before:
                    await killed_and_empty(c)
                    ends = await before.end()
                    assert [one.forks for pair in before.followers for one in pair] == [[]] * 8
                assert ends == ["completed"] * len(ends)
                await serves(c)


async def test_a_failover_by_sentinel_is_followed(postgres_url: str) -> None:
    with redis_server("valkey") as first, redis_server("valkey", replica_of=first) as second:
        with real_sentinels("main", first, engine="valkey") as sentinels:
            async with nodes_here(postgres_url, first, bus_url=sentinels.url) as c:
                async with scene(c) as before:
                    await asyncio.to_thread(sentinels.fail_over)
                    ends = await before.end()
                assert all(end in TRUTHFUL for end in ends)
                await serves(c)
                assert second.command("KEYS", "antiphon:v1:node:*")


async def test_readiness_tells_that_redis_is_away_and_work_is_refused_aloud(postgres_url: str) -> None:
    with redis_server("valkey") as redis:
        async with nodes_here(postgres_url, redis, bus={"command_timeout_s": 1.0}) as c:
            redis.pause()
            try:
                async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:

                    async def away() -> bool:
                        return (await http.get(f"{c.a.url}/ready")).status_code == 503

                    await until(away)
                    answer = await http.get(f"{c.a.url}/v1/responses/resp_" + "0" * 32)
                    assert answer.status_code in (404, 503)
            finally:
                redis.resume()
            await serves(c)


async def test_memory_stays_bounded_while_redis_is_away(postgres_url: str) -> None:
    """A run that talks on and on is held back instead of filling the memory, and goes on where it was."""
    with redis_server("valkey") as redis:
        async with nodes_here(postgres_url, redis) as c:
            model = write_script(c.folder, "flood", [words(600, text="x" * 20_000)])
            async with Follower(lambda: [c.a.ws_url]) as client:
                await client.create(model)
                await client.follow(until=lambda event: event["type"] == "response.output_text.delta")
                redis.pause()
                try:
                    await rest(PAUSE_S)
                    held = [_unsent(node) for node in c.nodes]
                finally:
                    redis.resume()
                assert end_of(await client.follow()) == "completed"
                client.checked()
    assert 0 < max(held) < 12 * 1024 * 1024


def _unsent(node: LocalNode) -> int:
    """Bytes of the node's logs that Redis does not have."""
    journal: Any = node.app.engine.journal
    return sum(live.unsent_bytes for live in journal._lives.values())
