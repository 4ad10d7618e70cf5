"""Nodes for tests of the bus: each one writes down what it was told."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from antiphon.bus.memory import MemoryBus, MemoryHub
from antiphon.bus.redis.bus import RedisBus
from antiphon.clock import SystemClock
from antiphon.ports import Bus
from antiphon.settings.storage import BusSettings
from tests.support.redis import RedisServer
from tests.support.relay import Relay

LEASE_S = 1.0
"""Short enough to wait for, long enough for a loaded machine to renew it in time."""
WITHIN_S = 40.0


async def eventually(true: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """What `true` gives, as soon as that is something."""
    deadline = time.monotonic() + within_s
    while not (found := true()):
        assert time.monotonic() < deadline, f"did not become true within {within_s} s"
        await asyncio.sleep(0.005)
    return found


async def longest_stall(for_s: float) -> float:
    """Watch the loop for so long; the longest time in which it did nothing, beside polls of 5 ms."""
    longest, last = 0.0, time.monotonic()
    until = last + for_s
    while last < until:
        await asyncio.sleep(0.005)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest


class Node:
    """A bus and what it told. suspended, gone: monotonic times and sets of nodes, in order."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.suspended: list[float] = []
        self.resumed: list[float] = []
        self.gone: list[frozenset[str]] = []
        self.gone_at: list[float] = []
        self.reconnected = 0
        self.messages: list[tuple[str, str, bytes]] = []
        self.answer: Callable[[str, str, bytes], Awaitable[bytes]] = echo
        bus.on_suspended = lambda: self.suspended.append(time.monotonic())
        bus.on_resumed = self._resume
        bus.on_nodes_gone = self._nodes_gone
        bus.on_message = self._message
        bus.on_reconnected = self._reconnected

    @property
    def id(self) -> str:
        return self.bus.node

    async def _resume(self) -> None:
        self.resumed.append(time.monotonic())

    async def _nodes_gone(self, nodes: frozenset[str]) -> None:
        self.gone.append(nodes)
        self.gone_at.append(time.monotonic())

    async def _message(self, sender: str, kind: str, payload: bytes) -> bytes:
        self.messages.append((sender, kind, payload))
        return await self.answer(sender, kind, payload)

    def _reconnected(self) -> None:
        self.reconnected += 1


async def echo(sender: str, kind: str, payload: bytes) -> bytes:
    return b"%s: %s" % (kind.encode(), payload)


class Cluster(Protocol):
    """Several nodes on one bus."""

    async def node(self, name: str) -> Node:
        """A new node that has started."""
        ...

    def cut(self, node: Node) -> None:
        """The node does not reach the bus any more, and is not told."""
        ...

    def restore(self, node: Node) -> None:
        """It does again."""
        ...

    async def kill(self, node: Node) -> None:
        """The node ends without giving anything up."""
        ...


class MemoryCluster:
    def __init__(self) -> None:
        self.hub = MemoryHub()
        self.nodes: list[Node] = []

    async def node(self, name: str) -> Node:
        node = Node(MemoryBus(self.hub, name, SystemClock(), LEASE_S))
        self.nodes.append(node)
        await node.bus.start()
        return node

    def cut(self, node: Node) -> None:
        self.hub.cut(node.id)

    def restore(self, node: Node) -> None:
        self.hub.restore(node.id)

    async def kill(self, node: Node) -> None:
        self.hub.cut(node.id)
        await node.bus.stop()


class RedisCluster:
    """Each node reaches the server through a relay of its own."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.nodes: list[Node] = []
        self.relays: dict[str, Relay] = {}
        self._stack = contextlib.AsyncExitStack()

    async def node(self, name: str, **settings: Any) -> Node:
        relay = await self._stack.enter_async_context(Relay("127.0.0.1", self.server.port))
        node = redis_node(f"redis://127.0.0.1:{relay.port}", name, **settings)
        self.relays[name] = relay
        self.nodes.append(node)
        await node.bus.start()
        return node

    def cut(self, node: Node) -> None:
        self.relays[node.id].blackhole()

    def restore(self, node: Node) -> None:
        self.relays[node.id].restore()

    async def kill(self, node: Node) -> None:
        self.relays[node.id].refuse()
        self.relays[node.id].reset()
        await node.bus.stop()

    async def aclose(self) -> None:
        await self._stack.aclose()


def redis_node(url: str, name: str, agree_on: dict[str, str] | None = None, **settings: Any) -> Node:
    """A node that has not started."""
    wanted = BusSettings(**{"lease_s": LEASE_S, "command_timeout_s": 2.0, **settings})
    return Node(RedisBus(url, wanted, SystemClock(), name, agree_on or {}))


@contextlib.asynccontextmanager
async def started(*nodes: Node) -> AsyncIterator[None]:
    """These nodes, from start to stop."""
    try:
        for node in nodes:
            await node.bus.start()
        yield
    finally:
        await asyncio.gather(*(node.bus.stop() for node in nodes))
