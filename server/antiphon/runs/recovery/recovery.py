"""After a start: what the last process left behind is gone on with or ended truthfully (DESIGN "A node dies").

Nobody runs those runs any more. Each gets a higher fence; in relaxed mode a new epoch, because events may have
been shown that never became durable; then it goes on where that loses nothing, or ends with `response.failed` and
code `server_lost`.
"""

from __future__ import annotations

from typing import Any

import orjson
import structlog

from antiphon.core.assembly.wire import encode
from antiphon.core.cursor import Epochs
from antiphon.core.projection import project
from antiphon.errors import AntiphonError, StorageError
from antiphon.ports import Clock, Ids
from antiphon.runs.recovery.resuming import REVISIONS, Resumer
from antiphon.runs.steering.following import Successors
from antiphon.settings import JournalSettings
from antiphon.store import records
from antiphon.store.records import Ending
from antiphon.store.responses import ResponseReader, StoredResponse
from antiphon.store.writer import SqliteWriter
from antiphon_protocol.codes import CODES

log = structlog.get_logger(__name__)

_PAGE_BYTES = 1024 * 1024
_MESSAGE = "The server that owned the run went away before it ended."


class Recovery:
    """Takes over the runs of a dead process."""

    def __init__(
        self,
        reader: ResponseReader,
        writer: SqliteWriter,
        resumer: Resumer,
        successors: Successors,
        settings: JournalSettings,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._resumer = resumer
        self._successors = successors
        self._reader = reader
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._ids = ids

    async def recover(self) -> int:
        """Go on with every run left behind, or end it; gives how many are lost. Raises StorageError.

        Successors that were announced and never begun begin now.
        """
        for row in await self._reader.terminal_without_event():
            await self._append_decided(row)
        lost = 0
        for row in await self._reader.unfinished():
            try:
                lost += not await self._take_over(row)
            except StorageError:
                raise
            except Exception:  # a row nobody can read must not keep the server from starting
                log.exception("recovery_failed", response_id=row.id)
                lost += 1
        if lost:
            log.warning("runs_lost", count=lost)
        await self._successors.begin_again()
        return lost

    async def _append_decided(self, row: StoredResponse) -> None:
        """The terminal was decided but its event is missing in the log: the stored bytes are appended."""
        if row.terminal_number is None or row.terminal_event is None:
            return
        chunk = (row.id, row.terminal_number, row.terminal_number, row.terminal_event)
        await self._writer.submit(records.append_chunks([chunk]))

    async def _take_over(self, row: StoredResponse) -> bool:
        """Whether the run goes on."""
        events = await self._events(row.id)
        kept = await self._resumer.resumable(row, len(events))
        epochs = row.epochs
        if self._settings.mode == "relaxed" and not (kept is not None and kept.clean):
            epochs = epochs.forked(self._ids.token(), len(events))
        encoded = _encode_epochs(epochs) if epochs is not row.epochs else None
        fence = await self._writer.submit(records.take_over(row.id, encoded))
        if kept is not None:
            try:
                await self._resumer.resume(row, kept, events, epochs, fence)
                return True
            except (AntiphonError, ValueError, TypeError, KeyError) as error:
                log.warning("resume_failed", response_id=row.id, error=str(error))
        await self._end_lost(row, events, epochs, fence)
        return False

    async def _end_lost(self, row: StoredResponse, events: list[bytes], epochs: Epochs, fence: int) -> None:
        number = len(events)
        now = self._clock.now()
        response = self._failed_response(row, events)
        state = orjson.loads(row.run_state) | {
            "state": "failed",
            "epoch": epochs.current,
            "head": number,
            "updated_at": now,
            "expires_at": now + self._settings.retention_s,
            "terminal": {"status": "failed", "code": "server_lost", "by": None},
        }
        state["revision"] += REVISIONS
        terminal = encode("response.failed", number, {"response": orjson.Fragment(response)})
        ending = Ending(
            id=row.id,
            fence=fence,
            status="failed",
            ended_at=now,
            context_output=b"",
            open_calls=b"[]",
            response=response,
            run_state=orjson.dumps(state),
            terminal_event=terminal,
            terminal_number=number,
            http_status=CODES["server_lost"].status,
        )
        await self._writer.submit(records.end(ending, [(row.id, number, number, terminal)]))

    async def _events(self, run_id: str) -> list[bytes]:
        events: list[bytes] = []
        while True:
            _, page = await self._reader.events(run_id, len(events) - 1, _PAGE_BYTES)
            if not page:
                return events
            events.extend(page)

    def _failed_response(self, row: StoredResponse, events: list[bytes]) -> bytes:
        response: dict[str, Any] = orjson.loads(row.response)
        response["status"] = "failed"
        response["error"] = {"code": "server_lost", "message": _MESSAGE}
        response["output"] = project(events)
        return orjson.dumps(response)


def _encode_epochs(epochs: Epochs) -> str:
    return orjson.dumps(epochs.entries).decode()
