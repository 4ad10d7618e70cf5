"""A reader of the feed that several nodes write, where what it reads is odd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import orjson
import pytest

from antiphon.bus.memory import MemoryBus, MemoryHub
from antiphon.clock import SystemClock
from antiphon.ops.feed.shared import SharedRuns
from antiphon.ops.feed.view import FeedView
from antiphon.ops.feed_reading import FeedReader, Page, Shown
from tests.http.calling import until

EPOCH = "e" * 16
KEPT = 20


def published(rev: int) -> bytes:
    run = {"response_id": f"resp_{rev}", "state": "running", "model": "m", "principal": "key:a", "updated_at": 1.0}
    return orjson.dumps({"epoch": EPOCH, "rev": rev, "event": "run.updated", "run": run, "data": {}, "at": 1.0})


class Stream:
    """Stands for Redis: entries from 1 on. on_read: called with each look at older ones."""

    def __init__(self, head: int) -> None:
        self.entries = {rev: published(rev) for rev in range(1, head + 1)}
        self.on_read: Callable[[], None] = lambda: None
        self.looks = 0

    async def snapshot(self, tenant: str) -> Shown:
        return Shown(EPOCH, max(self.entries, default=0), [])

    async def since(self, tenant: str, epoch: str, rev: int, limit: int) -> Page:
        found = [(number, body) for number, body in self.entries.items() if number > rev]
        return Page(EPOCH, max(self.entries, default=0), found[:limit])

    async def before(self, tenant: str, epoch: str, first: int, down_to: int, limit: int) -> Page:
        self.looks += 1
        await asyncio.sleep(0)
        found = [(number, self.entries[number]) for number in range(down_to, first)]
        self.on_read()
        return Page(EPOCH, max(self.entries), found[-limit:])


async def opened(stream: Stream) -> tuple[SharedRuns, FeedView]:
    bus = MemoryBus(MemoryHub(), "a", SystemClock(), 60.0)
    runs = SharedRuns(cast(FeedReader, cast(Any, stream)), bus)
    view = FeedView("acme", SystemClock())
    await runs.open(view)
    return runs, view


async def test_reaching_back_ends_although_new_entries_leave_no_room_for_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("antiphon.ops.feed.shared", "antiphon.core.feed_log"):
        monkeypatch.setattr(f"{module}.LOG_ENTRIES", KEPT)
    monkeypatch.setattr("antiphon.ops.feed.shared._PAGE", 6)
    stream = Stream(head=40)
    runs, view = await opened(stream)

    def one_more() -> None:
        if stream.looks == 1:
            reader = runs._readers["acme"]
            reader._heard(published(view.log.head + 1))

    stream.on_read = one_more
    async with asyncio.timeout(30):
        await runs.reach_back(view, 0)
    assert (view.log.first, view.log.head, stream.looks) == (22, 41, 4)
    await runs.close(view)


async def test_a_feed_that_cannot_be_understood_is_not_said_to_be_whole() -> None:
    stream = Stream(head=3)
    runs, view = await opened(stream)
    stream.entries[4] = b'{"rev": 4}'
    runs.look_again()
    view.sure = True
    await until(lambda: not view.sure)
    stream.entries[4] = published(4)
    runs.look_again()
    await until(lambda: view.sure and view.log.head == 4)
    await runs.close(view)
