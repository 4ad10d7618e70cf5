"""Rows of what was used, written a little later and together, so that no run waits for them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from antiphon.errors import StorageError
from antiphon.store import usage
from antiphon.store.usage import AdmittedRow, CallRow, Counted
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

COLLECT_S = 0.02
"""How long rows wait for others: what a crash can lose. Counters are made from rows, so both agree after it."""
_RETRY_S = 1.0
_GIVEN_BACK = 1_000
"""Runs that are remembered, because the row of an admission may fail and be written after its end."""
_MAX_ROWS = 100_000
"""While the store is away. Beyond it the oldest are lost, and said to be."""


@dataclass(slots=True)
class _Batch:
    admitted: list[AdmittedRow] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)
    calls: list[CallRow] = field(default_factory=list)
    again: bool = False
    """It was submitted before, and nobody knows whether it was written."""

    def __len__(self) -> int:
        return len(self.admitted) + len(self.given_back) + len(self.calls)


class WriteBehind:
    """The rows on their way.

    tell_repeats: whether `on_repeat` is called for a call that was written before, by another process.
    """

    def __init__(self, writer: Writer, *, tell_repeats: bool) -> None:
        self._writer = writer
        self._tell_repeats = tell_repeats
        self._open = _Batch()
        self._failed: list[_Batch] = []
        self._given_back: deque[str] = deque(maxlen=_GIVEN_BACK)
        self._writing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.lost_rows = 0
        self.on_repeat: Callable[[CallRow], None] = lambda call: None

    def admitted(self, row: AdmittedRow) -> None:
        """A run took a unit."""
        self._open.admitted.append(row)
        self._soon(COLLECT_S)

    def given_back(self, run_id: str) -> None:
        """It is not spent after all."""
        self._open.given_back.append(run_id)
        self._given_back.append(run_id)
        self._soon(COLLECT_S)

    def called(self, row: CallRow) -> None:
        """A model was called."""
        self._open.calls.append(row)
        self._soon(COLLECT_S)

    def count(self, tenant: str, wanted: Iterable[Counted]) -> Coroutine[Any, Any, dict[str, int]]:
        """What the rows of a tenant say: all that were given here before this call, and none given after it.

        Awaiting it raises StorageError.
        """
        self._submit()
        return self._counted(self._writer.submit(usage.count(tenant, wanted)))

    async def _counted(self, counting: asyncio.Future[dict[str, int]]) -> dict[str, int]:
        counted = await counting
        if self._failed:
            raise StorageError("Usage cannot be counted while the store takes none.", headers={"retry-after": "2"})
        return counted

    async def flush(self) -> None:
        """Until everything given so far is written, or was tried once."""
        self._submit()
        if self._writing:
            await asyncio.wait(list(self._writing))

    async def aclose(self) -> None:
        """Write what is left, if the store takes it. Never raises."""
        await self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._bound(0)

    def _soon(self, wait_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._submit)

    def _submit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batches, self._failed = self._failed, []
        if self._open:
            batches.append(self._open)
            self._open = _Batch()
        for batch in batches:
            work = usage.record(
                batch.admitted, batch.given_back, batch.calls, tell_repeats=self._tell_repeats and not batch.again
            )
            try:
                written = self._writer.submit(work)
            except StorageError as error:
                self._put_back(batch, error)
                continue
            task = asyncio.get_running_loop().create_task(self._settle(batch, written), name="usage rows")
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _settle(self, batch: _Batch, written: asyncio.Future[list[CallRow]]) -> None:
        try:
            repeats = await written
        except StorageError as error:
            self._put_back(batch, error)
            return
        for call in repeats:
            self.on_repeat(call)

    def _put_back(self, batch: _Batch, error: StorageError) -> None:
        log.warning("usage_not_written", rows=len(batch), error=str(error.__cause__ or error))
        # What was given back since is deleted by now, or will be before this is written.
        batch.admitted = [row for row in batch.admitted if row.run_id not in self._given_back]
        batch.again = True
        self._failed.append(batch)
        self._bound(_MAX_ROWS)
        self._soon(_RETRY_S)

    def _bound(self, rows: int) -> None:
        """Let go of the oldest that do not fit."""
        waiting = sum(len(batch) for batch in self._failed)
        while waiting > rows:
            lost = len(self._failed.pop(0))
            waiting -= lost
            self.lost_rows += lost
            log.error("usage_rows_lost", rows=lost)
