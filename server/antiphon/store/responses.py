"""Reading what is kept about runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa

from antiphon.core.cursor import Epochs
from antiphon.core.held_calls import Claim, Resolution
from antiphon.core.history import OpenCall, Turn
from antiphon.store.held_results import resolution
from antiphon.store.reading import BoundedReader
from antiphon.store.repair import repaired
from antiphon.store.tables import checkpoints, held_claims, held_results, idempotency, items, journal, responses


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One row. response and run_state are encoded; terminal_event is None while the run goes on.

    log_expired: its events are gone for good.
    """

    id: str
    tenant: str
    creator: str
    visibility: str
    conversation_id: str
    previous_response_id: str | None
    status: str
    fence: int
    epochs: Epochs
    input: bytes
    response: bytes
    run_state: bytes
    terminal_event: bytes | None
    terminal_number: int | None
    http_status: int | None
    log_expired: bool = False


@dataclass(frozen=True, slots=True)
class ItemHome:
    """Where an item stands, and who may see it there. upstream_id: what the upstream called it."""

    item_id: str
    response_id: str
    upstream_id: str | None
    creator: str
    visibility: str


@dataclass(frozen=True, slots=True)
class Resumable:
    """What an unfinished run can be gone on with.

    request: the create without its input. context_input: its input as the model reads it. head: where the log
    stood at the checkpoint, which is None if none was written.
    """

    request: bytes
    context_input: bytes
    head: int | None
    checkpoint: bytes | None


@dataclass(frozen=True, slots=True)
class Following:
    """A successor that was announced and has no row. payload: see runs/steering/following.py."""

    target: str
    creator: str
    tenant: str
    payload: bytes


_ROW = (
    responses.c.id,
    responses.c.tenant,
    responses.c.creator,
    responses.c.visibility,
    responses.c.conversation_id,
    responses.c.previous_response_id,
    responses.c.status,
    responses.c.fence,
    responses.c.epochs,
    responses.c.input,
    responses.c.response,
    responses.c.run_state,
    responses.c.terminal_event,
    responses.c.terminal_number,
    responses.c.http_status,
    responses.c.log_expired,
)
_LIVE = responses.c.deleted == 0
_ROWS_AT_ONCE = 32
"""Chunks fetched from the database in one step while reading a log."""

_IDS_AT_ONCE = 500
"""Below what one statement may name."""

_MAX_CHAIN = 10_000
"""Turns read for one chain; a bound for a broken database, not a limit anybody meets."""


class ResponseReader(BoundedReader):
    """Queries. Every method raises StorageError if the database does not answer."""

    async def find(self, response_id: str) -> StoredResponse | None:
        rows = await self._all(sa.select(*_ROW).where(responses.c.id == response_id, _LIVE))
        return _stored(rows[0]) if rows else None

    async def newest_ended(self, conversation_id: str, tenant: str | None, creator: str | None) -> bytes | None:
        """The RunState of the newest ended response of a conversation.

        tenant: only this one's. creator: of private ones only this principal's. None: any.
        """
        query = sa.select(responses.c.run_state).where(
            responses.c.conversation_id == conversation_id, responses.c.terminal_event.is_not(None), _LIVE
        )
        if tenant is not None:
            query = query.where(responses.c.tenant == tenant)
        if creator is not None:
            query = query.where((responses.c.visibility != "private") | (responses.c.creator == creator))
        rows = await self._all(query.order_by(responses.c.created_at.desc()).limit(1))
        return rows[0][0] if rows else None

    async def unfinished(self) -> list[StoredResponse]:
        """Runs without a terminal: after a start, those that the last process left behind."""
        rows = await self._all(sa.select(*_ROW).where(responses.c.terminal_event.is_(None)))
        return [_stored(row) for row in rows]

    async def unfinished_ids(self, created_before: float) -> list[str]:
        """Runs without a terminal that began before this time."""
        query = sa.select(responses.c.id).where(
            responses.c.terminal_event.is_(None), responses.c.created_at < created_before
        )
        return [row[0] for row in await self._all(query)]

    async def unfinished_of_conversation(self, conversation_id: str) -> list[str]:
        """Runs of a conversation without a terminal, oldest first."""
        query = (
            sa.select(responses.c.id)
            .where(responses.c.conversation_id == conversation_id, responses.c.terminal_event.is_(None), _LIVE)
            .order_by(responses.c.created_at)
        )
        return [row[0] for row in await self._all(query)]

    async def resumable(self, run_id: str) -> Resumable | None:
        """What an unfinished run can be gone on with, None if nobody can."""
        query = (
            sa.select(
                responses.c.request,
                sa.func.coalesce(responses.c.context_input, responses.c.input),
                checkpoints.c.head,
                checkpoints.c.payload,
            )
            .outerjoin_from(responses, checkpoints, checkpoints.c.run_id == responses.c.id)
            .where(responses.c.id == run_id, responses.c.request.is_not(None))
        )
        rows = await self._all(query)
        return Resumable(*rows[0]) if rows else None

    async def following(self, ended_before: float | None = None) -> list[Following]:
        """Successors that were announced and were not begun. ended_before: of runs that ended before this time."""
        query = (
            sa.select(responses.c.id, responses.c.creator, responses.c.tenant, checkpoints.c.payload)
            .join(checkpoints, checkpoints.c.run_id == responses.c.id)
            .where(responses.c.terminal_event.is_not(None), _LIVE)
        )
        if ended_before is not None:
            query = query.where(responses.c.ended_at < ended_before)
        return [Following(*row) for row in await self._all(query)]

    async def terminal_without_event(self) -> list[StoredResponse]:
        """Decided runs whose log lacks the terminal event."""
        in_log = sa.exists().where(
            journal.c.run_id == responses.c.id, journal.c.last == responses.c.terminal_number
        )
        any_log = sa.exists().where(journal.c.run_id == responses.c.id)
        rows = await self._all(
            sa.select(*_ROW).where(responses.c.terminal_number.is_not(None), _LIVE, any_log, ~in_log)
        )
        return [_stored(row) for row in rows]

    async def chain(self, response_id: str, tenant: str) -> list[dict[str, Any]]:
        """The rows of a chain, newest first; empty if the newest is not this tenant's.

        What a compaction has replaced is left out: nobody reads it any more.
        """
        newest = (
            sa.select(responses.c.id, responses.c.previous_response_id, sa.literal(0).label("depth"))
            .where(responses.c.id == response_id, responses.c.tenant == tenant)
            .cte("chain", recursive=True)
        )
        older = (
            sa.select(responses.c.id, responses.c.previous_response_id, newest.c.depth + 1)
            .join(newest, responses.c.id == newest.c.previous_response_id)
            .where(newest.c.depth < _MAX_CHAIN)
        )
        chain = newest.union_all(older)
        compaction = (
            sa.select(sa.func.coalesce(sa.func.min(chain.c.depth), _MAX_CHAIN + 1))
            .join(responses, chain.c.id == responses.c.id)
            .where(responses.c.compacted_context.is_not(None))
            .scalar_subquery()
        )
        given = sa.func.coalesce(responses.c.context_input, responses.c.input)
        query = (
            sa.select(
                responses.c.id,
                responses.c.tenant,
                responses.c.creator,
                responses.c.visibility,
                responses.c.conversation_id,
                responses.c.previous_response_id,
                responses.c.status,
                responses.c.deleted,
                sa.case((chain.c.depth < compaction, given), else_=b"").label("context_input"),
                sa.case((chain.c.depth <= compaction, responses.c.context_output)).label("context_output"),
                sa.case((chain.c.depth <= compaction, responses.c.compacted_context)).label("compacted_context"),
                responses.c.open_calls,
            )
            .join(chain, chain.c.id == responses.c.id)
            .order_by(chain.c.depth)
        )
        return [dict(row._mapping) for row in await self._all(query)]

    async def events(self, run_id: str, after: int, max_bytes: int) -> tuple[int, list[bytes]]:
        """Events from the log: (number of the first, events), about `max_bytes` of them. ([], if none.)"""
        # Chunks are found by their first number: the newest one that begins at or before the number wanted.
        begin = sa.select(sa.func.max(journal.c.first)).where(
            journal.c.run_id == run_id, journal.c.first <= after + 1
        )
        query = (
            sa.select(journal.c.first, journal.c.payload)
            .where(journal.c.run_id == run_id, journal.c.first >= sa.func.coalesce(begin.scalar_subquery(), 0))
            .order_by(journal.c.first)
            .limit(_ROWS_AT_ONCE)
        )
        events: list[bytes] = []
        start = after + 1
        size = 0
        while True:
            rows = await self._all(query)
            for first, payload in rows:
                chunk = repaired(payload).split(b"\n")
                new = chunk[max(0, after + 1 - first) :]
                if events and first != start + len(events):
                    return start, events
                if not events and new:
                    start = max(first, after + 1)
                events.extend(new)
                size += len(payload)
                if size >= max_bytes:
                    return start, events
            if len(rows) < _ROWS_AT_ONCE:
                return start, events
            query = (
                sa.select(journal.c.first, journal.c.payload)
                .where(journal.c.run_id == run_id, journal.c.first > rows[-1][0])
                .order_by(journal.c.first)
                .limit(_ROWS_AT_ONCE)
            )

    async def fences(self, run_ids: Sequence[str]) -> dict[str, int]:
        """The fences of those responses that have a row."""
        found: dict[str, int] = {}
        for start in range(0, len(run_ids), _IDS_AT_ONCE):
            some = responses.c.id.in_(run_ids[start : start + _IDS_AT_ONCE])
            found |= {
                row[0]: row[1] for row in await self._all(sa.select(responses.c.id, responses.c.fence).where(some))
            }
        return found

    async def head(self, run_id: str) -> int:
        """The last durable number, -1 if there is none."""
        rows = await self._all(sa.select(sa.func.max(journal.c.last)).where(journal.c.run_id == run_id))
        return -1 if rows[0][0] is None else int(rows[0][0])

    async def first(self, run_id: str) -> int | None:
        """The lowest number kept, None if the log is gone."""
        rows = await self._all(sa.select(sa.func.min(journal.c.first)).where(journal.c.run_id == run_id))
        return None if rows[0][0] is None else int(rows[0][0])

    async def item_homes(self, ids: Sequence[str], tenant: str) -> list[ItemHome]:
        """The responses of a tenant that have items under these ids, newest first."""
        found: list[ItemHome] = []
        for start in range(0, len(ids), _IDS_AT_ONCE):
            query = (
                sa.select(
                    items.c.id,
                    items.c.response_id,
                    items.c.upstream_id,
                    responses.c.creator,
                    responses.c.visibility,
                )
                .join(responses, responses.c.id == items.c.response_id)
                .where(items.c.id.in_(ids[start : start + _IDS_AT_ONCE]), responses.c.tenant == tenant, _LIVE)
                .order_by(responses.c.created_at.desc(), responses.c.id.desc())
            )
            found += [ItemHome(*row) for row in await self._all(query)]
        return found

    async def idempotent(self, tenant: str, principal: str, key: str, now: float) -> tuple[bytes, str] | None:
        """(body_sha256, response id) of a recorded create."""
        rows: Sequence[Any] = await self._all(
            sa.select(idempotency.c.body_sha256, idempotency.c.response_id).where(
                idempotency.c.tenant == tenant,
                idempotency.c.principal == principal,
                idempotency.c.key == key,
                idempotency.c.expires_at > now,
            )
        )
        return (rows[0][0], rows[0][1]) if rows else None

    async def held_results(self, run_id: str) -> list[Resolution]:
        """Every answer of a held call of this run, oldest first."""
        columns = held_results.c
        query = (
            sa.select(
                columns.call_id,
                columns.item,
                columns.principal,
                columns.sender,
                columns.result_id,
                columns.answered_at,
            )
            .where(columns.run_id == run_id)
            .order_by(columns.answered_at, columns.call_id)
        )
        return [resolution(*row) for row in await self._all(query)]

    async def held_claims(self, run_id: str) -> dict[str, Claim]:
        """The newest claim of each held call of this run that ever had one; without a holder it was released."""
        columns = held_claims.c
        query = sa.select(
            columns.call_id, columns.principal, columns.holder, columns.fence, columns.expires_at
        ).where(columns.run_id == run_id)
        rows = await self._all(query)
        return {call_id: Claim(by or "", key or "", fence, at) for call_id, by, key, fence, at in rows}

    async def ping(self) -> None:
        """Whether the database answers."""
        await self._all(sa.select(sa.literal(1)))


def turn_of_chain(rows: list[dict[str, Any]]) -> Turn | None:
    """Build the chain that `ResponseReader.chain` gave; None if a part of it is gone."""
    turn: Turn | None = None
    expected: str | None = None
    for row in reversed(rows):
        if row["deleted"] or row["previous_response_id"] != expected:
            return None
        expected = row["id"]
        turn = Turn(
            response_id=row["id"],
            tenant=row["tenant"],
            creator=row["creator"],
            visibility=row["visibility"],
            conversation_id=row["conversation_id"],
            stored=True,
            status=row["status"],
            parent=turn,
            input=row["context_input"],
            output=row["context_output"] or b"",
            open_calls=tuple(OpenCall(**call) for call in orjson.loads(row["open_calls"] or b"[]")),
            compacted=row["compacted_context"],
        )
    return turn


def _stored(row: sa.Row[Any]) -> StoredResponse:
    fields = dict(row._mapping)
    fields["epochs"] = Epochs.parse(orjson.loads(fields["epochs"]))
    fields["log_expired"] = bool(fields["log_expired"])
    return StoredResponse(**fields)
