"""The journal on SQLite: events are collected in the loop and written in batches, one chunk row per run and flush.

A batch that fails is kept and tried again: an event leaves memory only when it is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.core.run_state import RunState
from antiphon.errors import StorageError
from antiphon.journal.contract import Hint, LiveRun
from antiphon.journal.log import RunLog
from antiphon.settings.storage import JournalSettings
from antiphon.store import checkpoints, records
from antiphon.store.records import Ending, IdempotencyRecord, NewResponse, Refused, Verdict
from antiphon.store.responses import ResponseReader
from antiphon.store.writing import StoreConnection, Writer

log = structlog.get_logger(__name__)

_RETRY_S = (0.05, 0.2, 0.5, 1.0)
"""Waits between attempts; the last one repeats."""

_SETTLE_S = 1.0
"""Least time given to a write that is on its way before the store counts as away."""

_LOOK_S = 0.05
"""How often it is looked whether a part that is waited for is being refused."""

Begin = tuple[NewResponse, IdempotencyRecord | None]


@dataclass(frozen=True, slots=True)
class _Part:
    """What one flush writes of one run: perhaps its row, perhaps a chunk of events, perhaps where it stands."""

    run_log: RunLog
    begin: Begin | None
    first: int
    events: list[bytes]
    checkpoint: tuple[int, bytes] | None = None

    @property
    def last(self) -> int:
        return self.first + len(self.events) - 1

    def write(self, connection: StoreConnection) -> None:
        if self.begin is not None:
            records.begin(*self.begin)(connection)
        if self.events:
            chunk = (self.run_log.run_id, self.first, self.last, b"\n".join(self.events))
            records.append_chunks([chunk])(connection)
        if self.checkpoint is not None:
            checkpoints.keep(self.run_log.run_id, *self.checkpoint)(connection)


class SqliteJournal:
    """Logs of stored runs (in SQLite) and of unstored ones (in memory only)."""

    def __init__(self, writer: Writer, reader: ResponseReader, settings: JournalSettings) -> None:
        self._writer = writer
        self._reader = reader
        self._settings = settings
        self._dirty: dict[RunLog, None] = {}
        self._begins: dict[RunLog, Begin] = {}
        self._checkpoints: dict[RunLog, tuple[int, bytes]] = {}
        self._fences: dict[RunLog, int] = {}
        self._sent: dict[RunLog, int] = {}
        """The last number of each open stored run that was handed to the writer."""
        self._on_way: set[RunLog] = set()
        """Runs with a part that was handed to the writer and is not written yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._failing: set[RunLog] = set()
        """Runs whose last part on its way was refused and is being tried again."""
        self.healthy = True
        """Whether the last write worked."""
        self.appended = 0
        self.on_lost: Callable[[RunLog], None] = lambda run_log: None
        self.on_restarted: Callable[[RunLog], None] = lambda run_log: None

    def open(
        self,
        run_id: str,
        epochs: Epochs,
        *,
        stored: bool,
        state: RunState,
        head: int = BEFORE_FIRST,
        fence: int = 1,
        onto: RunLog | None = None,
    ) -> RunLog:
        """A log to write to. head: where a run that is taken over stands."""
        window = self._settings.tail_bytes if stored else self._settings.memory_run_bytes
        strict = stored and self._settings.mode == "strict"
        run_log = RunLog(run_id, epochs, window_bytes=window, stored=stored, strict=strict, head=head)
        if stored:
            self._sent[run_log] = head
            self._fences[run_log] = fence
        return run_log

    def open_ended(self, run_id: str, epochs: Epochs, head: int) -> RunLog:
        """The log of a run that is over; its events are read from the database."""
        run_log = RunLog(run_id, epochs, window_bytes=0, stored=True, strict=False, head=head)
        run_log.ended = True
        return run_log

    def begin(self, run_log: RunLog, row: NewResponse, key: IdempotencyRecord | None) -> None:
        """Write the row of a new run with the next flush, together with its first events."""
        self._begins[run_log] = (row, key)
        self._mark_dirty(run_log)

    def checkpoint(self, run_log: RunLog, payload: bytes | None) -> None:
        """Write, with the next flush, where the run stands at this head. None: as if nothing was asked."""
        if payload is not None and run_log in self._sent:
            self._checkpoints[run_log] = (run_log.head, payload)
            self._mark_dirty(run_log)

    def append(self, run_log: RunLog, events: list[bytes], first: int, *, last: bool = False) -> None:
        """Append events; they are delivered at once (relaxed) or when durable (strict).

        last: the terminal follows. Where it need not be stored it follows at once, and goes out with them.
        """
        run_log.append(events, first, hold=last and not run_log.stored)
        self.appended += len(events)
        if run_log.stored:
            self._mark_dirty(run_log)

    def publish_state(self, run_log: RunLog) -> None:
        """There is no other node."""

    def announce(self, run_log: RunLog, channel: str, payload: bytes) -> None:
        """There is no other node."""

    async def erase(self, run_id: str) -> None:
        """Its rows are all there is."""

    def fence(self, run_log: RunLog) -> int:
        """See the contract."""
        return self._fences[run_log]

    def holds_back(self, run_log: RunLog) -> bool:
        """A lone node is never suspended, and its log is what it says it is."""
        return False

    async def may_act(self, run_log: RunLog) -> None:
        """A lone node owns its runs."""

    async def flush(self, run_log: RunLog) -> None:
        """Make what this run has so far durable. Raises StorageError if the store refuses it now."""
        await self._settle(run_log)
        part = self._take(run_log)
        if part is None:
            return
        # In a task: who waits here may be cancelled, and what was handed over still has to be accounted for.
        task = asyncio.get_running_loop().create_task(self._write_or_give_back(part))
        self._flushes.add(task)
        task.add_done_callback(self._flushed)
        await asyncio.shield(task)

    async def end(self, run_log: RunLog, ending: Ending, within_s: float) -> Verdict:
        """The guarded terminal write, with everything of this run before it. Does not show the terminal.

        within_s: how long to wait for earlier events that the store has not taken. Raises StorageError; then
        nothing of it was written and it can be tried again.
        """
        try:
            async with asyncio.timeout(max(within_s, _SETTLE_S)):
                await self._settle(run_log)
        except TimeoutError as error:
            raise StorageError("Earlier events of this run are not stored yet.") from error
        part = self._take(run_log) or _Part(run_log, None, run_log.head + 1, [])
        whole = _Part(run_log, part.begin, part.first, [*part.events, ending.terminal_event])

        def work(connection: StoreConnection) -> Verdict:
            if whole.begin is not None:
                records.begin(*whole.begin)(connection)
            chunk = (run_log.run_id, whole.first, whole.last, b"\n".join(whole.events))
            return records.end(ending, [chunk])(connection)

        try:
            verdict = await asyncio.shield(self._writer.submit(work))
        except StorageError:
            self.healthy = False
            self._give_back(part)
            raise
        self.healthy = True
        self.close(run_log)
        if verdict.won:
            run_log.mark_durable(run_log.head)
        return verdict

    async def end_undecided(self, run_log: RunLog, ending: Ending) -> bool:
        """The log and the row are one database: what the row does not take, the log does not."""
        self.close(run_log)
        return False

    async def end_unstored(self, run_log: RunLog, terminal: bytes, within_s: float) -> Verdict:
        """Memory is all there is of it."""
        return Verdict(True, terminal, run_log.head + 1)

    def close(self, run_log: RunLog) -> None:
        """Forget a log that is over; what it still had to write is given up."""
        self._dirty.pop(run_log, None)
        self._begins.pop(run_log, None)
        self._checkpoints.pop(run_log, None)
        self._sent.pop(run_log, None)
        self._fences.pop(run_log, None)
        self._on_way.discard(run_log)

    async def read(self, run_log: RunLog, after: int, max_bytes: int) -> list[bytes] | None:
        """Shown events after `after`; None if they are gone for good. Raises StorageError."""
        page = run_log.page(after, max_bytes)
        if page is not None or not run_log.stored:
            return page
        first, events = await self._reader.events(run_log.run_id, after, max_bytes)
        return events[: run_log.shown - after] if events and first == after + 1 else None

    async def events(self, run_id: str, after: int, max_bytes: int) -> tuple[int, list[bytes]]:
        """Durable events of a stored run. Raises StorageError."""
        return await self._reader.events(run_id, after, max_bytes)

    def hint_channel(self, run_id: str) -> str:
        """Where nobody publishes."""
        return f"run:{run_id}"

    def read_hint(self, payload: bytes) -> Hint:
        """There are none."""
        raise ValueError("nobody publishes hints on one machine")

    async def conclude(self, run: LiveRun, terminal: bytes, number: int) -> None:
        """The last process wrote the row and died before the log: the stored bytes are appended."""
        await self._writer.submit(records.append_chunks([(run.id, number, number, terminal)]))

    async def verify(self) -> None:
        """They cannot be anywhere else."""

    async def find_all(self, run_ids: Sequence[str]) -> dict[str, LiveRun | None]:
        """See `find`."""
        return dict.fromkeys(run_ids)

    async def find(self, run_id: str) -> LiveRun | None:
        """Every run that lives is one of this process."""
        return None

    async def adopt(self, run: LiveRun) -> LiveRun | None:
        """Take a run that the last process left behind."""
        return replace(run, fence=await self._writer.submit(records.take_over(run.id, None)))

    async def retake(self) -> None:
        """Nobody else can have taken anything."""

    async def release(self, run_log: RunLog) -> None:
        """All of it is stored for the next process. Raises StorageError."""
        await self.flush(run_log)
        self.close(run_log)

    async def owned_by(self, node: str) -> list[LiveRun]:
        """There is no other node."""
        return []

    async def aclose(self) -> None:
        """Write what is left, as far as the store takes it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for run_log in list(self._sent):
            with contextlib.suppress(StorageError):
                await self.flush(run_log)

    def _mark_dirty(self, run_log: RunLog) -> None:
        self._dirty[run_log] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._settings.flush_ms / 1000, self._flush_soon)

    def _flush_soon(self) -> None:
        self._timer = None
        waiting = [run_log for run_log in self._dirty if run_log in self._on_way]
        parts = [
            part
            for run_log in list(self._dirty)
            if run_log not in waiting and (part := self._take(run_log)) is not None
        ]
        for run_log in waiting:
            # Its last part is still on its way: the next one waits, so that the log never has a hole, and the
            # newest checkpoint is written last.
            self._mark_dirty(run_log)
        if not parts:
            return
        task = asyncio.get_running_loop().create_task(self._write_until_done(parts))
        self._flushes.add(task)
        task.add_done_callback(self._flushed)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushes.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it was told, if anybody did

    def _take(self, run_log: RunLog) -> _Part | None:
        """What waits to be written of a run; it counts as sent from here on."""
        self._dirty.pop(run_log, None)
        begin = self._begins.pop(run_log, None)
        first = self._sent.get(run_log, run_log.head) + 1
        events = run_log.since(first)
        checkpoint = self._checkpoints.pop(run_log, None)
        if begin is None and not events and checkpoint is None:
            return None
        part = _Part(run_log, begin, first, events, checkpoint)
        self._sent[run_log] = part.last
        self._on_way.add(run_log)
        return part

    def _give_back(self, part: _Part) -> None:
        """A write failed and its caller will decide: everything of the part waits again."""
        self._on_way.discard(part.run_log)
        if part.run_log not in self._sent:
            return
        if part.begin is not None:
            self._begins[part.run_log] = part.begin
        if part.checkpoint is not None:
            self._checkpoints.setdefault(part.run_log, part.checkpoint)
        self._sent[part.run_log] = part.first - 1
        self._mark_dirty(part.run_log)

    async def _settle(self, run_log: RunLog) -> None:
        """Wait for parts of this run that are on their way, so that none is written twice or out of order.

        Raises StorageError if the store refuses them now, so that whoever waits may run out of patience.
        """
        while self._flushes and run_log in self._on_way:
            if run_log in self._failing:
                raise StorageError("The store does not take the events of this run.")
            await asyncio.wait(self._flushes, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)

    async def _write(self, parts: Sequence[_Part]) -> None:
        def work(connection: StoreConnection) -> None:
            for part in parts:
                part.write(connection)

        try:
            await asyncio.shield(self._writer.submit(work))
        except StorageError as error:
            self.healthy = isinstance(error, Refused)
            raise
        self.healthy = True
        for part in parts:
            self._on_way.discard(part.run_log)
            part.run_log.mark_durable(part.last)

    async def _write_or_give_back(self, part: _Part) -> None:
        try:
            await self._write([part])
        except StorageError:
            self._give_back(part)
            raise

    async def _write_until_done(self, parts: list[_Part]) -> None:
        """Write a flush. If it fails, each run goes on alone, so that one cannot hold up the others."""
        try:
            await self._write(parts)
        except StorageError as error:
            log.warning("journal_write_failed", runs=len(parts), error=str(error.__cause__))
            await asyncio.gather(*(self._retry(part) for part in parts))

    async def _retry(self, part: _Part) -> None:
        attempt = 0
        self._failing.add(part.run_log)
        try:
            while part.run_log in self._sent:
                await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
                attempt += 1
                with contextlib.suppress(StorageError):
                    await self._write([part])
                    return
        finally:
            self._failing.discard(part.run_log)
            self._on_way.discard(part.run_log)
