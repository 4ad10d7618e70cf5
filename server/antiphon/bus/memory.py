"""The bus within one process: for one node that is alone, and for several in a test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from antiphon.bus.channels import Channels, Listener
from antiphon.bus.lease_keeper import LeaseKeeper
from antiphon.bus.message_handling import Handling
from antiphon.bus.node_watch import NodeWatch, Sight
from antiphon.bus.remote_errors import decode_error
from antiphon.errors import BusError, NodeGone
from antiphon.ports import Clock

LOOK_S = 0.05
"""How often the lease of a node that is waited for is looked at: it costs nothing here."""


_FORGET_FROM = 1024
"""Values that are kept before it is looked whose time is over."""


class MemoryHub:
    """What several nodes of one process share.

    leases: monotonic time until which each node counts as alive. unreachable: nodes that cannot reach the hub.
    kept: values with the monotonic time at which they go.
    """

    def __init__(self) -> None:
        self.registered: set[str] = set()
        self.leases: dict[str, float] = {}
        self.buses: dict[str, MemoryBus] = {}
        self.unreachable: set[str] = set()
        self.kept: dict[str, tuple[bytes, float]] = {}
        self._forget_at = _FORGET_FROM

    def forget_old(self, now: float) -> None:
        """Drop values whose time is over, seldom enough that it costs nothing."""
        if len(self.kept) >= self._forget_at:
            self.kept = {key: kept for key, kept in self.kept.items() if kept[1] > now}
            self._forget_at = max(_FORGET_FROM, 2 * len(self.kept))

    def cut(self, node: str) -> None:
        """From here on this node does not reach the others, nor they it."""
        self.unreachable.add(node)

    def restore(self, node: str) -> None:
        """End of `cut`. Its subscriber is told that it missed something."""
        self.unreachable.discard(node)
        if node in self.buses:
            self.buses[node].on_reconnected()


class MemoryBus:
    """See `ports.Bus`."""

    def __init__(self, hub: MemoryHub, node: str, clock: Clock, lease_s: float, *, alone: bool = False) -> None:
        """alone: no other node can exist, so that there is no lease to lose."""
        self.node = node
        self.alone = alone
        self._hub = hub
        self._clock = clock
        self._lease_s = lease_s
        self._lease = LeaseKeeper(clock, lease_s, self._renew)
        self._watch = NodeWatch(node, lease_s, self._lease, self._look)
        self._handling = Handling()
        self._channels = Channels()
        self._replies: dict[int, asyncio.Future[bytes]] = {}
        self._ids = itertools.count(1)
        self.on_suspended: Callable[[], None] = lambda: None
        self.on_resumed: Callable[[], Awaitable[None]] = _nothing
        self.on_nodes_gone: Callable[[frozenset[str]], Awaitable[None]] = _nothing
        self.on_message: Callable[[str, str, bytes], Awaitable[bytes]] = _no_answer
        self.on_reconnected: Callable[[], None] = lambda: None

    @property
    def healthy(self) -> bool:
        return self.alone or self._lease.healthy

    @property
    def held(self) -> bool:
        return self.alone or self._lease.held

    @property
    def lease_left_s(self) -> float | None:
        return None if self.alone else self._lease.left_s

    async def start(self) -> None:
        self._handling.on_message = lambda sender, kind, payload: self.on_message(sender, kind, payload)
        self._hub.buses[self.node] = self
        if not self.alone:
            await self._lease.start(lambda: self.on_suspended(), lambda: self.on_resumed())
            self._watch.start(lambda nodes: self.on_nodes_gone(nodes))

    async def stop(self) -> None:
        await self._watch.stop()
        await self._lease.stop()
        await self._handling.stop()
        self._hub.buses.pop(self.node, None)
        if self.node not in self._hub.unreachable:
            self._hub.leases.pop(self.node, None)
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(BusError("This node is leaving the bus."))

    async def alive(self) -> frozenset[str]:
        self._reach()
        return frozenset(node for node in self._hub.registered if self._lives(node))

    async def forget_node(self, node: str) -> None:
        self._reach()
        self._hub.registered.discard(node)
        self._hub.leases.pop(node, None)

    async def ask(self, node: str, kind: str, payload: bytes, timeout_s: float) -> bytes:
        reply_id = next(self._ids)
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._replies[reply_id] = reply
        try:
            async with asyncio.timeout(timeout_s):
                self._reach()
                self._deliver(node, kind, payload, self._replier(reply))
                while not reply.done():
                    if not self._lives(node):
                        raise NodeGone("The node that had the run is gone; another one takes it over.")
                    await asyncio.wait((reply,), timeout=LOOK_S)
                return reply.result()
        except TimeoutError:
            raise BusError(f"The node of the run did not answer within {timeout_s:g} seconds.") from None
        finally:
            del self._replies[reply_id]

    def tell(self, node: str, kind: str, payload: bytes) -> None:
        if self.node not in self._hub.unreachable:
            self._deliver(node, kind, payload, None)

    async def subscribe(self, channel: str, listener: Listener) -> None:
        self._reach()
        self._channels.add(channel, listener)

    async def unsubscribe(self, channel: str, listener: Listener) -> None:
        self._channels.remove(channel, listener)

    async def publish(self, channel: str, payload: bytes) -> None:
        self._reach()
        for node, bus in list(self._hub.buses.items()):
            if node not in self._hub.unreachable:
                bus._channels.tell(channel, payload)

    async def put_if_absent(self, key: str, value: bytes, ttl_s: float) -> bytes | None:
        self._reach()
        now = self._clock.monotonic()
        there, until = self._hub.kept.get(key, (b"", now))
        if until > now:
            return there
        self._hub.forget_old(now)
        self._hub.kept[key] = (value, now + ttl_s)
        return None

    async def remove(self, key: str, value: bytes) -> None:
        self._reach()
        if self._hub.kept.get(key, (b"", 0.0))[0] == value:
            del self._hub.kept[key]

    def _deliver(self, node: str, kind: str, payload: bytes, reply: Callable[[str, bytes], None] | None) -> None:
        target = self._hub.buses.get(node)
        if target is not None and node not in self._hub.unreachable:
            target._handling.begin(self.node, kind, payload, reply)

    def _replier(self, reply: asyncio.Future[bytes]) -> Callable[[str, bytes], None]:
        def give(type_: str, payload: bytes) -> None:
            if reply.done() or self.node in self._hub.unreachable:
                return
            if type_ == "answer":
                reply.set_result(payload)
            else:
                reply.set_exception(decode_error(payload))

        return give

    async def _renew(self) -> bool:
        self._reach()
        was_there = self._lives(self.node)
        self._hub.leases[self.node] = self._clock.monotonic() + self._lease_s
        self._hub.registered.add(self.node)
        return was_there

    async def _look(self) -> Sight:
        return Sight(frozenset(self._hub.registered), await self.alive())

    def _lives(self, node: str) -> bool:
        if self.alone and node == self.node:
            return True
        return self._hub.leases.get(node, -1.0) > self._clock.monotonic()

    def _reach(self) -> None:
        if self.node in self._hub.unreachable:
            raise BusError("The bus did not answer.")


def memory_bus(node: str, clock: Clock) -> MemoryBus:
    """The bus of a server that is alone on its machine."""
    return MemoryBus(MemoryHub(), node, clock, lease_s=1.0, alone=True)


async def _nothing(*_: object) -> None:
    """Nobody asked to be told."""


async def _no_answer(sender: str, kind: str, payload: bytes) -> bytes:
    raise BusError("This node takes no messages.")
