"""What is written about one run, and the statements that write it.

Each function returns work for `SqliteWriter`: it runs in the writer's thread and touches only its connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from antiphon.store import checkpoints, held_results

Chunk = tuple[str, int, int, bytes]
"""run id, number of the first event, of the last, events joined by line feeds."""


@dataclass(frozen=True, slots=True)
class NewResponse:
    """The row of a run that begins.

    item_ids: those that the client gave to items of its input. request: the create without its input, for whoever
    goes on with the run; None if nobody can. follows: its parent's terminal announced it.
    """

    id: str
    tenant: str
    creator: str
    visibility: str
    conversation_id: str
    previous_response_id: str | None
    status: str
    fence: int
    epochs: str
    created_at: float
    input: bytes
    context_input: bytes | None
    response: bytes
    run_state: bytes
    item_ids: Sequence[str] = ()
    request: bytes | None = None
    follows: bool = False


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    tenant: str
    principal: str
    key: str
    body_sha256: bytes
    response_id: str
    expires_at: float


@dataclass(frozen=True, slots=True)
class Ending:
    """The terminal of a run: what the guarded write puts into its row.

    compacted_context: see `Turn.compacted`. item_ids: of the output, ours and the upstream's (None if unknown).
    following: the create that follows by itself, kept until it has a row; None if none does, or none can be kept.
    """

    id: str
    fence: int
    status: str
    ended_at: float
    context_output: bytes
    open_calls: bytes
    response: bytes
    run_state: bytes
    terminal_event: bytes
    terminal_number: int
    http_status: int | None = None
    compacted_context: bytes | None = None
    item_ids: Sequence[tuple[str, str | None]] = ()
    following: bytes | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who decided the terminal. won: this write did. terminal_event: the bytes that count."""

    won: bool
    terminal_event: bytes | None
    terminal_number: int | None


_INSERT_RESPONSE = """
INSERT INTO responses (id, tenant, creator, visibility, conversation_id, previous_response_id, status, fence,
    epochs, created_at, input, context_input, response, run_state, request)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_KEY = """
INSERT OR REPLACE INTO idempotency (tenant, principal, key, body_sha256, response_id, expires_at)
VALUES (?, ?, ?, ?, ?, ?)
"""
_INSERT_CHUNK = "INSERT INTO journal (run_id, first, last, payload) VALUES (?, ?, ?, ?)"
_END = """
UPDATE responses SET status = ?, ended_at = ?, context_output = ?, open_calls = ?, response = ?, run_state = ?,
    terminal_event = ?, terminal_number = ?, http_status = ?, compacted_context = ?, request = NULL
WHERE id = ? AND fence = ? AND terminal_event IS NULL
"""
_INSERT_ITEM = "INSERT OR IGNORE INTO items (id, response_id, upstream_id) VALUES (?, ?, ?)"
_WINNER = "SELECT terminal_event, terminal_number FROM responses WHERE id = ?"


def begin(row: NewResponse, key: IdempotencyRecord | None) -> Callable[[sqlite3.Connection], None]:
    """Insert the row of a run and its idempotency record."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(
            _INSERT_RESPONSE,
            (
                row.id,
                row.tenant,
                row.creator,
                row.visibility,
                row.conversation_id,
                row.previous_response_id,
                row.status,
                row.fence,
                row.epochs,
                row.created_at,
                row.input,
                row.context_input,
                row.response,
                row.run_state,
                row.request,
            ),
        )
        connection.executemany(_INSERT_ITEM, [(item_id, row.id, None) for item_id in row.item_ids])
        if row.follows and row.previous_response_id is not None:
            checkpoints.forget(connection, row.previous_response_id)
        if key is not None:
            connection.execute(
                _INSERT_KEY,
                (key.tenant, key.principal, key.key, key.body_sha256, key.response_id, key.expires_at),
            )

    return work


def append_chunks(chunks: Sequence[Chunk]) -> Callable[[sqlite3.Connection], None]:
    """Append events of one or several runs. Numbers that exist already make it fail: (run, first) is unique."""

    def work(connection: sqlite3.Connection) -> None:
        connection.executemany(_INSERT_CHUNK, chunks)

    return work


def end(ending: Ending, chunks: Sequence[Chunk]) -> Callable[[sqlite3.Connection], Verdict]:
    """The guarded terminal write: row and last chunk in one transaction, or nothing where the run is decided."""

    def work(connection: sqlite3.Connection) -> Verdict:
        changed = connection.execute(
            _END,
            (
                ending.status,
                ending.ended_at,
                ending.context_output,
                ending.open_calls,
                ending.response,
                ending.run_state,
                ending.terminal_event,
                ending.terminal_number,
                ending.http_status,
                ending.compacted_context,
                ending.id,
                ending.fence,
            ),
        ).rowcount
        if changed == 0:
            row = connection.execute(_WINNER, (ending.id,)).fetchone()
            return Verdict(False, row[0] if row else None, row[1] if row else None)
        if ending.following is not None:
            checkpoints.keep(ending.id, ending.terminal_number, ending.following)(connection)
        else:
            checkpoints.forget(connection, ending.id)
        connection.executemany(_INSERT_ITEM, [(ours, ending.id, theirs) for ours, theirs in ending.item_ids])
        connection.executemany(_INSERT_CHUNK, chunks)
        return Verdict(True, ending.terminal_event, ending.terminal_number)

    return work


def take_over(run_id: str, epochs: str | None) -> Callable[[sqlite3.Connection], int]:
    """Raise the fence of a run, and write its epochs if they changed; gives the new fence."""

    def work(connection: sqlite3.Connection) -> int:
        connection.execute("UPDATE responses SET fence = fence + 1 WHERE id = ?", (run_id,))
        if epochs is not None:
            connection.execute("UPDATE responses SET epochs = ? WHERE id = ?", (epochs, run_id))
        row = connection.execute("SELECT fence FROM responses WHERE id = ?", (run_id,)).fetchone()
        return int(row[0])

    return work


def delete(run_id: str) -> Callable[[sqlite3.Connection], None]:
    """Forget what a response said; the empty row stays so that its id is never used again."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(
            "UPDATE responses SET deleted = 1, input = x'', context_input = NULL, context_output = NULL, "
            "compacted_context = NULL, open_calls = NULL, response = x'', run_state = x'', terminal_event = x'' "
            "WHERE id = ?",
            (run_id,),
        )
        connection.execute("DELETE FROM journal WHERE run_id = ?", (run_id,))
        connection.execute("DELETE FROM idempotency WHERE response_id = ?", (run_id,))
        checkpoints.forget(connection, run_id)
        held_results.forget(connection, [(run_id,)])

    return work


def expire(logs_ended_before: float, now: float, limit: int) -> Callable[[sqlite3.Connection], int]:
    """Delete logs of runs that ended before the time given, and old idempotency records; gives the runs done."""

    def work(connection: sqlite3.Connection) -> int:
        ids = connection.execute(
            "SELECT id FROM responses WHERE log_expired = 0 AND ended_at < ? LIMIT ?",
            (logs_ended_before, limit),
        ).fetchall()
        connection.executemany("DELETE FROM journal WHERE run_id = ?", ids)
        connection.executemany("UPDATE responses SET log_expired = 1 WHERE id = ?", ids)
        held_results.forget(connection, ids)
        connection.execute("DELETE FROM idempotency WHERE expires_at < ?", (now,))
        return len(ids)

    return work
