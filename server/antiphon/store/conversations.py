"""The runs of one conversation, as the store has them, page by page."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from antiphon.store.reading import BoundedReader
from antiphon.store.tables import responses

Place = tuple[float, str]
"""Where a run stands in its conversation: when it was created (Unix seconds), and its id."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """run_state: as it was last written, so of a run that has not ended as it began."""

    id: str
    run_state: bytes
    ended: bool


async def runs_of_conversation(
    reader: BoundedReader,
    conversation_id: str,
    *,
    tenant: str | None,
    creator: str | None,
    before: Place | None,
    limit: int,
) -> list[StoredRun]:
    """Newest first, `limit` at most, older than `before`. Raises StorageError.

    tenant: only this one's. creator: of private ones only this principal's. None: any.
    """
    columns = responses.c
    query = sa.select(columns.id, columns.run_state, columns.terminal_event.is_not(None)).where(
        columns.conversation_id == conversation_id, columns.deleted == 0
    )
    if tenant is not None:
        query = query.where(columns.tenant == tenant)
    if creator is not None:
        query = query.where((columns.visibility != "private") | (columns.creator == creator))
    if before is not None:
        at, run_id = before
        query = query.where((columns.created_at < at) | ((columns.created_at == at) & (columns.id < run_id)))
    rows = await reader.rows(query.order_by(columns.created_at.desc(), columns.id.desc()).limit(limit))
    return [StoredRun(run_id, run_state, bool(ended)) for run_id, run_state, ended in rows]
