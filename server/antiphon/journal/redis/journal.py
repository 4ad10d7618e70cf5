"""Logs of runs on Redis Streams, their rows in the store. All runs of this node are written in one pipeline."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import structlog

from antiphon.bus.redis import keys
from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.core.run_state import RunState
from antiphon.errors import StorageError
from antiphon.journal.contract import Hint, LiveRun, RunLost
from antiphon.journal.log import RunLog
from antiphon.journal.redis import hints
from antiphon.journal.redis.ending import decide, ended_state
from antiphon.journal.redis.flusher import Flusher, RedisSide
from antiphon.journal.redis.live import Live, Mode, Part, Terminal, Terms
from antiphon.journal.redis.owning import Ownership
from antiphon.journal.redis.reading import LogReader
from antiphon.journal.redis.rows import RowKeeper
from antiphon.journal.redis.trimming import Trimmer
from antiphon.journal.redis.waiting import LOOK_S, Waiting
from antiphon.ports import Clock, Ids
from antiphon.settings import Settings
from antiphon.store.records import Ending, IdempotencyRecord, NewResponse, Verdict
from antiphon.store.responses import ResponseReader
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_UNSENT_BYTES = 8 * 1024 * 1024
"""Events of one run that Redis may owe; a run that makes more waits, so that memory stays bounded."""

_TERMINAL_WITHIN_S = 1.0
"""How long a decided terminal waits for the log before it is shown; then it gets there by itself."""

_READ_WITHIN_S = 5.0
"""Least time that the log of an unstored run stays after its end: other nodes still have to read how it ended."""

_CLOSE_WITHIN_S = 5.0


class RedisJournal:
    """See `journal/contract.py: Journal`. on_ended: called with a run whose log is to be moved to the store."""

    def __init__(
        self, bus: RedisSide, writer: Writer, reader: ResponseReader, settings: Settings, clock: Clock, ids: Ids
    ) -> None:
        self._bus = bus
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._strict, self.appended = settings.journal.mode == "strict", 0
        self._lives: dict[RunLog, Live] = {}
        self._decided: dict[RunLog, bytes] = {}
        """Terminals of unstored runs that are in their logs, until whoever ends the run is told."""
        ttl_ms = int(settings.bus.live_log_ttl_s * 1000)
        grace_ms = int(max(settings.store.grace_s, _READ_WITHIN_S) * 1000)
        self._terms = (settings.bus.hint_bytes, ttl_ms, grace_ms, int(settings.bus.linger_s * 1000))
        self._flusher = Flusher(
            bus, clock, flush_s=settings.bus.flush_ms / 1000, ttl_s=settings.bus.live_log_ttl_s, terms=self._now
        )
        self.flushes = self._flusher.flushes
        self._flusher.on_gone = self._gone
        self._flusher.on_lost = self._lose
        self._flusher.on_taken = self._taken
        self._flusher.on_resumed = self._may_show
        self._rows = RowKeeper(writer, self._register, self._row_written)
        self._owning = Ownership(bus, writer, reader, clock, ttl_ms, grace_ms)
        self._log_reader = LogReader(bus, reader)
        self._waiting = Waiting(bus, settings.bus.command_timeout_s, settings.store.retry_s)
        self._trimmer = Trimmer(bus, writer, settings.bus.live_log_bytes)
        self.on_lost: Callable[[RunLog], None] = lambda run_log: None
        self.on_restarted: Callable[[RunLog], None] = lambda run_log: None
        self.on_ended: Callable[[str], None] = lambda run_id: None

    @property
    def healthy(self) -> bool:
        return not (self._flusher.refused or self._rows.refused)

    def start(self) -> None:
        """Begin to write; call it in the event loop, when the bus is there."""
        self._flusher.start()

    async def aclose(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                for run_log in list(self._lives):
                    with contextlib.suppress(StorageError, RunLost):
                        await self.flush(run_log)
        await self._flusher.stop()
        await self._trimmer.stop()
        for live in list(self._lives.values()):
            self._forget(live, leaves=False)

    # Writing

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
        run_log = onto
        if run_log is None:
            window = self._settings.journal.tail_bytes
            run_log = RunLog(
                run_id, epochs, window_bytes=window, stored=stored, strict=self._strict, head=head, kept=True
            )
        else:
            run_log.own(strict=self._strict)
            if run_log.head < head:
                run_log.skip(head + 1)
            if run_log.head > head or run_log.epochs.entries != epochs.entries:
                run_log.fork(head + 1, epochs)
        mode: Mode = "new" if head == BEFORE_FIRST else "on"
        born = head == BEFORE_FIRST and fence == 1
        self._lives[run_log] = Live(run_log, state, fence, acked=head, mode=mode, born=born, row_fence=fence)
        return run_log

    def open_ended(self, run_id: str, epochs: Epochs, head: int) -> RunLog:
        run_log = RunLog(run_id, epochs, window_bytes=0, stored=True, strict=False, head=head)
        run_log.ended = True
        return run_log

    def fence(self, run_log: RunLog) -> int:
        """The fence with which this node owns an open run; a suspension raises it."""
        return self._lives[run_log].fence

    def begin(self, run_log: RunLog, row: NewResponse, key: IdempotencyRecord | None) -> None:
        self._rows.begin(self._lives[run_log], row, key)

    def checkpoint(self, run_log: RunLog, payload: bytes | None) -> None:
        live = self._lives.get(run_log)
        if payload is not None and live is not None:
            live.checkpoint = (run_log.head, payload)
            live.checkpoint_due = True
            self._changed(live)

    def publish_state(self, run_log: RunLog) -> None:
        live = self._lives.get(run_log)
        if live is not None:
            live.state_due = True
            if live.acked > BEFORE_FIRST or run_log.head > BEFORE_FIRST:
                self._changed(live)

    def announce(self, run_log: RunLog, channel: str, payload: bytes) -> None:
        live = self._lives.get(run_log)
        if live is not None:
            live.news = (channel, payload)
            self._flusher.tell(live)

    def append(self, run_log: RunLog, events: list[bytes], first: int, *, last: bool = False) -> None:
        live = self._lives.get(run_log)
        # Of a run that was lost nothing is shown any more.
        run_log.append(events, first, hold=live is None or not self._bus.held)
        self.appended += len(events)
        if live is not None and events:
            live.unsent_bytes += sum(map(len, events))
            self._changed(live)

    async def erase(self, run_id: str) -> None:
        await self._owning.erase(run_id)

    def holds_back(self, run_log: RunLog) -> bool:
        live = self._lives.get(run_log)
        return live is not None and (not self._bus.held or live.unsent_bytes > _UNSENT_BYTES)

    async def may_act(self, run_log: RunLog) -> None:
        while (live := self._still_open(run_log)) is not None and self.holds_back(run_log):
            await live.change(LOOK_S)

    async def flush(self, run_log: RunLog) -> None:
        live = self._still_open(run_log)
        if live is None:
            return
        if live.row is not None or live.version > live.written:
            self._flusher.due(live, now=True)
        await self._waiting.until_written(live)

    async def end(self, run_log: RunLog, ending: Ending, within_s: float) -> Verdict:
        live = self._open(run_log)
        await self._settle(live, within_s)
        epochs = run_log.epochs
        work, whole = decide(live, ending)
        try:
            verdict = await asyncio.shield(self._writer.submit(work))
        except StorageError:
            self._rows.tried(taken=False)
            raise
        self._rows.tried(taken=True)
        live.kept = whole and verdict.won and run_log.epochs is epochs
        if not verdict.won and verdict.terminal_number != run_log.head + 1:
            # Another node has the run, or has ended it elsewhere in its log.
            self._lose(live)
            raise RunLost(run_log.run_id)
        live.terminal = Terminal(verdict.terminal_event or ending.terminal_event, ending.run_state)
        with contextlib.suppress(RunLost, StorageError):
            # What is decided may be shown, even if the bus is away: it gets into the log later, or by an adopter.
            await self._finish(live, _TERMINAL_WITHIN_S)
        return verdict

    async def end_undecided(self, run_log: RunLog, ending: Ending) -> bool:
        """Waits until the log has taken it, for as long as that takes. Raises RunLost."""
        live = self._open(run_log)
        live.terminal = Terminal(ending.terminal_event, ending.run_state, ending.http_status or 200)
        await self._finish(live, None)
        return True

    async def end_unstored(self, run_log: RunLog, terminal: bytes, within_s: float) -> Verdict:
        if run_log not in self._decided:
            live = self._open(run_log)
            if live.terminal is None:  # else it is on its way since the last attempt, and may be in the log
                state = ended_state(live.state, terminal, self._clock.now(), self._settings.store.grace_s)
                live.terminal = Terminal(terminal, state)
            await self._finish(live, max(within_s, _TERMINAL_WITHIN_S))
        decided = self._decided.pop(run_log)
        return Verdict(decided == terminal, decided, run_log.head + 1)

    def close(self, run_log: RunLog) -> None:
        self._decided.pop(run_log, None)
        live = self._lives.get(run_log)
        if live is not None and live.terminal is None:
            self._forget(live, leaves=live.born, erase=live.born)

    def _still_open(self, run_log: RunLog) -> Live | None:
        """None if it has ended or was closed. Raises RunLost."""
        if run_log.lost:
            raise RunLost(run_log.run_id)
        return self._lives.get(run_log)

    def _open(self, run_log: RunLog) -> Live:
        if (live := self._lives.get(run_log)) is None:
            raise RunLost(run_log.run_id)
        return live

    def _changed(self, live: Live) -> None:
        live.version += 1
        self._flusher.due(live)

    async def _settle(self, live: Live, within_s: float) -> None:
        """Wait until Redis and the store have all of a run. Raises StorageError, RunLost."""
        try:
            async with asyncio.timeout(max(within_s, _TERMINAL_WITHIN_S)):
                await self.flush(live.log)
        except TimeoutError as error:
            raise StorageError("Earlier events of this run are not stored yet.") from error

    async def _finish(self, live: Live, within_s: float | None) -> None:
        live.version += 1
        self._flusher.due(live, now=True)
        await self._waiting.until_over(live, within_s)

    # What the flusher and the rows tell

    def _now(self) -> Terms:
        return Terms(self._bus.node, self._bus.publish_command, *self._terms, now=self._clock.monotonic())

    def _taken(self, part: Part, log_bytes: int) -> None:
        live = part.live
        live.took(part, log_bytes)
        self._flusher.tell(live)
        if part.ends:
            self._forget(live, leaves=True)
            if part.to_be_moved:
                self.on_ended(live.run_id)
            elif live.terminal is not None and not (live.log.stored or live.log.ended):
                self._decided[live.log] = live.terminal.event
        else:
            self._trimmer.grown(live)
            if self._bus.held:
                live.log.show()  # appended while the lease was being confirmed
        live.wake()

    def _gone(self, live: Live) -> None:
        live.restart(self._ids.token())
        self._flusher.due(live)
        _told(self.on_restarted, live.log)

    def _lose(self, live: Live) -> None:
        if live.over:
            return
        live.log.lost = True
        self._forget(live, leaves=True)
        if not live.log.ended:
            _told(self.on_lost, live.log)

    def _forget(self, live: Live, *, leaves: bool, erase: bool = False) -> None:
        live.over = True
        self._lives.pop(live.log, None)
        self._flusher.forget(live, leaves=leaves, erase=erase)
        live.wake()

    async def _register(self, live: Live) -> None:
        await self._owning.register(live.run_id)
        live.registered = True

    def _row_written(self, live: Live) -> None:
        self._flusher.tell(live)
        if live.version > live.written:
            self._flusher.due(live)
        live.wake()

    def _may_show(self) -> None:
        """This node may act again: what was held back is shown, and those who wait go on."""
        for live in list(self._lives.values()):
            live.log.show()
            live.wake()

    # Reading, and runs of other nodes

    async def read(self, run_log: RunLog, after: int, max_bytes: int) -> list[bytes] | None:
        page = run_log.page(after, max_bytes)
        if page is not None:
            return page
        first, events = await self.events(run_log.run_id, after, max_bytes)
        return events[: run_log.shown - after] if events and first == after + 1 else None

    async def events(self, run_id: str, after: int, max_bytes: int) -> tuple[int, list[bytes]]:
        return await self._log_reader.events(run_id, after, max_bytes)

    def hint_channel(self, run_id: str) -> str:
        return keys.run_hint(run_id)

    def read_hint(self, payload: bytes) -> Hint:
        return hints.read_hint(payload)

    async def find(self, run_id: str) -> LiveRun | None:
        return await self._owning.find(run_id)

    async def verify(self) -> None:
        lives = [live for live in self._lives.values() if live.acked > BEFORE_FIRST and not live.over]
        for run_log in await self._owning.missing([live.log for live in lives]):
            self.publish_state(run_log)  # that write finds it gone

    async def find_all(self, run_ids: Sequence[str]) -> dict[str, LiveRun | None]:
        return await self._owning.find_all(run_ids)

    async def owned_by(self, node: str) -> list[LiveRun]:
        return await self._owning.owned_by(node)

    async def adopt(self, run: LiveRun) -> LiveRun | None:
        return await self._owning.adopt(run)

    async def conclude(self, run: LiveRun, terminal: bytes, number: int) -> None:
        """Raises RunLost if it is no longer this node's."""
        if not await self._owning.conclude(run, terminal, number):
            raise RunLost(run.id)
        if run.stored:
            self.on_ended(run.id)

    async def retake(self) -> None:
        lives = list(self._lives.values())
        for live, answer in await self._owning.retake(lives):
            if live.over:
                continue
            if answer[0] == b"lost":
                self._lose(live)
                continue
            # Nodes that took this one for dead may have forgotten it, and with it the list of what it owns.
            live.registered = False
            if live.acked > BEFORE_FIRST:
                self._changed(live)
            if answer[0] == b"ok":
                live.fence = int(answer[1])
            elif live.acked > BEFORE_FIRST:
                live.fence += 1
                self._gone(live)
        self._may_show()

    async def release(self, run_log: RunLog) -> None:
        await self.flush(run_log)
        live = self._open(run_log)
        run_log.lost = True  # whoever takes it now may do so before this node knows
        self._forget(live, leaves=False)
        try:
            released = await self._owning.release(run_log.run_id, live.fence)
        except BaseException:
            live.over = run_log.lost = False
            self._lives[run_log] = live
            raise
        if not released:
            _told(self.on_lost, run_log)
            raise RunLost(run_log.run_id)


def _told(callback: Callable[[RunLog], None], run_log: RunLog) -> None:
    try:
        callback(run_log)
    except Exception:  # one run must not stop what is written of the others
        log.exception("journal_callback_crashed", response_id=run_log.run_id)
