"""Rows of the shared feed of runs that do not go on: their end was never told (field issue O-01)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import structlog

from antiphon.core.run_state import TERMINAL, RunState
from antiphon.journal.contract import Journal, LiveRun
from antiphon.ops.feed_reading import FeedReader
from antiphon.ops.lifecycle import Told
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock
from antiphon.runs.elsewhere.remote_run import state_of
from antiphon.store.responses import ResponseReader

log = structlog.get_logger(__name__)

_SILENT_S = 30.0
"""Of a run that was told of since nobody doubts that it goes on."""
_AT_ONCE = 200


class StaleRows:
    """Looks whether runs of which nothing was told for a while go on, and tells the end of those that do not.

    take: see `RedisFeed.take`.
    """

    def __init__(
        self,
        feed: FeedReader,
        take: Callable[[str, str, int], Awaitable[Told]],
        journal: Journal,
        reader: ResponseReader,
        registry: RunRegistry,
        clock: Clock,
        *,
        silent_s: float = _SILENT_S,
    ) -> None:
        self._feed = feed
        self._take = take
        self._journal = journal
        self._reader = reader
        self._registry = registry
        self._clock = clock
        self._silent_s = silent_s
        self._doubted: set[str] = set()
        """Those that did not go on at the last look: their end may just be on its way."""

    async def sweep(self) -> None:
        """Look once. Raises StorageError."""
        doubted: set[str] = set()
        for tenant in await self._feed.live_runs():
            doubted |= await self._sweep_tenant(tenant)
        self._doubted = doubted

    async def _sweep_tenant(self, tenant: str) -> set[str]:
        silent = await self._feed.silent_runs(tenant, self._clock.now() - self._silent_s, _AT_ONCE)
        found = await self._journal.find_all(silent)
        await self._feed.go_on(
            tenant, [run_id for run_id, run in found.items() if run is not None and not run.ended]
        )
        over = {run_id: run for run_id, run in found.items() if run is None or run.ended}
        for run_id, run in over.items():
            if run_id in self._doubted:
                await self._tell_end(tenant, run_id, run)
        return over.keys() - self._doubted

    async def _tell_end(self, tenant: str, run_id: str, run: LiveRun | None) -> None:
        stored = await self._reader.find(run_id)
        if stored is not None and stored.terminal_event is None:
            return  # it is looked for by others, who end it and say so
        kept = stored.run_state if stored is not None else run.state if run is not None else None
        state = state_of(orjson.loads(kept)) if kept is not None else None
        if state is None or state.state not in TERMINAL:
            row = await self._feed.row(tenant, run_id)
            if row is None:
                return
            state = _lost(row, self._clock.now())
        fence = max(stored.fence if stored is not None else 1, run.fence if run is not None else 1)
        told = await self._take(run_id, tenant, fence)
        log.warning("feed_row_was_stale", response_id=run_id, state=state.state)
        self._registry.adopt(state, told, fence)


def _lost(row: dict[str, Any], now: float) -> RunState:
    """A run of which nothing is left but its row."""
    state = state_of(row)
    if state.state not in TERMINAL:
        state.to("failed", now)
        state.terminal = {"status": "failed", "code": "server_lost"}
        state.pending_calls, state.participants, state.current_tool = [], [], None
    return state
