"""Runs whose owner is gone are gone on with or ended truthfully (ARCHITECTURE "A node dies").

Each has got a higher fence. In relaxed mode it gets a new epoch too, because events may have been shown that never
became durable; then it goes on where that loses nothing, or ends with `response.failed` and code `server_lost`.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
import structlog

from antiphon.core.assembly.wire import encode
from antiphon.core.cursor import Epochs
from antiphon.core.projection import project
from antiphon.core.run_state import RunState
from antiphon.errors import AntiphonError, StorageError
from antiphon.governance.admission.admission import Admission
from antiphon.journal.contract import Journal, LiveRun
from antiphon.journal.log import RunLog
from antiphon.ports import Clock, Ids
from antiphon.runs.recovery.resuming import Kept, Resumer, next_state
from antiphon.runs.recovery.spending import spent_of
from antiphon.settings import Settings
from antiphon.store import records
from antiphon.store.records import Ending
from antiphon.store.responses import ResponseReader, StoredResponse
from antiphon.store.usage_reports import UsageReader
from antiphon.store.writing import Writer
from antiphon_protocol.codes import CODES

log = structlog.get_logger(__name__)

_PAGE_BYTES = 1024 * 1024
_WITHIN_S = 5.0
_MESSAGE = "The server that owned the run went away before it ended."


class Recovery:
    """Goes on with runs, or ends them."""

    def __init__(
        self,
        journal: Journal,
        reader: ResponseReader,
        writer: Writer,
        usage: UsageReader,
        admission: Admission,
        resumer: Resumer,
        settings: Settings,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._journal = journal
        self._reader = reader
        self._writer = writer
        self._usage = usage
        self._admission = admission
        self._resumer = resumer
        self._strict = settings.journal.mode == "strict"
        self._kept_s = {True: settings.journal.retention_s, False: settings.store.grace_s}
        self._clock = clock
        self._ids = ids
        self.tell: Callable[[RunState], None] = lambda state: None
        """Shows a state to who follows the run on this node."""
        self._tokens: dict[tuple[str, int], str] = {}
        """Of the epochs of runs that are being taken over, by run and fence."""

    async def go_on(self, run: LiveRun, mirror: RunLog | None, state: RunState | None) -> RunState | None:
        """Go on with a run that `Journal.adopt` gave; None if it goes on, else the state it ended in.

        mirror, state: what followers on this node have of it. Raises StorageError; then it can be tried again.
        """
        row = await self._reader.find(run.id) if run.stored else None
        if row is not None and row.terminal_event is not None and row.terminal_number is not None:
            await self._journal.conclude(run, row.terminal_event, row.terminal_number)
            self._admission.ended(row.tenant, run.id)
            return next_state(row.run_state, state, epoch=run.epochs.current, head=row.terminal_number)
        first, events = await self._events(run.id)
        kept = None
        if row is not None and first == 0:
            kept = await self._resumer.resumable(row, run, len(events))
        epochs = run.epochs
        if not self._strict and not (kept is not None and kept.clean):
            # Tried again after a failure it is the same epoch: clients may have been told.
            token = self._tokens.setdefault((run.id, run.fence), self._ids.token())
            epochs = epochs.forked(token, first + len(events))
        if row is not None and epochs is not run.epochs:
            await self._writer.submit(records.put_epochs(run.id, encode_epochs(epochs)))
        if mirror is not None:
            _catch_up(mirror, first, events, epochs)
        if state is not None and epochs is not run.epochs:
            state.epoch = epochs.current
            state.touch(self._clock.now())
            self.tell(state)  # before any event of the new epoch (PROTOCOL 6.4.6)
        goes_on = row is not None and kept is not None
        if row is not None and kept is not None:
            goes_on = await self._resume(row, run, kept, events, epochs, mirror, state)
        ended = None
        if not goes_on:
            ended = await self._end_lost(run, row, first, events, epochs, mirror, state)
        self._tokens.pop((run.id, run.fence), None)
        return ended

    async def give_up(self, run: LiveRun, mirror: RunLog | None, state: RunState | None) -> RunState:
        """End a run of which nothing can be read. Raises StorageError, RunLost."""
        row = await self._reader.find(run.id) if run.stored else None
        return await self._end_lost(run, row, run.head + 1, [], run.epochs, mirror, state)

    async def _resume(
        self,
        row: StoredResponse,
        run: LiveRun,
        kept: Kept,
        events: list[bytes],
        epochs: Epochs,
        mirror: RunLog | None,
        state: RunState | None,
    ) -> bool:
        try:
            await self._resumer.resume(row, run, kept, events, epochs, mirror, state)
        except StorageError:
            raise
        except (AntiphonError, ValueError, TypeError, KeyError) as error:
            log.warning("resume_failed", response_id=row.id, error=str(error))
            return False
        return True

    async def _end_lost(
        self,
        run: LiveRun,
        row: StoredResponse | None,
        first: int,
        events: list[bytes],
        epochs: Epochs,
        mirror: RunLog | None,
        state: RunState | None,
    ) -> RunState:
        opening = _opening(row) if first + len(events) == 0 else []
        number = first + len(events) + len(opening)
        now = self._clock.now()
        response = _failed_response(run.id, row, events, first)
        terminal = encode("response.failed", number, {"response": orjson.Fragment(response)})
        ended = next_state(run.state, state, epoch=epochs.current, head=number)
        ended.terminal = {"status": "failed", "code": "server_lost", "by": None}
        ended.expires_at = now + self._kept_s[run.stored]
        ended.pending_calls, ended.current_tool = [], None
        spent = await spent_of(self._usage, run.id)
        if spent.calls:
            ended.usage, ended.usage_estimated, ended.cost = spent.usage, spent.estimated, spent.cost
        ended.to("failed", now)
        run_log = self._journal.open(
            run.id,
            epochs,
            stored=run.stored,
            state=ended,
            head=number - 1 - len(opening),
            fence=run.fence,
            onto=mirror,
        )
        try:
            if opening:
                self._journal.append(run_log, opening, 0)
            if row is not None:
                ending = _ending(run, row, ended, now, response, terminal, number)
                await self._journal.end(run_log, ending, _WITHIN_S)
            else:
                await self._journal.end_unstored(run_log, terminal, _WITHIN_S)
        except BaseException:
            self._journal.close(run_log)
            raise
        run_log.end(terminal, durable=True)
        self._admission.ended(ended.tenant, run.id)
        log.warning("run_lost", response_id=run.id)
        return ended

    async def _events(self, run_id: str) -> tuple[int, list[bytes]]:
        """All of a log: number of the first event that is left, events."""
        start, events = await self._journal.events(run_id, -1, _PAGE_BYTES)
        while True:
            head = start + len(events) - 1
            first, page = await self._journal.events(run_id, head, _PAGE_BYTES)
            if not page:
                return start, events
            if first != head + 1:
                start, events = first, []
            events.extend(page)


def _catch_up(mirror: RunLog, first: int, events: list[bytes], epochs: Epochs) -> None:
    """Bring what followers here have to where the log ends, and into its new epoch."""
    end = first + len(events)
    if mirror.head < first - 1:
        mirror.skip(first)
    if mirror.head < end - 1:
        mirror.relay(events[mirror.head + 1 - first :], mirror.head + 1)
    mirror.fork(end, epochs)


def _opening(row: StoredResponse | None) -> list[bytes]:
    """What a log begins with that its owner had no time to write, so that it can be read like any other."""
    if row is None:
        return []
    return [encode("response.created", 0, {"response": orjson.Fragment(row.response)})]


def _ending(
    run: LiveRun,
    row: StoredResponse,
    state: RunState,
    now: float,
    response: bytes,
    terminal: bytes,
    number: int,
) -> Ending:
    return Ending(
        id=row.id,
        fence=run.fence,
        status="failed",
        ended_at=now,
        context_output=b"",
        open_calls=b"[]",
        response=response,
        run_state=orjson.dumps(state.row()),
        terminal_event=terminal,
        terminal_number=number,
        http_status=CODES["server_lost"].status,
    )


def _failed_response(run_id: str, row: StoredResponse | None, events: list[bytes], first: int) -> bytes:
    """The response as it ends; without a row it is what the log began with, if that is left."""
    whole = events if first == 0 else []
    if row is not None:
        response = orjson.loads(row.response)
    elif whole:
        response = orjson.loads(whole[0])["response"]
    else:
        response = {"id": run_id, "object": "response"}
    response["status"] = "failed"
    response["error"] = {"code": "server_lost", "message": _MESSAGE}
    response["output"] = project(whole)
    return orjson.dumps(response)


def encode_epochs(epochs: Epochs) -> str:
    """As the row keeps them."""
    return orjson.dumps(epochs.entries).decode()
