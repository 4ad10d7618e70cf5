"""The feed that several nodes write together: the stream is believed, the channel only says when to look."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import structlog

from antiphon.bus.redis.keys import lifecycle_channel, progress_channel
from antiphon.bus.tasks import end_tasks
from antiphon.core.feed_frames import ResetReason
from antiphon.core.feed_log import LOG_ENTRIES, FeedEntry, FeedLog, FeedRows
from antiphon.core.feed_progress import Progress
from antiphon.core.feed_scope import Facts
from antiphon.errors import BusError
from antiphon.ops.feed.view import FeedView
from antiphon.ops.feed_reading import FeedReader
from antiphon.ports import Bus

log = structlog.get_logger(__name__)

_LOOK_S = 3.0
"""How often the stream is read without a message."""
_AGAIN_S = 0.5
_PAGE = 1_000


class SharedRuns:
    """Readers by tenant; one on this node, however many subscribe."""

    shared = True

    def __init__(self, feed: FeedReader, bus: Bus) -> None:
        self._feed = feed
        self._bus = bus
        self._readers: dict[str, _Reader] = {}

    async def open(self, view: FeedView) -> None:
        reader = _Reader(self._feed, self._bus, view)
        await reader.start()
        self._readers[view.tenant] = reader

    async def close(self, view: FeedView) -> None:
        reader = self._readers.pop(view.tenant, None)
        if reader is not None:
            await reader.stop()

    async def reach_back(self, view: FeedView, rev: int) -> None:
        await self._readers[view.tenant].reach_back(rev)

    def look_again(self) -> None:
        for reader in self._readers.values():
            reader.look_again()

    async def tell_progress(self, runs: Iterable[Progress]) -> None:
        by_tenant: dict[str, list[Progress]] = {}
        for run in runs:
            by_tenant.setdefault(run.tenant, []).append(run)
        sending = [
            self._bus.publish(progress_channel(tenant), orjson.dumps({"runs": [run.row() for run in moved]}))
            for tenant, moved in by_tenant.items()
        ]
        await asyncio.gather(*sending, return_exceptions=True)  # what is lost is said again in a second

    async def live_runs(self) -> Mapping[str, int]:
        return await self._feed.live_runs()


class _Reader:
    """Keeps one view true."""

    def __init__(self, feed: FeedReader, bus: Bus, view: FeedView) -> None:
        self._feed = feed
        self._bus = bus
        self._view = view
        self._channels = {
            lifecycle_channel(view.tenant): self._heard,
            progress_channel(view.tenant): self._heard_progress,
        }
        self._wanted = asyncio.Event()
        self._reaching_back = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, then read: what happens between is heard. Raises BusError."""
        try:
            for channel, listener in self._channels.items():
                await self._bus.subscribe(channel, listener)
            await self._begin("epoch")
        except BaseException:
            await self._unsubscribe()
            raise
        self._task = asyncio.get_running_loop().create_task(
            self._read_forever(), name=f"feed of {self._view.tenant}"
        )

    async def stop(self) -> None:
        await end_tasks([self._task])
        await self._unsubscribe()

    def look_again(self) -> None:
        """Something may have been missed."""
        self._view.sure = False
        self._wanted.set()

    async def reach_back(self, rev: int) -> None:
        """Have the entries after `rev`, as far as there are any. Raises BusError."""
        async with self._reaching_back:
            kept = self._view.log
            # New entries come meanwhile, and leave no room for the oldest that was wanted.
            while kept.first > (down_to := max(rev + 1, kept.head - LOG_ENTRIES + 1, 1)):
                page = await self._feed.before(self._view.tenant, kept.epoch, kept.first, down_to, _PAGE)
                before = [_entry(orjson.loads(body)) for number, body in page.entries or () if number < kept.first]
                if not before or before[-1].rev != kept.first - 1:
                    return
                kept.prepend(before)

    async def _unsubscribe(self) -> None:
        for channel, listener in self._channels.items():
            with contextlib.suppress(BusError):
                await self._bus.unsubscribe(channel, listener)

    def _heard(self, payload: bytes) -> None:
        """A message is believed if it is the next one; anything else only says that there is something to read."""
        try:
            told = orjson.loads(payload)
            epoch, rev = told["epoch"], told["rev"]
            if epoch == self._view.log.epoch and rev <= self._view.log.head:
                return
            if epoch == self._view.log.epoch and rev == self._view.log.head + 1:
                self._view.take([_entry(told)])
                return
        except (ValueError, KeyError, TypeError):
            log.warning("feed_message_unreadable", tenant=self._view.tenant)
        self._wanted.set()

    def _heard_progress(self, payload: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            rows = orjson.loads(payload)["runs"]
            self._view.progressed(
                Progress(self._view.tenant, row["response_id"], row["head"], row.get("output_tokens"))
                for row in rows
            )

    async def _read_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S * random.uniform(0.8, 1.2)):
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._read()
                self._view.sure = True
            except BusError as error:
                if self._view.sure:
                    log.warning("feed_not_read", tenant=self._view.tenant, error=str(error))
                self._view.sure = False
                await asyncio.sleep(_AGAIN_S * random.uniform(0.5, 1.5))
                self._wanted.set()
            except Exception:
                self._view.sure = False
                log.exception("feed_reader_crashed", tenant=self._view.tenant)
                await asyncio.sleep(_AGAIN_S)

    async def _read(self) -> None:
        """Take what is new, until nothing is. Raises BusError."""
        while True:
            known = self._view.log
            page = await self._feed.since(self._view.tenant, known.epoch, known.head, _PAGE)
            if page.entries is None:
                await self._begin("too_old" if page.epoch == known.epoch else "epoch")
                return
            new = [(number, body) for number, body in page.entries if number > known.head]
            self._view.take(_entry(orjson.loads(body)) for _, body in new)
            if len(page.entries) < _PAGE:
                return

    async def _begin(self, reason: ResetReason) -> None:
        shown = await self._feed.snapshot(self._view.tenant)
        rows = [_entry(orjson.loads(body)) for body in shown.rows]
        self._view.begin(FeedLog(shown.epoch, shown.head), FeedRows(rows), reason)
        self._wanted.set()  # what was heard meanwhile went into what is no more


def _entry(told: Mapping[str, Any]) -> FeedEntry:
    """An entry as it was published. Raises KeyError, TypeError."""
    row = told["run"]
    return FeedEntry(
        rev=told["rev"],
        event=told["event"],
        run_id=row["response_id"],
        facts=Facts.of_row(row),
        row=orjson.dumps(row),
        data=orjson.dumps(told["data"]),
        at=told["at"],
        updated_at=row["updated_at"],
    )
