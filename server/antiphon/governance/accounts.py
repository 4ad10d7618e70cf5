"""Everything that counts: admission, the meter, pause and stop, the audit log, put together for one process."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.bus.tasks import end_tasks
from antiphon.core.periods import DAY_S
from antiphon.errors import StorageError
from antiphon.governance.admission.admission import Admission
from antiphon.governance.admission.journal_bytes import JournalBytes
from antiphon.governance.admission.ledger import Ledger
from antiphon.governance.admission.limits import Limits
from antiphon.governance.admission.standing import Standing
from antiphon.governance.audit import Audit
from antiphon.governance.usage.meter import Meter
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.ports import Bus, Clock, Ids
from antiphon.settings import Settings
from antiphon.store import usage
from antiphon.store.reading import BoundedReader
from antiphon.store.usage_reports import UsageReader
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_FORGET_EVERY_S = 3_600.0
_ADMISSIONS_KEPT_DAYS = 62
"""Longer than any period in which runs are counted."""


class Accounts:
    """What the engine and the endpoints use. rows, ledger: where it is kept, on one machine or on several."""

    def __init__(
        self,
        *,
        settings: Settings,
        limits: Limits,
        ledger: Ledger,
        rows: WriteBehind,
        writer: Writer,
        reader: BoundedReader,
        bus: Bus,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._rows = rows
        self._writer = writer
        self._clock = clock
        self._forgetting: asyncio.Task[None] | None = None
        self.limits = limits
        self.audit = Audit(writer, clock, ids)
        self.standing = Standing(writer, bus, ledger, self.audit)
        self.admission = Admission(
            limits=limits,
            ledger=ledger,
            rows=rows,
            journal_bytes=JournalBytes(reader, clock),
            clock=clock,
            policies=[self.standing.ballot],
        )
        self.meter = Meter(
            limits=limits,
            prices={price.model: price.price() for price in settings.price},
            ledger=ledger,
            rows=rows,
            standing=self.standing,
            admission=self.admission,
            clock=clock,
        )
        ledger.on_alert = self.meter.alert
        self.usage = UsageReader(reader)

    async def start(self) -> None:
        """Begin to count; the store and the bus are open. Raises StorageError."""
        self._ledger.start()
        await self.standing.start()
        self._forgetting = asyncio.create_task(self._forget_forever(), name="old usage")

    async def flush(self) -> None:
        """Until the rows of everything that happened so far are written."""
        await self._rows.flush()

    async def aclose(self) -> None:
        """Write what is left; no run is left by now. Never raises."""
        await end_tasks([self._forgetting])
        await self.standing.aclose()
        await self._ledger.aclose()
        await self._rows.aclose()

    async def forget(self) -> None:
        """Delete rows that are too old to be counted or reported. Raises StorageError."""
        now = self._clock.now()
        calls_before = now - self._settings.usage.keep_days * DAY_S
        await self._writer.submit(usage.forget(now - _ADMISSIONS_KEPT_DAYS * DAY_S, calls_before))

    async def _forget_forever(self) -> None:
        while True:
            await asyncio.sleep(_FORGET_EVERY_S)
            try:
                await self.forget()
            except StorageError as error:
                log.warning("old_usage_not_deleted", error=str(error.__cause__ or error))
