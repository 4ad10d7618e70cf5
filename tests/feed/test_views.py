"""Views are made when they are needed, once for everybody who asks, and let go of afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from antiphon.clock import SystemClock
from antiphon.core.feed_log import FeedLog, FeedRows
from antiphon.core.feed_progress import Progress, ProgressMeter
from antiphon.core.feed_scope import FeedScope
from antiphon.errors import BusError
from antiphon.ops.feed.view import FeedView
from antiphon.ops.feed.views import FeedViews
from tests.feed.test_view import Sink, entry
from tests.http.calling import until


class Source:
    """Opens as often as it is asked to, the first time in vain."""

    shared = True

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.told: list[Progress] = []

    async def open(self, view: FeedView) -> None:
        self.opened += 1
        await asyncio.sleep(0)
        if self.opened == 1:
            raise BusError("Redis is away.")
        view.begin(FeedLog("e" * 16), FeedRows())

    async def close(self, view: FeedView) -> None:
        self.closed += 1

    async def reach_back(self, view: FeedView, rev: int) -> None: ...

    def look_again(self) -> None: ...

    async def tell_progress(self, runs: Iterable[Progress]) -> None:
        self.told += runs

    async def live_runs(self) -> Mapping[str, int]:
        return {}


async def test_a_view_is_opened_once_for_many_and_closed_after_the_last_one_left() -> None:
    source = Source()
    views = FeedViews(source, SystemClock(), linger_s=0.0)
    with pytest.raises(BusError):
        await views.view("acme")
    assert views.open_views == 0
    many = await asyncio.gather(*(views.view("acme") for _ in range(100)))
    assert (source.opened, len(set(map(id, many)))) == (2, 1)
    subscription = many[0].subscribe(FeedScope(), "all", Sink())
    views.start()
    views.moving = lambda: [Progress("acme", "resp_1", 5)]
    await until(lambda: source.told == [Progress("acme", "resp_1", 5)])
    assert views.open_views == 1
    subscription.close()
    await until(lambda: views.open_views == 0)
    assert source.closed == 1
    await views.view("acme")
    await views.aclose()
    assert (source.opened, source.closed, views.open_views) == (3, 2, 0)


async def test_a_view_whose_asker_left_before_it_was_there_is_let_go_of_too() -> None:
    source = Source()
    source.opened = 1
    views = FeedViews(source, SystemClock(), linger_s=0.1)
    asking = asyncio.create_task(views.view("acme"))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: views.open_views == 1)
    views.start()
    await until(lambda: views.open_views == 0)
    await views.aclose()


async def test_a_view_that_fails_silences_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source()
    source.opened = 1
    views = FeedViews(source, SystemClock())
    bad, good = await views.view("acme"), await views.view("other")

    def fail(*, latest: bool) -> None:
        raise RuntimeError("a bad look")

    monkeypatch.setattr(bad, "flush_all", fail)
    sink = Sink()
    good.subscribe(FeedScope(), "latest", sink)
    before = sink.writes
    good.take([entry(1, 1, "running")])
    views.start()
    await until(lambda: sink.writes > before)
    await views.aclose()


def test_progress_is_of_runs_that_moved() -> None:
    meter = ProgressMeter()
    one, two = Progress("acme", "resp_1", 5), Progress("acme", "resp_2", -1)
    assert meter.moved([one, two]) == [one]
    assert meter.moved([one, two]) == []
    counted = Progress("acme", "resp_1", 5, output_tokens=7)
    assert meter.moved([counted, Progress("acme", "resp_2", 0)]) == [counted, Progress("acme", "resp_2", 0)]
    assert meter.moved([]) == [] and meter.moved([one]) == [one]
