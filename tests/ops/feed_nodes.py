"""Nodes that write lifecycle feeds, and what anybody finds there, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import redis
from redis.asyncio import Redis

from antiphon.bus.redis.keys import feed
from antiphon.clock import RandomIds
from antiphon.core.run_state import RunState
from antiphon.ops.feed_redis import RedisFeed
from antiphon.ops.lifecycle import Lifecycle
from antiphon.ops.registry import RunRegistry
from tests.ops.states import FakeClock, state
from tests.support.redis import RedisServer, commands_to

WAIT_S = 20.0
LIFE = ["run.created", "run.started", "run.step.started", "run.usage", "run.completed"]


class Node:
    """What a server has of the feed: its runs, its lifecycle log, and the feed behind it."""

    def __init__(self, commands: Redis, **options: Any) -> None:
        self.clock = FakeClock()
        self.lifecycle = Lifecycle("e" * 16, self.clock)
        self.runs = RunRegistry(self.lifecycle, self.clock)
        self.feed = RedisFeed(lambda: commands, RandomIds(), self.clock, **options)
        self.lifecycle.observe(self.feed.publish)
        self.feed.on_new_epoch = self.runs.tell_all

    def begin(self, response_id: str, tenant: str = "default") -> RunState:
        """A run that has started: two entries."""
        run = state(response_id, tenant)
        self.runs.start(run)
        self.runs.change(run, "running", event="run.started")
        return run

    def end(self, run: RunState) -> None:
        """Three more entries."""
        self.runs.note(run, event="run.step.started", data={"step": 1})
        self.runs.note(run, event="run.usage")
        self.runs.change(run, "completed", event="run.completed")

    async def sent(self) -> None:
        """Until everything is in the feed."""
        await until(lambda: not self.feed.waiting_bytes)


@contextlib.asynccontextmanager
async def node(
    server: RedisServer, *, port: int = 0, timeout_s: float = 5.0, **options: Any
) -> AsyncIterator[Node]:
    """A node on a server, or on what listens on `port` before it. The library itself tries nothing again."""
    async with commands_to(port or server.port, timeout_s) as commands:
        one = Node(commands, **options)
        one.feed.start()
        try:
            yield one
        finally:
            await one.feed.aclose(within_s=1)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, but not for ever."""
    for _ in range(round(WAIT_S / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("the condition did not come true")


def stream(server: RedisServer, tenant: str = "default") -> list[dict[str, Any]]:
    """The entries the stream has, each under the id that its rev makes."""
    found = server.command("XRANGE", feed(tenant), "-", "+")
    entries = [json.loads(fields[b"entry"]) for _, fields in found]
    assert [entry_id.decode() for entry_id, _ in found] == [f"{entry['rev']}-0" for entry in entries]
    return entries


def events_of(entries: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Run id -> its events in their order."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(entry["run"]["response_id"], []).append(entry["event"])
    return found


def revs(entries: list[dict[str, Any]]) -> list[int]:
    return [entry["rev"] for entry in entries]


def epochs(entries: list[dict[str, Any]]) -> set[str]:
    return {entry["epoch"] for entry in entries}


class Subscriber:
    """A dashboard that knows nothing but SUBSCRIBE. heard: the entries, as they came."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def on(cls, server: RedisServer, pattern: str) -> AsyncIterator[Subscriber]:
        one = cls()
        async with server.client() as client, client.pubsub() as pubsub:
            await pubsub.psubscribe(pattern)
            assert (await pubsub.get_message(timeout=WAIT_S) or {})["type"] == "psubscribe"
            listening = asyncio.create_task(one._listen(pubsub))
            try:
                yield one
            finally:
                listening.cancel()
                await asyncio.wait([listening])

    async def _listen(self, pubsub: Any) -> None:
        while True:
            # Cut off, the library subscribes again, and says so once with an error.
            with contextlib.suppress(redis.ConnectionError):
                async for message in pubsub.listen():
                    if message["type"] == "pmessage":
                        self.heard.append(json.loads(message["data"]))
