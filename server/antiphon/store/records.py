"""What is written about one run, and the statements that write it.

Each function returns work for a `Writer`: it runs in the writer's thread and touches only its connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.errors import StorageError
from antiphon.store import checkpoints, held_results
from antiphon.store.named_conversations import Appended, append_turn, claim
from antiphon.store.writing import StoreConnection, Work

Chunk = tuple[str, int, int, bytes]
"""run id, number of the first event, of the last, events joined by line feeds."""


@dataclass(frozen=True, slots=True)
class NewResponse:
    """The row of a run that begins.

    item_ids: those that the client gave to items of its input. request: the create without its input, for whoever
    goes on with the run; None if nobody can. follows: its parent's terminal announced it. writes: the conversation
    that is appended to when it ends, and the revision that was read; None if it writes none.
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
    writes: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """That a key has started a run. replaces: the response of an older record, whose log is gone."""

    tenant: str
    principal: str
    key: str
    body_sha256: bytes
    response_id: str
    expires_at: float
    replaces: str | None = None


class Refused(StorageError):
    """The store took this as a question and said no: it works, and trying again does not help."""


class RowTaken(Refused):
    """The id stands for another run, or for one that was deleted."""


class ConversationTaken(Refused):
    """Another response writes the conversation, or its items changed since they were read, or it is gone."""


class KeyTaken(Refused):
    """Another create with this idempotency key was first, perhaps on another node."""

    def __init__(self, response_id: str, body_sha256: bytes) -> None:
        super().__init__(f"This idempotency key has started {response_id}.")
        self.response_id = response_id
        self.body_sha256 = body_sha256


@dataclass(frozen=True, slots=True)
class Ending:
    """The terminal of a run: what the guarded write puts into its row.

    compacted_context: see `Turn.compacted`. item_ids: of the output, ours and the upstream's (None if unknown).
    following: the create that follows by itself, kept until it has a row; None if none does, or none can be kept.
    appended: what its conversation gets besides its input; None where it writes none.
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
    appended: Appended | None = None


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
ON CONFLICT (id) DO NOTHING
"""
_IS_THERE = "SELECT 1 FROM responses WHERE id = ? AND epochs = ? AND deleted = 0"
_INSERT_KEY = """
INSERT INTO idempotency (tenant, principal, key, body_sha256, response_id, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, principal, key) DO UPDATE SET body_sha256 = excluded.body_sha256,
    response_id = excluded.response_id, expires_at = excluded.expires_at
WHERE idempotency.expires_at <= ? OR idempotency.response_id IN (excluded.response_id, ?)
"""
_KEY_HOLDER = "SELECT response_id, body_sha256 FROM idempotency WHERE tenant = ? AND principal = ? AND key = ?"
_INSERT_CHUNK = "INSERT INTO journal (run_id, first, last, payload) VALUES (?, ?, ?, ?)"
_KEPT = "SELECT MAX(last) FROM journal WHERE run_id = ?"
_LOCK = "UPDATE responses SET fence = fence WHERE id = ?"
"""Whoever else moves this log waits until we are done."""
_END = """
UPDATE responses SET status = ?, ended_at = ?, context_output = ?, open_calls = ?, response = ?, run_state = ?,
    terminal_event = ?, terminal_number = ?, http_status = ?, compacted_context = ?, request = NULL
WHERE id = ? AND"""
_UNDECIDED = " fence = ? AND terminal_event IS NULL"
_WHATEVER_IS_THERE = " fence <= ? AND deleted = 0"
_INSERT_ITEM = """
INSERT INTO items (id, response_id, upstream_id) VALUES (?, ?, ?) ON CONFLICT (id, response_id) DO NOTHING
"""
_WINNER = "SELECT terminal_event, terminal_number FROM responses WHERE id = ?"


def begin(row: NewResponse, key: IdempotencyRecord | None) -> Work[None]:
    """Insert the row of a run and its idempotency record; again for the same run changes nothing.

    Raises RowTaken, KeyTaken, ConversationTaken; then nothing was written.
    """
    values = (
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
    )

    def work(connection: StoreConnection) -> None:
        if key is not None:
            _record(connection, key, row.created_at)
        if connection.execute(_INSERT_RESPONSE, values).rowcount == 0:
            # An earlier try of this was committed after all, or the id is somebody else's.
            if connection.execute(_IS_THERE, (row.id, row.epochs)).fetchone() is None:
                raise RowTaken(f"The id {row.id} stands for another run.")
        if row.writes is not None and not claim(connection, *row.writes, row.id):
            raise ConversationTaken(f"Another response writes {row.writes[0]}.")
        if row.item_ids:
            connection.executemany(_INSERT_ITEM, [(item_id, row.id, None) for item_id in row.item_ids])
        if row.follows and row.previous_response_id is not None:
            checkpoints.forget(connection, row.previous_response_id)

    return work


def _record(connection: StoreConnection, key: IdempotencyRecord, now: float) -> None:
    """Record a key. Raises KeyTaken if it belongs to another run; which of two is first, the database decides."""
    scope = (key.tenant, key.principal, key.key)
    record = (*scope, key.body_sha256, key.response_id, key.expires_at)
    if connection.execute(_INSERT_KEY, (*record, now, key.replaces or key.response_id)).rowcount == 0:
        raise KeyTaken(*connection.execute(_KEY_HOLDER, scope).fetchone())


def append_chunks(chunks: Sequence[Chunk]) -> Work[None]:
    """Append events of one or several runs. Numbers that exist already make it fail: (run, first) is unique."""

    def work(connection: StoreConnection) -> None:
        connection.executemany(_INSERT_CHUNK, chunks)

    return work


def keep_chunks(chunks: Sequence[Chunk]) -> Work[None]:
    """Keep events that are moved here from a live log, in order.

    What is kept already is left out, so that this may be repeated, and done by two nodes at once.
    """

    def work(connection: StoreConnection) -> None:
        kept: dict[str, int] = {}
        for run_id, first, last, payload in chunks:
            if run_id not in kept:
                connection.execute(_LOCK, (run_id,))
                newest = connection.execute(_KEPT, (run_id,)).fetchone()[0]
                kept[run_id] = -1 if newest is None else newest
            new = max(first, kept[run_id] + 1)
            if new <= last:
                kept[run_id] = last
                events = payload if new == first else payload.split(b"\n", new - first)[-1]
                connection.execute(_INSERT_CHUNK, (run_id, new, last, events))

    return work


def end(ending: Ending, chunks: Sequence[Chunk], *, checkpointed: bool = True) -> Work[Verdict]:
    """The guarded terminal write: row and last chunk in one transaction, or nothing where the run is decided.

    checkpointed: the store may have a checkpoint of the run, which is forgotten.
    """
    return _ended(ending, chunks, _END + _UNDECIDED, checkpointed)


def overrule(ending: Ending) -> Work[Verdict]:
    """Write the terminal that the log has shown, whatever the row says: what was shown wins.

    Not where the row's fence is higher or the response was deleted.
    """
    return _ended(ending, (), _END + _WHATEVER_IS_THERE, True)


def _ended(ending: Ending, chunks: Sequence[Chunk], statement: str, checkpointed: bool) -> Work[Verdict]:
    def work(connection: StoreConnection) -> Verdict:
        changed = connection.execute(
            statement,
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
        elif checkpointed:
            checkpoints.forget(connection, ending.id)
        if ending.appended is not None:
            append_turn(connection, ending.id, ending.appended)
        if ending.item_ids:
            connection.executemany(_INSERT_ITEM, [(ours, ending.id, theirs) for ours, theirs in ending.item_ids])
        if chunks:
            connection.executemany(_INSERT_CHUNK, chunks)
        return Verdict(True, ending.terminal_event, ending.terminal_number)

    return work


def take_over(run_id: str, epochs: str | None, fence: int | None = None) -> Work[int]:
    """Raise the fence of a run, and write its epochs if they changed; gives the fence of the row, 0 without a row.

    fence: what it becomes; where the row has a higher one, somebody else has the run and nothing is changed. None:
    one more than it is.
    """

    def work(connection: StoreConnection) -> int:
        if fence is None:
            connection.execute(_RAISE, (epochs, run_id))
        else:
            connection.execute(_RAISE_TO, (fence, epochs, run_id, fence))
        row = connection.execute("SELECT fence FROM responses WHERE id = ?", (run_id,)).fetchone()
        return 0 if row is None else int(row[0])

    return work


_RAISE = "UPDATE responses SET fence = fence + 1, epochs = COALESCE(?, epochs) WHERE id = ?"
_RAISE_TO = "UPDATE responses SET fence = ?, epochs = COALESCE(?, epochs) WHERE id = ? AND fence <= ?"
_FORGET = """
UPDATE responses SET deleted = 1, input = ?, context_input = NULL, context_output = NULL, compacted_context = NULL,
    open_calls = NULL, response = ?, run_state = ?, terminal_event = ? WHERE id = ?
"""


def put_epochs(run_id: str, epochs: str) -> Work[None]:
    """Write the epochs of a run that has not ended."""

    def work(connection: StoreConnection) -> None:
        connection.execute(
            "UPDATE responses SET epochs = ? WHERE id = ? AND terminal_event IS NULL", (epochs, run_id)
        )

    return work


def delete(run_id: str) -> Work[None]:
    """Forget what a response said; the empty row stays so that its id is never used again."""

    def work(connection: StoreConnection) -> None:
        connection.execute(_FORGET, (b"", b"", b"", b"", run_id))
        connection.execute("DELETE FROM journal WHERE run_id = ?", (run_id,))
        connection.execute("DELETE FROM idempotency WHERE response_id = ?", (run_id,))
        checkpoints.forget(connection, run_id)
        held_results.forget(connection, [(run_id,)])

    return work


_OLD_LOGS = "SELECT id FROM responses WHERE log_expired = 0 AND ended_at < ? ORDER BY ended_at, id LIMIT ?"


def expire(logs_ended_before: float, now: float, limit: int) -> Work[int]:
    """Delete logs of runs that ended before the time given, and old idempotency records; gives the runs done."""

    def work(connection: StoreConnection) -> int:
        ids = connection.execute(_OLD_LOGS, (logs_ended_before, limit)).fetchall()
        if ids:
            connection.executemany("UPDATE responses SET log_expired = 1 WHERE id = ?", ids)
            connection.executemany("DELETE FROM journal WHERE run_id = ?", ids)
            held_results.forget(connection, ids)
        connection.execute("DELETE FROM idempotency WHERE expires_at < ?", (now,))
        return len(ids)

    return work
