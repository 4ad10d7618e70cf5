"""What stands behind the ports: SQLite and this process alone, or PostgreSQL and Redis for several nodes."""

from __future__ import annotations

import asyncio
from typing import Protocol

from antiphon.bus.memory import memory_bus
from antiphon.bus.redis.bus import RedisBus
from antiphon.errors import StorageError
from antiphon.governance.admission.ledger import Ledger
from antiphon.governance.admission.limits import Limits
from antiphon.governance.admission.memory_ledger import MemoryLedger
from antiphon.governance.admission.redis_ledger import RedisLedger
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.journal.contract import Journal
from antiphon.journal.redis.archive import Archive
from antiphon.journal.redis.journal import RedisJournal
from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.feed.shared import SharedRuns
from antiphon.ops.feed.source import FeedSource, OwnRuns
from antiphon.ops.feed_redis import RedisFeed
from antiphon.ops.lifecycle import Lifecycle
from antiphon.ops.metrics.of_backends import Shared
from antiphon.ops.registry import RunRegistry
from antiphon.ops.status import BackendStatus
from antiphon.ports import Bus, Clock, Ids
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.engine import Engine
from antiphon.runs.recovery.stale_rows import StaleRows
from antiphon.settings import Settings
from antiphon.store import cluster
from antiphon.store.opening import Store, open_store
from antiphon.workers import local_bus

_PING_WITHIN_S = 2.0


class Backends(Protocol):
    """Opened before the engine recovers, closed after its last run has ended."""

    store: Store
    journal: Journal
    bus: Bus
    shared: Shared

    def counting(self, limits: Limits) -> tuple[Ledger, WriteBehind]:
        """What counts what tenants use, and the rows it is made from."""
        ...

    def feed_source(self, lifecycle: Lifecycle, registry: RunRegistry) -> FeedSource:
        """Where feeds come from."""
        ...

    def connect(self, engine: Engine, lifecycle: Lifecycle, registry: RunRegistry) -> None:
        """Tell the engine what only this kind of backend has."""
        ...

    async def open(self, sealer: Sealer) -> None:
        """Connect, bring tables up to date, load the key that seals. Raises StartupError, StorageError."""
        ...

    async def flush(self) -> None:
        """No run is left: write what waits."""
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...

    def healthy(self) -> bool:
        """Whether new runs could be kept and shown."""
        ...

    async def status(self) -> BackendStatus:
        """How bus and store do, within `_PING_WITHIN_S`."""
        ...


def choose_backends(settings: Settings, clock: Clock, ids: Ids) -> Backends:
    """Connects to nothing yet. Raises StartupError on a URL that cannot be read, or a pair that does not fit."""
    settings.check_engines()
    if settings.bus_url.startswith("memory:"):
        return OneMachine(settings, clock, ids)
    return SeveralNodes(settings, clock, ids)


class OneMachine:
    """Nothing to install."""

    def __init__(self, settings: Settings, clock: Clock, ids: Ids) -> None:
        self._data = settings.data_path
        self.store = open_store(settings)
        self.journal: Journal = SqliteJournal(self.store.writer, self.store.reader, settings.journal)
        self.bus: Bus = memory_bus(ids.token(), clock)
        self.shared = Shared()

    def counting(self, limits: Limits) -> tuple[Ledger, WriteBehind]:
        rows = WriteBehind(self.store.writer, tell_repeats=True)
        return MemoryLedger(limits, rows), rows

    def feed_source(self, lifecycle: Lifecycle, registry: RunRegistry) -> FeedSource:
        return OwnRuns(lifecycle, registry)

    def connect(self, engine: Engine, lifecycle: Lifecycle, registry: RunRegistry) -> None:
        """There is nobody else."""

    async def open(self, sealer: Sealer) -> None:
        await self.store.prepare()
        await asyncio.to_thread(local_bus.forget, self._data)
        await asyncio.to_thread(sealer.load)
        self.store.writer.start()
        await self.bus.start()

    async def flush(self) -> None:
        await self.journal.aclose()

    async def close(self) -> None:
        await self.bus.stop()
        await self.store.aclose()

    def healthy(self) -> bool:
        return self.journal.healthy

    async def status(self) -> BackendStatus:
        store = self.journal.healthy and await store_answers(self.store)
        return BackendStatus("memory", True, None, "sqlite", store)


class SeveralNodes:
    """Redis carries what lives; PostgreSQL keeps what ended, or SQLite where all nodes are on one machine."""

    def __init__(self, settings: Settings, clock: Clock, ids: Ids) -> None:
        self._settings = settings
        agree_on = {
            "journal.mode": settings.journal.mode,
            "journal.retention_s": f"{settings.journal.retention_s:g}",
            "store.grace_s": f"{settings.store.grace_s:g}",
        }
        self.store = open_store(settings)
        self._redis = RedisBus(settings.bus_url, settings.bus, clock, ids.token(), agree_on)
        self.bus: Bus = self._redis
        writer, reader = self.store.writer, self.store.reader
        self._logs = RedisJournal(self._redis, writer, reader, settings, clock, ids)
        self.journal: Journal = self._logs
        self._archive = Archive(self._redis, writer, settings, clock)
        self._logs.on_ended = self._archive.moved_soon
        self._feed = RedisFeed(lambda: self._redis.commands, ids, clock)
        self.shared = Shared(
            flushes=self._logs.flushes,
            cuts=lambda: self._redis.cuts,
            feed_waiting_bytes=lambda: self._feed.waiting_bytes,
            feed_lost=lambda: self._feed.lost,
        )
        self._clock = clock

    def counting(self, limits: Limits) -> tuple[Ledger, WriteBehind]:
        rows = WriteBehind(self.store.writer, tell_repeats=False)
        return RedisLedger(lambda: self._redis.commands, limits, rows, self._clock), rows

    def feed_source(self, lifecycle: Lifecycle, registry: RunRegistry) -> FeedSource:
        return SharedRuns(self._feed.reading, self._redis)

    def connect(self, engine: Engine, lifecycle: Lifecycle, registry: RunRegistry) -> None:
        lifecycle.observe(self._feed.publish)
        self._feed.on_new_epoch = registry.tell_all
        engine.adopter.told = engine.resumer.told = self._feed.take
        engine.adopter.sweep_archive = self._sweep
        self._stale_rows = StaleRows(
            self._feed.reading, self._feed.take, self.journal, self.store.reader, registry, self._clock
        )

    async def open(self, sealer: Sealer) -> None:
        await self.store.prepare()
        writer = self.store.writer
        writer.start()
        shared = None
        if self._settings.seal_key is None and self._settings.store_engine == "postgresql":
            shared = await cluster.seal_key(writer)
        # Workers on SQLite share the data folder, whose key one process would use as well.
        await asyncio.to_thread(sealer.load, shared)
        self._redis.must_agree("store", await cluster.database_id(writer))
        self._redis.must_agree("seal_key (fingerprint)", sealer.fingerprint)
        await self._redis.start()
        self._logs.start()
        self._archive.start()
        self._feed.start()

    async def flush(self) -> None:
        await self.journal.aclose()
        await self._archive.aclose()
        await self._feed.aclose()

    async def close(self) -> None:
        await self._redis.stop()
        await self.store.aclose()

    def healthy(self) -> bool:
        return self.journal.healthy and self._redis.healthy and self._redis.held

    async def status(self) -> BackendStatus:
        cuts = self._redis.cuts
        detail = f"The subscriber was cut off {cuts} times since the start of this node." if cuts else None
        if not self._redis.held:
            detail = "The lease of this node is not certain; it holds still."
        elif not self._redis.healthy:
            detail = "The last exchange with Redis failed."
        store = await store_answers(self.store)
        return BackendStatus(
            "redis", self._redis.healthy and self._redis.held, detail, self._settings.store_engine, store
        )

    async def _sweep(self) -> None:
        await self._archive.sweep()
        await self._stale_rows.sweep()


async def store_answers(store: Store) -> bool:
    """Whether the database gives data within two seconds."""
    try:
        async with asyncio.timeout(_PING_WITHIN_S):
            await store.reader.ping()
    except (StorageError, TimeoutError):
        return False
    return True
