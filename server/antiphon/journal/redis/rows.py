"""The rows of runs that begin: written beside their logs, tried again while the store is away."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable

import structlog

from antiphon.errors import StorageError
from antiphon.journal.redis.live import Live
from antiphon.store import records
from antiphon.store.records import IdempotencyRecord, NewResponse, Refused
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_RETRY_S = (0.05, 0.2, 0.5, 1.0, 2.0)

_REFUSED_S = 5.0
"""How long a refusal counts if nothing was tried since: a row whose run was given up is not tried again."""


class RowKeeper:
    """register: makes a run known as this node's. written: called with a run whose row is there."""

    def __init__(
        self, writer: Writer, register: Callable[[Live], Awaitable[None]], written: Callable[[Live], None]
    ) -> None:
        self._writer = writer
        self._register = register
        self._written = written
        self._refused_at = -math.inf

    @property
    def refused(self) -> bool:
        """Whether the store did not take the row that was tried last."""
        return asyncio.get_running_loop().time() - self._refused_at < _REFUSED_S

    def tried(self, *, taken: bool) -> None:
        """Something was written to the store, or refused by it."""
        self._refused_at = -math.inf if taken else asyncio.get_running_loop().time()

    def begin(self, live: Live, row: NewResponse, key: IdempotencyRecord | None) -> None:
        """Write a row. One that decides whose key or conversation it is comes first: a loser must leave nothing in
        the log."""
        live.gated, live.awaits_row = key is not None or row.writes is not None, True
        live.row = asyncio.get_running_loop().create_task(self._write(live, row, key), name=f"row {live.run_id}")
        live.row.add_done_callback(lambda task: _done(live, task))

    async def _write(self, live: Live, row: NewResponse, key: IdempotencyRecord | None) -> None:
        """Raises Refused, which does not pass."""
        attempt = 0
        while not live.over:
            try:
                if live.gated and not live.registered:
                    await self._register(live)  # whoever finds this node dead finds a row without a log too
                # Many rows make one transaction: the writer takes what was submitted together.
                await asyncio.shield(self._writer.submit(records.begin(row, key)))
                self.tried(taken=True)
                live.gated = live.awaits_row = False
                self._written(live)
                return
            except Refused:
                raise
            except StorageError as error:
                self.tried(taken=False)
                log.warning("row_not_written", response_id=live.run_id, error=str(error.__cause__ or error))
            await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)] * random.uniform(0.5, 1.5))
            attempt += 1


def _done(live: Live, task: asyncio.Task[None]) -> None:
    live.wake()
    if not task.cancelled():
        task.exception()  # whoever waits for the row is told, if anybody does
