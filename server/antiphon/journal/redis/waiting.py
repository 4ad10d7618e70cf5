"""Waiting for what of a run is written. Time in which this node is suspended does not count."""

from __future__ import annotations

import asyncio

from antiphon.errors import BusError, StorageError
from antiphon.journal.contract import RunLost
from antiphon.journal.redis.flusher import RedisSide
from antiphon.journal.redis.live import Live

LOOK_S = 0.25
"""Longest time between two looks: nobody is told when this node is suspended."""


class Waiting:
    """within_s: how long Redis and the store may take for a flush. patience_s: bound of all waiting for one."""

    def __init__(self, bus: RedisSide, within_s: float, patience_s: float) -> None:
        self._bus = bus
        self._within_s = within_s
        self._patience_s = patience_s

    async def until_written(self, live: Live) -> None:
        """Until Redis has what there is of a run now, and the store its row. Raises StorageError, RunLost."""
        version, left_s = live.version, self._within_s
        loop = asyncio.get_running_loop()
        started = loop.time()
        while live.written < version or (live.row is not None and not live.row.done()):
            if live.row is not None and live.row.done():
                live.row.result()  # a row that is refused for good keeps the log back
            left_s -= await self._look(live)
            if live.over:
                break
            if left_s <= 0 or loop.time() - started > self._patience_s:
                raise StorageError("The journal does not take the events of this run.")
        if live.log.lost:
            raise RunLost(live.run_id)
        if live.row is not None and live.row.done():
            live.row.result()

    async def until_over(self, live: Live, within_s: float | None) -> None:
        """Until the terminal of a run is in its log. Raises RunLost, BusError after `within_s`.

        While this node is suspended it may show no end at all.
        """
        while not live.over:
            spent_s = await self._look(live)
            if within_s is not None:
                within_s -= spent_s
                if within_s <= 0 and not live.over:
                    raise BusError("The log has not taken the end of this run.")
        if live.log.lost:
            raise RunLost(live.run_id)

    async def _look(self, live: Live) -> float:
        """Wait for news of a run; gives the seconds that count."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        await live.change(LOOK_S)
        return loop.time() - before if self._bus.held else 0.0
