"""The bus of several nodes: Redis or Valkey, alone or behind sentinels."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import structlog
from redis.asyncio import Redis

from antiphon.bus.channels import Listener
from antiphon.bus.lease_keeper import LeaseKeeper
from antiphon.bus.node_watch import NodeWatch, Sight
from antiphon.bus.redis import keys
from antiphon.bus.redis.address import parse_address
from antiphon.bus.redis.agreement import Command, agree, keeping
from antiphon.bus.redis.connection import Connections, answering, cause_of
from antiphon.bus.redis.hints import Hints
from antiphon.bus.redis.mailbox import Mailbox
from antiphon.bus.tasks import end_tasks
from antiphon.errors import BusError, StartupError
from antiphon.ports import Clock
from antiphon.settings.storage import BusSettings

log = structlog.get_logger(__name__)

NODES_TTL_MS = 24 * 3600 * 1000
STOP_WITHIN_S = 2.0
CHECKS_PER_LEASE = 3

_PUT = """
local there = redis.call('GET', KEYS[1])
if there then return there end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
"""
_REMOVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"


class RedisBus:
    """See `ports.Bus`. commands, publish_command: for the journal and the feed, from `start` on.

    commands gives bytes and raises redis exceptions; nothing is sent again by the library, and a command that is
    cancelled or timed out takes its connection with it.
    """

    alone = False

    def __init__(
        self, url: str, settings: BusSettings, clock: Clock, node: str, agree_on: Mapping[str, str]
    ) -> None:
        """agree_on: what all nodes must have alike, by names operators know. Raises StartupError for the URL."""
        self.node = node
        self._settings = settings
        self._agree_on = {"bus.lease_s": f"{settings.lease_s:g}", **agree_on}
        self._connections = Connections(parse_address(url), settings, node)
        self.commands: Redis = self._connections.commands
        self._renewing = self._connections.dedicated()
        self._registered: frozenset[str] = frozenset()
        self._lease = LeaseKeeper(clock, settings.lease_s, self._renew)
        self._watch = NodeWatch(node, settings.lease_s, self._lease, self._look)
        self._mailbox = Mailbox(self._connections, node, settings.command_timeout_s, self._gone)
        self._hints = Hints(self._connections, settings.command_timeout_s)
        self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []
        self.on_suspended: Callable[[], None] = lambda: None
        self.on_resumed: Callable[[], Awaitable[None]] = _nothing
        self.on_nodes_gone: Callable[[frozenset[str]], Awaitable[None]] = _nothing
        self.on_message: Callable[[str, str, bytes], Awaitable[bytes]] = _no_answer
        self.on_reconnected: Callable[[], None] = lambda: None

    def must_agree(self, name: str, value: str) -> None:
        """One more thing that all nodes must have alike, known only now; before `start`."""
        self._agree_on[name] = value

    @property
    def healthy(self) -> bool:
        """The lease is renewed, messages are read and all subscriptions are acknowledged."""
        return self._lease.healthy and self._mailbox.healthy and self._hints.healthy

    @property
    def held(self) -> bool:
        return self._lease.held

    @property
    def lease_left_s(self) -> float | None:
        return self._lease.left_s

    @property
    def publish_command(self) -> Literal["SPUBLISH", "PUBLISH"]:
        """For a channel with a hash tag."""
        return self._connections.publish_command

    @property
    def cuts(self) -> int:
        """How often the subscriber was cut off."""
        return self._hints.cuts

    async def start(self) -> None:
        await self._connections.open()
        try:
            async with answering(self._settings.command_timeout_s):
                await self._agree()
                await self._lease.start(lambda: self.on_suspended(), lambda: self.on_resumed())
                await self._agree()  # two that began at the same moment see each other by now
        except (BusError, StartupError) as error:
            with contextlib.suppress(BusError):
                await self.forget_node(self.node)
            await self.stop()
            if isinstance(error, StartupError):
                raise
            raise StartupError(f"the bus {self._connections.address} does not work: {cause_of(error)}") from error
        self._mailbox.start(lambda sender, kind, payload: self.on_message(sender, kind, payload))
        self._hints.start(self._reconnected)
        self._watch.start(lambda nodes: self.on_nodes_gone(nodes))
        self._tasks.append(asyncio.create_task(self._check_master_forever(), name="bus master"))

    async def stop(self) -> None:
        """The node stays registered: what it did not hand over is found by the others."""
        if self._stopped:
            return
        self._stopped = True
        await end_tasks(self._tasks)
        await self._watch.stop()
        await self._lease.stop()
        with contextlib.suppress(BusError):
            async with answering(STOP_WITHIN_S):
                await self._mailbox.stop()
        with contextlib.suppress(BusError):
            async with answering(STOP_WITHIN_S):
                await self.commands.delete(keys.node_lease(self.node))
        await self._hints.stop()
        await self._renewing.disconnect(nowait=True)
        await self._connections.close()

    async def alive(self) -> frozenset[str]:
        await self._look()  # who is registered; the second look sees the leases of all of them
        return (await self._look()).alive

    async def forget_node(self, node: str) -> None:
        self._mailbox.forget(node)
        async with answering(self._settings.command_timeout_s):
            pipeline = self.commands.pipeline(transaction=False)
            pipeline.srem(keys.NODES, node)
            for key in (keys.node_lease(node), keys.node_inbox(node), keys.node_runs(node)):
                pipeline.delete(key)
            await pipeline.execute()

    async def ask(self, node: str, kind: str, payload: bytes, timeout_s: float) -> bytes:
        return await self._mailbox.ask(node, kind, payload, timeout_s)

    def tell(self, node: str, kind: str, payload: bytes) -> None:
        self._mailbox.tell(node, kind, payload)

    async def subscribe(self, channel: str, listener: Listener) -> None:
        await self._hints.subscribe(channel, listener)

    async def unsubscribe(self, channel: str, listener: Listener) -> None:
        self._hints.unsubscribe(channel, listener)

    async def publish(self, channel: str, payload: bytes) -> None:
        command = self.publish_command if keys.is_tagged(channel) else "PUBLISH"
        async with answering(self._settings.command_timeout_s):
            await self.commands.execute_command(command, channel, payload)  # type: ignore[no-untyped-call]

    async def put_if_absent(self, key: str, value: bytes, ttl_s: float) -> bytes | None:
        async with answering(self._settings.command_timeout_s):
            there: bytes | None = await self.commands.eval(_PUT, 1, key, value, int(ttl_s * 1000))
        return there

    async def remove(self, key: str, value: bytes) -> None:
        async with answering(self._settings.command_timeout_s):
            await self.commands.eval(_REMOVE, 1, key, value)

    async def _agree(self) -> None:
        async def others() -> frozenset[str]:
            return await self.alive() - {self.node}

        await agree(self.commands, self._agree_on, self._settings.lease_s, others)

    async def _renew(self) -> bool:
        """On a connection of its own: a pool that is busy must not cost the lease."""
        lease_ms = int(self._settings.lease_s * 1000)
        exchange: list[Command] = [
            ("SET", keys.node_lease(self.node), self.node, "PX", lease_ms, "GET"),
            ("SADD", keys.NODES, self.node),
            ("PEXPIRE", keys.NODES, NODES_TTL_MS),
            *keeping(self._agree_on, self._settings.lease_s),
        ]
        connection = self._renewing
        try:
            async with answering(min(self._settings.command_timeout_s, self._settings.lease_s)):
                await connection.send_packed_command(connection.pack_commands(exchange))
                replies = [await connection.read_response() for _ in exchange]
        except BaseException:
            await connection.disconnect(nowait=True)  # answers may be outstanding
            raise
        return replies[0] is not None

    def _reconnected(self) -> None:
        """The server was away: it may have lost the lease."""
        self._lease.hurry()
        self.on_reconnected()

    async def _look(self, extra: frozenset[str] = frozenset()) -> Sight:
        """One exchange. A node that registered since the last look is seen with the next one.

        extra: nodes whose lease is looked at whether they are registered or not.
        """
        looked_at = sorted(self._registered | extra | {self.node})
        async with answering(self._settings.command_timeout_s):
            pipeline = self.commands.pipeline(transaction=False)
            pipeline.smembers(keys.NODES)
            for node in looked_at:
                pipeline.exists(keys.node_lease(node))
            registered, *leases = await pipeline.execute()
        self._registered = frozenset(node.decode() for node in registered)
        alive = frozenset(node for node, lease in zip(looked_at, leases, strict=True) if lease)
        return Sight(self._registered.intersection(looked_at), alive)

    async def _gone(self, nodes: frozenset[str]) -> frozenset[str]:
        return self._watch.judge(await self._look(nodes), nodes)

    async def _check_master_forever(self) -> None:
        """Ask whether there is another master: nobody else tells a subscriber that its server was demoted."""
        while True:
            await asyncio.sleep(self._settings.lease_s / CHECKS_PER_LEASE)
            try:
                await self._connections.master.check()
            except Exception:  # a sentinel that answers nonsense must not end the asking
                log.exception("asking for the master failed")


async def _nothing(*_: object) -> None:
    """Nobody asked to be told."""


async def _no_answer(sender: str, kind: str, payload: bytes) -> bytes:
    raise BusError("This node takes no messages.")
