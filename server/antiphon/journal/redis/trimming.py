"""Keeps the log of a live run in Redis bounded: what is old moves to the store, or is gone for an unstored run."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.bus.redis import keys
from antiphon.errors import StorageError
from antiphon.journal.redis.chunks import Merger
from antiphon.journal.redis.flusher import RedisSide
from antiphon.journal.redis.live import Live
from antiphon.journal.redis.reading import FIRST_ENTRIES, entries, next_count, number_of
from antiphon.journal.redis.scripts import TRIM, run_script
from antiphon.store import records
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_LEFT = 0.75
"""How full the log is after it was trimmed."""


class Trimmer:
    """max_bytes: of the log of one run in Redis."""

    def __init__(self, bus: RedisSide, writer: Writer, max_bytes: int) -> None:
        self._bus = bus
        self._writer = writer
        self._max_bytes = max_bytes
        self._busy: dict[Live, asyncio.Task[None]] = {}

    def grown(self, live: Live) -> None:
        """Look at the size of a log after something was appended."""
        if live.log_bytes > self._max_bytes and live not in self._busy and not live.over:
            task = asyncio.get_running_loop().create_task(self._trim(live), name=f"trim {live.run_id}")
            self._busy[live] = task
            task.add_done_callback(lambda _: self._busy.pop(live, None))

    async def stop(self) -> None:
        """What is not trimmed yet stays as it is."""
        for task in list(self._busy.values()):
            task.cancel()
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _trim(self, live: Live) -> None:
        try:
            count = FIRST_ENTRIES
            while count and live.log_bytes > self._max_bytes * _LEFT and not live.over:
                count = await self._step(live, count)
        except StorageError as error:
            # Not now: the next append asks again.
            log.warning("trim_failed", response_id=live.run_id, error=str(error.__cause__ or error))
        except Exception:
            log.exception("trim_crashed", response_id=live.run_id)

    async def _step(self, live: Live, count: int) -> int:
        """Move some of the oldest entries, up to `count`; gives how many to ask for next, 0 if nothing may go.

        The newest entry always stays: a stream that is missing means that its log was lost.
        """
        page = await entries(self._bus, live.run_id, "-", count + 1)
        spare, size = live.log_bytes - self._max_bytes * _LEFT, 0
        merger = Merger(live.run_id)
        going = 0
        for entry in page[:-1]:
            if size >= spare:
                break
            size += len(entry[1][b"p"])
            going += 1
            merger.add(number_of(entry), entry[1][b"p"])
        if not going:
            return 0
        if live.log.stored:
            live.trimmed = True
            await asyncio.shield(self._writer.submit(records.keep_chunks(merger.finish())))
        stays = page[going]
        first = "" if live.log.stored else number_of(stays)
        run_keys = (keys.run_meta(live.run_id), keys.run_log(live.run_id))
        args = (self._bus.node, live.fence, stays[0], size, first)
        left = int(await run_script(self._bus.commands, TRIM, run_keys, args))
        if left < 0:
            return 0
        live.log_bytes = left
        return next_count(page)
