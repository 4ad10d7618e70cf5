"""Composition: the one place that decides who knows whom. What differs with the number of nodes: `backends.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from antiphon.backends import choose_backends, store_answers
from antiphon.clock import RandomIds, SystemClock
from antiphon.core.assembly.outcome import cancelled
from antiphon.core.budgets import BudgetAlert
from antiphon.core.principal import Principal
from antiphon.errors import BusError, StartupError, StorageError
from antiphon.governance.accounts import Accounts
from antiphon.governance.admission.limits import Limits
from antiphon.governance.hooks.build import build_hooks
from antiphon.governance.identity.build import build_identity
from antiphon.ops.feed.views import FeedViews
from antiphon.ops.lifecycle import Lifecycle
from antiphon.ops.loop_lag import LoopLag
from antiphon.ops.metrics.exporter import Exporter
from antiphon.ops.metrics.of_backends import BackendMetrics
from antiphon.ops.metrics.of_counts import CountsMetrics
from antiphon.ops.metrics.of_workers import METRICS, WorkerMetrics, place_among_workers
from antiphon.ops.registry import RunRegistry
from antiphon.ops.status import STATUS, Status
from antiphon.ops.tracing.build import build_tracing
from antiphon.ports import Clock, Ids
from antiphon.runs.compaction.sealing import SEAL_KEY, Sealer
from antiphon.runs.engine import Engine
from antiphon.runs.in_process import RunResult
from antiphon.runs.metrics import EngineMetrics
from antiphon.runs.node_report import NodeReporter
from antiphon.session.hub import Hub
from antiphon.session.metrics import SocketMetrics
from antiphon.settings import Settings
from antiphon.tools.build import build_toolbox
from antiphon.tools.http_context import HttpContexts
from antiphon.transport.asgi import build_asgi
from antiphon.transport.metrics_api import MetricsApi
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
        self.backends = choose_backends(settings, clock, ids)
        self._router = build_upstreams(settings, clock, config)
        self.lifecycle = Lifecycle(ids.token(), clock)
        self.registry = RunRegistry(self.lifecycle, clock)
        self.tracing = build_tracing(settings.tracing, self.registry)
        if self.tracing is not None:
            self.lifecycle.observe(self.tracing.told)
            self.registry.on_give = self.tracing.given
        self._toolbox = build_toolbox(settings, clock, config)
        self._http_contexts = HttpContexts()
        self.hooks = build_hooks(settings, self._http_contexts)
        self.lifecycle.observe(self.hooks.observers.told)
        seal_key = settings.seal_key.get_secret_value() if settings.seal_key is not None else None
        self._sealer = Sealer(seal_key, settings.data_path / SEAL_KEY)
        self.accounts = self._accounts(clock, ids)
        self.engine = Engine(
            settings=settings,
            clock=clock,
            ids=ids,
            reader=self.backends.store.reader,
            writer=self.backends.store.writer,
            journal=self.backends.journal,
            bus=self.backends.bus,
            registry=self.registry,
            router=self._router,
            toolbox=self._toolbox,
            sealer=self._sealer,
            hooks=self.hooks,
            accounts=self.accounts,
            tracing=self.tracing,
            feeds=FeedViews(self.backends.feed_source(self.lifecycle, self.registry), clock),
        )
        self.accounts.standing.on_stop = self._stop_runs
        self.accounts.meter.on_alert = self._budget_alert
        self.backends.connect(self.engine, self.lifecycle, self.registry)
        self.hub = Hub(settings.timeouts.keepalive_s)
        store, bus = self.backends.store, self.backends.bus
        self.identity = build_identity(settings, store.reader, bus, clock, config)
        self._lag = LoopLag()
        reporter = NodeReporter(self.engine, self._lag, lambda: len(self.hub))
        status = Status(bus, clock, reporter.report, self.backends.status)
        self.engine.answering.questions[STATUS] = status.answer
        self.lifecycle.observe(self.engine.counts.told)
        self.exporter = self._exporter() if settings.metrics.enabled else None
        workers = self._metrics_of_workers(self.exporter)
        metrics = MetricsApi(self.exporter, self.identity, settings.metrics.token(), workers)
        self.asgi = build_asgi(
            self.engine, self.hub, self.identity, self._router.models, self._ready, status, metrics
        )
        self._draining = False

    async def start(self) -> None:
        """Take the data, bring tables up to date, take care of what dead processes left. Raises StartupError."""
        try:
            await self.backends.open(self._sealer)
            await self.accounts.start()
            await self.identity.start()
            await self.engine.recover()
        except BaseException as error:
            await self.identity.aclose()
            await self.accounts.aclose()
            await self.backends.close()
            if isinstance(error, StorageError):
                place = self.backends.store.place
                raise StartupError(f"the database {place} cannot be used: {error.__cause__ or error}") from error
            raise
        self.engine.janitor.start()
        self.engine.feeds.start()
        self.hub.start()
        self._lag.start()

    async def run(self, principal: Principal, request: Mapping[str, Any]) -> RunResult:
        """Run a create to its end for a program that embeds the server; see `InProcess.run`."""
        return await self.engine.in_process.run(principal, request)

    async def run_skill(
        self, principal: Principal, skill_id: str, input: Any, request: Mapping[str, Any] | None = None
    ) -> RunResult:
        """Have a skill do its work as a run; see `InProcess.run_skill`."""
        return await self.engine.in_process.run_skill(principal, skill_id, input, request)

    async def drain(self) -> None:
        """Go away in order: readiness fails, work is refused, runs are handed over or get time, sockets close."""
        timeouts, engine = self.settings.timeouts, self.engine
        self._draining = True
        log.info("draining", running=engine.supervisor.running, connections=len(self.hub))
        await asyncio.sleep(timeouts.drain_pause_s)
        engine.service.draining = True
        engine.adopter.resting = True
        self.hub.drain(timeouts.drain_s)
        try:
            await engine.ownership.hand_over()
        except BusError as error:
            log.warning("hand_over_failed", error=str(error))
        try:
            async with asyncio.timeout(timeouts.drain_s):
                await engine.supervisor.wait_idle()
        except TimeoutError:
            log.warning("drain_budget_spent", running=engine.supervisor.running)
        await engine.supervisor.stop_all()
        engine.ownership.close()
        self.hub.shut()
        engine.feeds.shut()

    async def stop(self) -> None:
        """End everything that is left and let go of files and connections."""
        self.engine.service.draining = True
        await self.engine.supervisor.stop_all()
        self._lag.stop()
        await self.hub.stop()
        await self.engine.feeds.aclose()
        await self.engine.janitor.stop()
        await self.engine.aclose()
        await self.hooks.aclose()
        await self._http_contexts.aclose()
        await self._toolbox.aclose()
        await self._router.aclose()
        await self.backends.flush()
        await self.identity.aclose()
        await self.accounts.aclose()
        await self.backends.close()
        if self.tracing is not None:
            await self.tracing.aclose()

    async def _ready(self) -> str:
        """`ready` if new work is welcome here, else why not."""
        if self._draining:
            return "draining"
        return "ready" if self.backends.healthy() and await store_answers(self.backends.store) else "unavailable"

    def _exporter(self) -> Exporter:
        backends, engine = self.backends, self.engine
        return Exporter(
            [
                CountsMetrics(engine.counts, self.registry, self._lag),
                EngineMetrics(engine),
                SocketMetrics(self.hub),
                BackendMetrics(backends.store.writer, backends.journal, backends.bus, backends.shared),
            ]
        )

    def _metrics_of_workers(self, exporter: Exporter | None) -> WorkerMetrics | None:
        place = place_among_workers() if self.settings.workers > 1 else None
        if exporter is None or place is None:
            return None
        workers = WorkerMetrics(self.backends.bus, exporter, *place)
        self.engine.answering.questions[METRICS] = workers.answer
        return workers

    def _accounts(self, clock: Clock, ids: Ids) -> Accounts:
        store, limits = self.backends.store, Limits(self.settings)
        ledger, rows = self.backends.counting(limits)
        return Accounts(
            settings=self.settings,
            limits=limits,
            ledger=ledger,
            rows=rows,
            writer=store.writer,
            reader=store.reader,
            bus=self.backends.bus,
            clock=clock,
            ids=ids,
        )

    def _stop_runs(self, tenant: str | None) -> None:
        """Cancel what runs here for a tenant, or for everybody: it was paused or stopped so."""
        for run in self.engine.directory.live_runs():
            if tenant in (None, run.principal.tenant):
                self.engine.supervisor.stop(run, cancelled("system:stopped"))

    def _budget_alert(self, alert: BudgetAlert) -> None:
        """Say in the feed, at the run that did it, that a budget is nearly spent."""
        if self.registry.lists(alert.run_id):
            data = {"budget": alert.scope, "kind": alert.kind, "used": alert.used, "limit": alert.limit}
            self.registry.note(self.registry.get(alert.run_id), event="run.updated", data={"budget_alert": data})
