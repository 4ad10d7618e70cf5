"""How much of the store the logs of a tenant take.

Approximate: looked at every half minute, and only at the store; live logs of several nodes are in Redis.
"""

from __future__ import annotations

import sqlalchemy as sa

from antiphon.core.quotas import Check
from antiphon.ports import Clock
from antiphon.store.reading import BoundedReader
from antiphon.store.tables import journal, responses

LOOK_EVERY_S = 30.0


class JournalBytes:
    """Asked only for tenants that have a limit."""

    def __init__(self, reader: BoundedReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    async def check(self, tenant: str, limit: int) -> None:
        """Raises RequestError `quota_exceeded` at the limit, StorageError."""
        now = self._clock.monotonic()
        used, seen_at = self._seen.get(tenant, (0, -LOOK_EVERY_S))
        if now - seen_at >= LOOK_EVERY_S:
            used = await self._look(tenant)
            self._seen[tenant] = (used, now)
        if used >= limit:
            check = Check("", limit, "quota_exceeded", "Journal quota exceeded", "day")
            raise check.refusal(self._clock.now())

    async def _look(self, tenant: str) -> int:
        query = (
            sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(journal.c.payload)), 0))
            .select_from(journal.join(responses, responses.c.id == journal.c.run_id))
            .where(responses.c.tenant == tenant, responses.c.log_expired == 0)
        )
        return int((await self._reader.rows(query))[0][0])
