"""The lifecycle feed that all nodes of a cluster write together (PROTOCOL 16).

Per tenant a stream that keeps the newest entries and a channel that tells them at once. A run never waits for it:
entries go into an outbox, and a task of this node sends what is there every few milliseconds. Each is keyed by its
run and its number within the run, so that sending one again changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence

import orjson
import structlog
from redis.asyncio import Redis

from antiphon.bus.redis.keys import feed, lifecycle_channel
from antiphon.bus.tasks import end_tasks
from antiphon.errors import BusError
from antiphon.journal.redis.scripts import Call, run_script, run_scripts
from antiphon.ops.feed_outbox import FeedOutbox, Outgoing
from antiphon.ops.feed_reading import FEED_TTL_S, SHOWN_MS, FeedReader, position_key, rows_keys, run_key
from antiphon.ops.feed_scripts import APPEND, TAKE
from antiphon.ops.lifecycle import ENDS, RING_ENTRIES, Entry, Told
from antiphon.ports import Clock, Ids

log = structlog.get_logger(__name__)

ENDED_TTL_S = 3_600.0
"""How long the last entry of an ended run is known not to be new: longer than anybody tries to send one again."""

_COLLECT_S = 0.005
_LOOK_S = 4.0
"""How often a node that has nothing to say looks whether its runs are to be told of again."""
_RETRY_S = (0.05, 1.0)
"""First and longest wait after a failure; it doubles, and half of it is random."""


class RedisFeed:
    """Writes this node's entries. reading: everybody's.

    commands: gives the client, once there is one; it limits the time of each command. healthy: the last batch
    was taken. lost: entries that found no room while Redis was away. on_new_epoch: called with a tenant whose feed
    began anew, so that its live runs are told of again.
    """

    def __init__(
        self, commands: Callable[[], Redis], ids: Ids, clock: Clock, *, ttl_s: float = FEED_TTL_S
    ) -> None:
        self._commands = commands
        self._ids = ids
        self._clock = clock
        self.reading = FeedReader(commands, ids, clock, ttl_s=ttl_s)
        self._ttl_ms = round(ttl_s * 1000)
        self._ended_ttl_ms = min(self._ttl_ms, round(ENDED_TTL_S * 1000))
        self._outbox = FeedOutbox()
        self._seen: dict[str, tuple[str, int]] = {}
        """Tenant -> epoch and rev of the last answer."""
        self._begin_anew: dict[str, str] = {}
        """Tenants of which entries were lost here -> the epoch to begin."""
        self._waiting = asyncio.Event()
        self._closing = asyncio.Event()
        self._new_tenant = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self.healthy = True
        self.lost = 0
        self.on_new_epoch: Callable[[str], None] = lambda tenant: None

    @property
    def waiting_bytes(self) -> int:
        """What has not been acknowledged yet."""
        return self._outbox.waiting_bytes

    def publish(self, tenant: str, entry: Entry) -> None:
        """Send an entry soon; an observer of `Lifecycle`. Never waits, never raises."""
        body = b'"event":%b,"run":%b,"data":%b,"at":%b}' % (
            orjson.dumps(entry.event),
            entry.encoded_row,
            orjson.dumps(entry.data),
            orjson.dumps(entry.at),
        )
        ends = entry.event in ENDS
        lost = self._outbox.add(tenant, Outgoing(entry.run_id, entry.fence, entry.n, entry.event, ends, body))
        for of_tenant, count in lost.items():
            self.lost += count
            self._begin_anew[of_tenant] = self._ids.token()
            log.error("feed_entries_lost", tenant=of_tenant, entries=count)
        self._waiting.set()

    def start(self) -> None:
        """Begin to send."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(), name="feed")
        self._looking = loop.create_task(self._look_forever(), name="feed position")

    async def aclose(self, within_s: float = 5.0) -> None:
        """Send what is left, as far as it is taken in time. Never raises."""
        await end_tasks([self._looking])
        self._closing.set()
        self._waiting.set()
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=within_s)
            if late:
                log.error("feed_entries_lost", entries=len(self._outbox))
                self._task.cancel()
                await asyncio.wait([self._task])
            self._task = None

    async def take(self, run_id: str, tenant: str, fence: int) -> Told:
        """A run was adopted with `fence`: entries of lower fences change nothing from here on.

        Gives what the feed has of it: see `Lifecycle.take_over`. Raises BusError.
        """
        try:
            keys, arguments = (run_key(tenant, run_id),), (fence, self._ttl_ms)
            n, event = await run_script(self._commands(), TAKE, keys, arguments)
        except BusError as error:
            raise BusError("Redis did not say what the lifecycle feed has of a run.") from error
        return Told(int(n), event.decode())

    async def look(self) -> None:
        """Whether feeds of this node's runs began anew while it had nothing to say. Raises BusError."""
        if not self._seen:
            return
        seen = dict(self._seen)
        positions = await self.reading.positions(list(seen))
        for tenant, (epoch, rev) in positions.items():
            before = seen[tenant]
            if self._seen.get(tenant) != before:
                continue  # a batch was taken while Redis was asked
            if epoch != before[0] or rev < before[1]:
                if epoch:
                    log.warning("feed_began_anew", tenant=tenant, epoch=epoch)
                    self._seen[tenant] = (epoch, rev)
                else:  # it was lost, or nothing happened for longer than a feed is kept
                    del self._seen[tenant]
                self.on_new_epoch(tenant)

    async def _look_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S * random.uniform(0.8, 1.2)):
                    await self._new_tenant.wait()
            self._new_tenant.clear()
            try:
                await self.look()
            except BusError as error:
                log.debug("feed_position_unknown", error=str(error))
            except Exception:
                log.exception("feed_look_crashed")

    async def _run(self) -> None:
        while not (self._closing.is_set() and not self._outbox):
            await self._waiting.wait()
            if not self._closing.is_set():
                await asyncio.sleep(_COLLECT_S)  # what comes together goes together
            self._waiting.clear()
            wait_s = _RETRY_S[0]
            while self._outbox:
                try:
                    taken = await self._send()
                except Exception:  # of ours: tried again, because a feed that ended in silence helps nobody
                    log.exception("feed_crashed")
                    taken = False
                if taken:
                    wait_s = _RETRY_S[0]
                else:
                    await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                    wait_s = min(2 * wait_s, _RETRY_S[1])

    async def _send(self) -> bool:
        """One batch of each tenant in one exchange; what is not taken stays first. Gives whether all was taken."""
        batches = self._outbox.batches()
        tokens = {tenant: self._begin_anew.get(tenant) for tenant in batches}
        try:
            calls = [self._call(tenant, batch, tokens[tenant]) for tenant, batch in batches.items()]
            answers = await run_scripts(self._commands(), calls)
        except BusError as error:
            answers = [error] * len(batches)
        failure = None
        for tenant, answer in zip(batches, answers, strict=True):
            if isinstance(answer, Exception):
                failure = answer
            else:
                self._taken(tenant, (answer[0].decode(), answer[1]), tokens[tenant])
        if failure is not None and self.healthy:
            log.warning("feed_unavailable", error=str(failure), entries=len(self._outbox))
        elif failure is None and not self.healthy:
            log.info("feed_available_again")
        self.healthy = failure is None
        return self.healthy

    def _call(self, tenant: str, batch: Sequence[Outgoing], token: str | None) -> Call:
        runs = (run_key(tenant, entry.run_id) for entry in batch)
        keys = [feed(tenant), position_key(tenant), *rows_keys(tenant), *runs]
        epoch, rev = self._seen.get(tenant, ("", 0))
        arguments: list[str | bytes | int] = [
            token or self._ids.token(),
            int(token is not None),
            epoch,
            rev,
            lifecycle_channel(tenant),
            RING_ENTRIES,
            self._ttl_ms,
            round(self._clock.now() * 1000),
            SHOWN_MS,
        ]
        for entry in batch:
            ttl_ms = self._ended_ttl_ms if entry.last else self._ttl_ms
            arguments += [entry.run_id, entry.fence, entry.n, entry.event, int(entry.last), ttl_ms, entry.body]
        return APPEND, keys, arguments

    def _taken(self, tenant: str, position: tuple[str, int], token: str | None) -> None:
        self._outbox.acknowledge(tenant)
        before = self._seen.get(tenant)
        self._seen[tenant] = position
        if before is None:
            self._new_tenant.set()
        if token is not None and self._begin_anew.get(tenant) == token:
            del self._begin_anew[tenant]
        if token is not None or (before is not None and before[0] != position[0]):
            log.warning("feed_began_anew", tenant=tenant, epoch=position[0])
            self.on_new_epoch(tenant)
