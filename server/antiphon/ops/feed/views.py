"""The views that this node has, made when somebody needs them and let go of a while after the last one left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from antiphon.bus.tasks import end_tasks
from antiphon.core.feed_progress import Progress, ProgressMeter
from antiphon.core.principal import Principal
from antiphon.core.quotas import Quota, check_feed_subscriptions
from antiphon.ops.feed.source import FeedSource
from antiphon.ops.feed.view import FeedView
from antiphon.ports import Clock

log = structlog.get_logger(__name__)

LINGER_S = 60.0
BOOKMARK_S = 30.0
_TICK_S = 0.5
"""How often those are told who want changes that come close together as one."""


class FeedViews:
    """Views by tenant.

    moving: all runs of this node that go on. quota: of a tenant and its tier. shutting: set when this process
    tells nobody any more.
    """

    def __init__(self, source: FeedSource, clock: Clock, *, linger_s: float = LINGER_S) -> None:
        self._source = source
        self._clock = clock
        self._linger_s = linger_s
        self._views: dict[str, FeedView] = {}
        self._opening: dict[str, asyncio.Task[FeedView]] = {}
        self._unused_since: dict[str, float] = {}
        self._subscriptions: dict[str, int] = {}
        """By the tenant of who subscribes."""
        self._coalesced = 0
        """Of views that are closed."""
        self._meter = ProgressMeter()
        self._task: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self.shutting = asyncio.Event()
        self.moving: Callable[[], Iterable[Progress]] = lambda: ()
        self.quota: Callable[[str, str], Quota] = lambda tenant, tier: Quota()

    @property
    def open_views(self) -> int:
        return len(self._views)

    @property
    def subscriptions(self) -> int:
        return sum(self._subscriptions.values())

    @property
    def coalesced(self) -> int:
        """Changes since the start that slow readers got together with a later one."""
        return self._coalesced + sum(view.coalesced for view in self._views.values())

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._tick_forever(), name="feed views")

    def shut(self) -> None:
        """Have bodies that follow a feed end, which by themselves never do."""
        self.shutting.set()

    async def aclose(self) -> None:
        """Tell nobody any more."""
        self.shut()
        await end_tasks([self._task, self._telling, *self._opening.values()])
        for view in list(self._views.values()):
            await self._drop(view)

    async def view(self, tenant: str) -> FeedView:
        """The view of a tenant, true as of now. Raises StorageError."""
        view = self._views.get(tenant)
        if view is None:
            opening = self._opening.get(tenant)
            if opening is None:
                opening = asyncio.get_running_loop().create_task(self._open(tenant))
                self._opening[tenant] = opening
            view = await asyncio.shield(opening)
        self._unused_since[tenant] = self._clock.monotonic()
        return view

    async def view_from(self, tenant: str, position: tuple[str, int] | None) -> FeedView:
        """The same, with the entries after a position, as far as they are kept. Raises StorageError."""
        view = await self.view(tenant)
        if position is not None and position[0] == view.log.epoch and position[1] < view.log.first - 1:
            await self._source.reach_back(view, position[1])
        return view

    def look_again(self) -> None:
        """The bus was away: something may have been missed."""
        self._source.look_again()

    async def live_runs(self) -> dict[str, int]:
        """By tenant, as far as known, the number of runs that go on, on all nodes. Raises StorageError."""
        return dict(await self._source.live_runs())

    def admit(self, principal: Principal) -> Callable[[], None]:
        """Count a subscription of somebody; gives what ends it. Raises RequestError `quota_exceeded`."""
        tenant = principal.tenant
        check_feed_subscriptions(self.quota(tenant, principal.tier), self._subscriptions.get(tenant, 0))
        self._subscriptions[tenant] = self._subscriptions.get(tenant, 0) + 1
        over = False

        def end() -> None:
            nonlocal over
            if not over:
                over = True
                self._subscriptions[tenant] -= 1
                if not self._subscriptions[tenant]:
                    del self._subscriptions[tenant]

        return end

    async def _open(self, tenant: str) -> FeedView:
        view = FeedView(tenant, self._clock)
        try:
            await self._source.open(view)
            self._views[tenant] = view
            # Who asked for it may be gone by now.
            self._unused_since[tenant] = self._clock.monotonic()
            return view
        finally:
            del self._opening[tenant]

    async def _drop(self, view: FeedView) -> None:
        if self._views.pop(view.tenant, None) is not None:
            self._coalesced += view.coalesced
        self._unused_since.pop(view.tenant, None)
        view.close()
        await self._source.close(view)

    async def _tick_forever(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(_TICK_S)
            ticks += 1
            if ticks % round(1.0 / _TICK_S) == 0:
                self._tell_progress()
            for view in list(self._views.values()):
                try:
                    await self._tick(view, ticks)
                except Exception:  # one bad look must not silence all dashboards
                    log.exception("feed_tick_crashed", tenant=view.tenant)

    def _tell_progress(self) -> None:
        """Have it told how far the runs of this node have come. Where the last time is not over yet, later."""
        if (self._telling is None or self._telling.done()) and (self._views or self._source.shared):
            telling = self._source.tell_progress(self._meter.moved(self.moving()))
            self._telling = asyncio.get_running_loop().create_task(telling)

    async def _tick(self, view: FeedView, ticks: int) -> None:
        view.flush_all(latest=True)
        if ticks % round(1.0 / _TICK_S) == 0:
            view.expire()
            view.tell_progress()
        if ticks % round(BOOKMARK_S / _TICK_S) == 0:
            view.tell_bookmark()
        now = self._clock.monotonic()
        if view.subscriptions:
            self._unused_since[view.tenant] = now
        elif self._unused_since.get(view.tenant, now) + self._linger_s <= now:
            await self._drop(view)
