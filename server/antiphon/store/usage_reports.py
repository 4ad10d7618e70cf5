"""Reading what was used, and what was done: sums of calls of models, the calls of a run, the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
import sqlalchemy as sa

from antiphon.store.audit import AuditEntry
from antiphon.store.reading import BoundedReader
from antiphon.store.tables import audit, model_calls
from antiphon.store.usage import CallRow

Grouping = Literal["tenant", "agent", "model", "day"]
GROUPINGS: tuple[Grouping, ...] = ("tenant", "agent", "model", "day")


@dataclass(frozen=True, slots=True)
class UsageSum:
    """What one tenant, agent, model or day used. key: of the group; None: the built-in agent.

    cost_nano: of the calls whose cost is known. unpriced_calls: the others. estimated_calls: whose tokens are
    estimates.
    """

    key: str | int | None
    runs: int
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    total_tokens: int
    cost_nano: int
    unpriced_calls: int
    estimated_calls: int


_MOST_GROUPS = 10_000


class UsageReader:
    """Days are counted since 1 January 1970, UTC."""

    def __init__(self, reader: BoundedReader) -> None:
        self._reader = reader

    async def sums(self, by: Grouping, *, tenant: str | None, first_day: int, last_day: int) -> Sequence[UsageSum]:
        """Sums of the days from first to last, both included. tenant: of one only. Raises StorageError."""
        calls = model_calls.c
        key = calls[by]
        tokens = (
            calls.input_tokens,
            calls.cached_tokens,
            calls.output_tokens,
            calls.reasoning_tokens,
            calls.total_tokens,
        )
        query = (
            sa.select(
                key,
                sa.func.count(sa.distinct(calls.run_id)),
                sa.func.count(),
                *(_sum(column) for column in tokens),
                _sum(calls.cost_nano),
                sa.func.count() - sa.func.count(calls.cost_nano),
                _sum(calls.estimated),
            )
            .where(calls.day >= first_day, calls.day <= last_day)
            .group_by(key)
            .order_by(key)
            .limit(_MOST_GROUPS)
        )
        if tenant is not None:
            query = query.where(calls.tenant == tenant)
        return [UsageSum(row[0], *(int(value) for value in row[1:])) for row in await self._reader.rows(query)]

    async def calls_of(self, run_id: str) -> list[CallRow]:
        """The calls of one run, in their order. Raises StorageError."""
        query = sa.select(model_calls).where(model_calls.c.run_id == run_id).order_by(model_calls.c.at)
        rows = await self._reader.rows(query)
        return [CallRow(**{**row._mapping, "estimated": bool(row.estimated)}) for row in rows]

    async def audit(self, *, before: float | None, limit: int) -> list[AuditEntry]:
        """The newest entries of the audit log first. before: Unix seconds. Raises StorageError."""
        query = sa.select(audit).order_by(audit.c.at.desc(), audit.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.at < before)
        return [_entry(row) for row in await self._reader.rows(query)]


def _sum(column: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    return sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)


def _entry(row: Any) -> AuditEntry:
    return AuditEntry(row.id, row.at, row.tenant, row.principal, row.action, row.target, orjson.loads(row.detail))
