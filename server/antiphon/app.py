"""Composition: the one place that names concrete adapters and decides who knows whom."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from antiphon.clock import RandomIds, SystemClock
from antiphon.errors import StartupError, StorageError
from antiphon.governance.identity import NoAuthentication, StaticKeys
from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.lifecycle import Lifecycle
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Authenticator, Clock, Ids
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.engine import Engine
from antiphon.session.hub import Hub
from antiphon.settings import Settings
from antiphon.store.database import DatabaseLock, migrate, open_reader
from antiphon.store.responses import ResponseReader
from antiphon.store.writer import SqliteWriter
from antiphon.tools.build import build_toolbox
from antiphon.transport.asgi import build_asgi
from antiphon.upstream.build import build_upstreams

log = structlog.get_logger(__name__)


class Antiphon:
    """One server: everything it is made of, its start, its drain, its stop."""

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        clock, ids = clock or SystemClock(), ids or RandomIds()
        self.settings = settings
        database = settings.database_path
        self._lock = DatabaseLock(database)
        self._database = open_reader(database)
        self._reader = ResponseReader(self._database)
        self._writer = SqliteWriter(database, full_sync=settings.journal.mode == "strict")
        self._journal = SqliteJournal(self._writer, self._reader, settings.journal)
        self._router = build_upstreams(settings, clock, config)
        self.lifecycle = Lifecycle(ids.token(), clock)
        self.registry = RunRegistry(self.lifecycle, clock)
        self._toolbox = build_toolbox(settings, clock, config)
        seal_key = settings.seal_key.get_secret_value() if settings.seal_key is not None else None
        self._sealer = Sealer(seal_key, settings.data_path / "seal.key")
        self.engine = Engine(
            settings=settings,
            clock=clock,
            ids=ids,
            reader=self._reader,
            writer=self._writer,
            journal=self._journal,
            registry=self.registry,
            router=self._router,
            toolbox=self._toolbox,
            sealer=self._sealer,
        )
        self.hub = Hub(settings.timeouts.keepalive_s)
        self.asgi = build_asgi(self.engine, self.hub, self._authenticator(), self._router.models, self._ready)
        self._draining = False

    async def start(self) -> None:
        """Take the data folder, bring the tables up to date, end what a dead process left. Raises StartupError."""
        self._lock.acquire()
        try:
            await asyncio.to_thread(migrate, self.settings.database_path)
            await asyncio.to_thread(self._sealer.load)
            self._writer.start()
            await self.engine.recovery.recover()
        except BaseException as error:
            await self._let_go()
            if isinstance(error, StorageError):
                path = self.settings.database_path
                raise StartupError(f"the database {path} cannot be used: {error.__cause__}") from error
            raise
        self.engine.janitor.start()
        self.hub.start()

    async def drain(self) -> None:
        """Go away in order: readiness fails, work is refused aloud, running turns get time, sockets close."""
        timeouts = self.settings.timeouts
        self._draining = True
        log.info("draining", running=self.engine.supervisor.running, connections=len(self.hub))
        await asyncio.sleep(timeouts.drain_pause_s)
        self.engine.service.draining = True
        self.hub.drain(timeouts.drain_s)
        try:
            async with asyncio.timeout(timeouts.drain_s):
                await self.engine.supervisor.wait_idle()
        except TimeoutError:
            log.warning("drain_budget_spent", running=self.engine.supervisor.running)
        await self.engine.supervisor.stop_all()
        self.hub.shut()

    async def stop(self) -> None:
        """End everything that is left and let go of files and connections."""
        self.engine.service.draining = True
        await self.engine.supervisor.stop_all()
        await self.hub.stop()
        await self.engine.janitor.stop()
        await self._toolbox.aclose()
        await self._router.aclose()
        await self._journal.aclose()
        await self._let_go()

    async def _let_go(self) -> None:
        await self._writer.stop()
        await self._database.dispose()
        self._lock.release()

    async def _ready(self) -> str:
        """`ready` if new work is welcome here, else why not."""
        if self._draining:
            return "draining"
        store = self._journal.healthy
        try:
            async with asyncio.timeout(2):
                await self._reader.ping()
        except (StorageError, TimeoutError):
            store = False
        return "ready" if store else "unavailable"

    def _authenticator(self) -> Authenticator:
        if self.settings.auth_required:
            return StaticKeys(self.settings.key, self.settings.tenant)
        return NoAuthentication()
