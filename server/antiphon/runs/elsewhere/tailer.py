"""Follows the log of another node's run: hints wake it, the journal is what it believes."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass

import orjson
import structlog

from antiphon.errors import StorageError
from antiphon.journal.contract import Hint, Journal, LiveRun
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Bus
from antiphon.runs.elsewhere.remote_run import RemoteRun, extends, update
from antiphon.store.responses import ResponseReader, StoredResponse

log = structlog.get_logger(__name__)

_PAGE_BYTES = 256 * 1024

_GONE_S = 15.0
"""How long a run may be nowhere, as while Redis comes back empty and its owner writes it again."""

_KEPT_HINTS = 256

_LOOK_S = (1.0, 2.0)
"""Hints may be lost: without any, the journal is looked at after a time between these."""


@dataclass(slots=True)
class TailCounts:
    """Of all tailers of a node. looks: at the journal. repaired: events that no hint brought in time."""

    looks: int = 0
    repaired: int = 0


class Tailer:
    """Feeds one mirror, however many clients of this node follow it.

    was_own: the log was written here until another node took the run; what that one does not know of is void.
    """

    def __init__(
        self,
        run: RemoteRun,
        journal: Journal,
        bus: Bus,
        reader: ResponseReader,
        registry: RunRegistry,
        *,
        was_own: bool = False,
        counts: TailCounts | None = None,
    ) -> None:
        self.run = run
        self._counts = counts if counts is not None else TailCounts()
        self._behind_since: float | None = None
        """Loop time since when there is something in the journal that was not read yet."""
        self._journal = journal
        self._bus = bus
        self._reader = reader
        self._registry = registry
        self._news = asyncio.Event()
        self._reading = False
        self._due = False
        """Something beside events changed, and was not looked up yet."""
        self._kept: list[Hint] = []
        """Hints that came while the journal was being read."""
        self._was_own = was_own
        self._missing_since = 0.0
        self.begun_at = self.used_at = asyncio.get_running_loop().time()
        """Loop time of its beginning, and of when somebody last asked for it or followed it."""
        self._task: asyncio.Task[None] | None = None
        self._channel = journal.hint_channel(run.id)

    async def start(self) -> None:
        """Hear hints, then be where the journal is. Raises BusError, StorageError."""
        await self._bus.subscribe(self._channel, self._hinted)
        try:
            await self._sync()
        except BaseException:
            await self._bus.unsubscribe(self._channel, self._hinted)
            raise
        self.begun_at = self.used_at = asyncio.get_running_loop().time()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=f"tail {self.run.id}")

    def start_late(self) -> None:
        """As `start`, but in its own time, tried until it works."""
        self._task = asyncio.get_running_loop().create_task(self._begin(), name=f"tail {self.run.id}")

    async def _begin(self) -> None:
        while True:
            try:
                await self._bus.subscribe(self._channel, self._hinted)
                break
            except StorageError:
                await asyncio.sleep(random.uniform(*_LOOK_S))
        self._news.set()
        await self._follow()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        with contextlib.suppress(StorageError):
            await self._bus.unsubscribe(self._channel, self._hinted)

    def look(self) -> None:
        """Something may have been missed."""
        self._look_soon()

    @property
    def behind_s(self) -> float:
        """For how long this mirror has lacked something that is known to be in the journal."""
        since = self._behind_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def _look_soon(self) -> None:
        if self._behind_since is None:
            self._behind_since = asyncio.get_running_loop().time()
        self._news.set()

    def _hinted(self, payload: bytes) -> None:
        hint = self._journal.read_hint(payload)
        if hint.more:
            self._due = True  # the epoch may be another one: nothing is shown before that was looked up
            self._kept.clear()
            self._look_soon()
        elif not self._reading and not self._due:
            self._apply(hint)
        elif hint.events and len(self._kept) < _KEPT_HINTS:
            self._kept.append(hint)  # what is being read may end before it
        else:
            self._look_soon()

    def _apply(self, hint: Hint) -> None:
        """Relay what a hint brought, if it is what comes next; else look."""
        run_log = self.run.log
        if hint.last <= run_log.head or run_log.ended:
            return
        events = hint.events[max(0, run_log.head + 1 - hint.first) :]
        if events and hint.first <= run_log.head + 1:
            run_log.relay(events, run_log.head + 1)
        else:
            self._look_soon()

    async def _follow(self) -> None:
        while not self.run.log.ended and not self.run.left.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(*_LOOK_S)):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._sync()
            except StorageError as error:
                log.warning("tail_failed", response_id=self.run.id, error=str(error))
                await asyncio.sleep(random.uniform(0.1, 0.5))
                self._news.set()
            except Exception:
                log.exception("tail_crashed", response_id=self.run.id)

    async def _sync(self) -> None:
        """Bring the mirror to where the journal is."""
        self._reading, self._due = True, False
        self._counts.looks += 1
        try:
            live = await self._journal.find(self.run.id)
            if live is None:
                await self._from_store()
            else:
                self._missing_since = 0.0
                await self._from_journal(live)
        finally:
            self._reading = False
        kept, self._kept = self._kept, []
        if not self._news.is_set():
            self._behind_since = None
        if not self._due:
            for hint in kept:
                self._apply(hint)

    async def _from_journal(self, live: LiveRun) -> None:
        run_log = self.run.log
        if self._was_own and run_log.head > live.head:
            run_log.fork(live.head + 1, run_log.epochs)
        self._was_own = False
        if live.epochs.entries != run_log.epochs.entries:
            fork = extends(run_log.epochs, live.epochs)
            # A list that was replaced belongs to a log that its living owner wrote again: the events are the same.
            run_log.fork(fork if fork is not None else run_log.head + 1, live.epochs)
        self.run.first = live.first
        self.run.owner = live.owner
        self._enter(live.epochs.current)
        news = update(self.run.state, orjson.loads(live.state))
        self.run.state.epoch = live.epochs.current
        # The state is known before the events it belongs to; that the run is over is told after its last event.
        if news and not live.ended:
            self._registry.tell(self.run.state)
        await self._read_on(live.head, ended=live.ended)
        if news and live.ended:
            self._registry.tell(self.run.state)

    def _enter(self, epoch: str) -> None:
        """Say that the run goes on in another epoch, before any event of it (PROTOCOL 6.4.6)."""
        state = self.run.state
        if state.epoch != epoch:
            state.epoch = epoch
            self._registry.tell(state)

    async def _read_on(self, head: int, *, ended: bool) -> None:
        run_log = self.run.log
        while run_log.head < head:
            first, events = await self._journal.events(self.run.id, run_log.head, _PAGE_BYTES)
            if not events:
                return  # it moved meanwhile; looked at again
            if first > run_log.head + 1:
                run_log.skip(first)
            # What was written since the head was read waits for the next look, which knows whether it is the end.
            del events[head + 1 - first :]
            self._counts.repaired += len(events)
            run_log.relay(events, first, ended=ended and first + len(events) - 1 == head)
            await asyncio.sleep(0)

    async def _from_store(self) -> None:
        """Redis knows nothing of it: it has ended and was moved, or its log was lost with its owner."""
        row = await self._reader.find(self.run.id) if self.run.stored else None
        if row is None:
            self._nowhere()
            return
        if row.terminal_number is None:
            return
        if row.epochs.entries != self.run.log.epochs.entries:
            fork = extends(self.run.log.epochs, row.epochs)
            self.run.log.fork(fork if fork is not None else row.terminal_number, row.epochs)
            self._enter(row.epochs.current)
        news = update(self.run.state, orjson.loads(row.run_state))
        await self._read_on(row.terminal_number, ended=True)
        self._end_without_log(row)
        if news:
            self._registry.tell(self.run.state)

    def _nowhere(self) -> None:
        """Neither log nor row is left: after a while its followers are told that there is nothing to wait for."""
        now = asyncio.get_running_loop().time()
        self._missing_since = self._missing_since or now
        if now - self._missing_since >= _GONE_S:
            log.warning("followed_run_gone", response_id=self.run.id)
            self.run.log.give_up()
            self.run.left.set()

    def _end_without_log(self, row: StoredResponse) -> None:
        """Its log is gone, but its end is known: who waits is shown that."""
        run_log, number = self.run.log, row.terminal_number
        if run_log.ended or number is None or row.terminal_event is None:
            return
        if run_log.head + 1 < number:
            run_log.skip(number)
        run_log.relay([row.terminal_event], number, ended=True)
