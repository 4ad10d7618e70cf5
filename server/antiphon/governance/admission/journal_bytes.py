"""How much of the store the logs of a tenant take.

Approximate: looked at every half minute, and only at the store; live logs of several nodes are in Redis.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import sqlalchemy as sa

from antiphon.core.quotas import Check
from antiphon.errors import StorageError
from antiphon.ports import Clock
from antiphon.store.reading import BoundedReader
from antiphon.store.tables import journal, responses

LOOK_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class _Look:
    """begun_at: monotonic seconds."""

    finding: asyncio.Task[int]
    begun_at: float


class JournalBytes:
    """Asked only for tenants that have a limit. One look at a time for each, and the last one is not remembered
    for longer than it counts."""

    def __init__(self, reader: BoundedReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._looks: OrderedDict[str, _Look] = OrderedDict()
        """The newest last."""

    async def check(self, tenant: str, limit: int) -> None:
        """Raises RequestError `quota_exceeded` at the limit, StorageError."""
        look = self._fresh(tenant)
        try:
            used = await asyncio.shield(look.finding)
        except StorageError:
            if self._looks.get(tenant) is look:
                del self._looks[tenant]  # the next one tries again
            raise
        if used >= limit:
            check = Check("", limit, "quota_exceeded", "Journal quota exceeded", "day")
            raise check.refusal(self._clock.now())

    def _fresh(self, tenant: str) -> _Look:
        now = self._clock.monotonic()
        while self._looks and now - next(iter(self._looks.values())).begun_at >= LOOK_EVERY_S:
            self._looks.popitem(last=False)
        look = self._looks.get(tenant)
        if look is None:
            finding = asyncio.get_running_loop().create_task(self._find(tenant), name=f"journal bytes of {tenant}")
            look = self._looks[tenant] = _Look(finding, now)
        return look

    async def _find(self, tenant: str) -> int:
        query = (
            sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(journal.c.payload)), 0))
            .select_from(journal.join(responses, responses.c.id == journal.c.run_id))
            .where(responses.c.tenant == tenant, responses.c.log_expired == 0)
        )
        return int((await self._reader.rows(query))[0][0])
