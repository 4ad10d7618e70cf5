"""Where the views of feeds come from: this process alone, or what several nodes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import orjson

from antiphon.core.feed_log import FeedEntry, FeedLog, FeedRows
from antiphon.core.feed_progress import Progress
from antiphon.core.feed_scope import Facts
from antiphon.core.run_state import TERMINAL, RunState
from antiphon.ops.feed.view import FeedView
from antiphon.ops.lifecycle import Entry, Lifecycle
from antiphon.ops.registry import RunRegistry


class FeedSource(Protocol):
    """Keeps views up to date. shared: other nodes have views of the same runs."""

    shared: bool

    async def open(self, view: FeedView) -> None:
        """Fill a view and keep it true. Raises StorageError, and then does not."""
        ...

    async def close(self, view: FeedView) -> None:
        """The view is needed no more. Never raises."""
        ...

    async def reach_back(self, view: FeedView, rev: int) -> None:
        """Have the view know the entries after `rev`, as far as they are kept. Raises StorageError."""
        ...

    def look_again(self) -> None:
        """Something may have been missed."""
        ...

    async def tell_progress(self, runs: Iterable[Progress]) -> None:
        """Runs of this node moved. Never raises."""
        ...

    async def live_runs(self) -> Mapping[str, int]:
        """By tenant, as far as known, the number of runs that go on. Raises StorageError."""
        ...


class OwnRuns:
    """The feed of one machine: what its own lifecycle log says."""

    shared = False

    def __init__(self, lifecycle: Lifecycle, registry: RunRegistry) -> None:
        self._lifecycle = lifecycle
        self._registry = registry
        self._views: dict[str, FeedView] = {}
        lifecycle.observe(self._heard)

    async def open(self, view: FeedView) -> None:
        kept = FeedLog(self._lifecycle.epoch, entries=map(feed_entry, self._lifecycle.kept(view.tenant)))
        rows = FeedRows(_row(state) for state in self._registry if state.tenant == view.tenant and state.feed_n)
        view.begin(kept, rows)
        self._views[view.tenant] = view

    async def close(self, view: FeedView) -> None:
        self._views.pop(view.tenant, None)

    async def reach_back(self, view: FeedView, rev: int) -> None:
        """It knows all there is."""

    def look_again(self) -> None:
        """Nothing can be missed."""

    async def tell_progress(self, runs: Iterable[Progress]) -> None:
        for run in runs:
            view = self._views.get(run.tenant)
            if view is not None:
                view.progressed([run])

    async def live_runs(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for state in self._registry:
            counts[state.tenant] = counts.get(state.tenant, 0) + (state.state not in TERMINAL)
        return counts

    def _heard(self, tenant: str, entry: Entry) -> None:
        view = self._views.get(tenant)
        if view is not None:
            view.take([feed_entry(entry)])


def feed_entry(entry: Entry) -> FeedEntry:
    """An entry of this process as feeds tell it."""
    return FeedEntry(
        rev=entry.rev,
        event=entry.event,
        run_id=entry.run_id,
        facts=entry.facts,
        row=entry.encoded_row,
        data=orjson.dumps(entry.data),
        at=entry.at,
        updated_at=entry.updated_at,
    )


def _row(state: RunState) -> FeedEntry:
    """A run as it stands, whatever was told of it."""
    row = orjson.dumps(state.row())
    return FeedEntry(0, "", state.response_id, Facts.of(state), row, b"{}", state.updated_at, state.updated_at)
