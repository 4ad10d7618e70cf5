"""Answers and claims of held calls: written before the client is told, read for who comes late or again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from antiphon.core.held_calls import Claim, Resolution
from antiphon.store.writing import StoreConnection, Work


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a list of answers. over: the run has its terminal. lost: another node has taken it. others:
    answers that were there before."""

    over: bool = False
    lost: bool = False
    others: tuple[Resolution, ...] = ()

    @property
    def won(self) -> bool:
        return not self.over and not self.lost and not self.others


_ENDED = "SELECT 1 FROM responses WHERE id = ? AND terminal_event IS NOT NULL"
_OURS = "UPDATE responses SET fence = fence WHERE id = ? AND fence <= ?"
"""Locks the row, so that whoever takes the run over reads the answers after this, or this sees its fence."""
_KNOWN = """
SELECT call_id, item, principal, sender, result_id, answered_at FROM held_results WHERE run_id = ? AND call_id = ?
"""
_INSERT = """
INSERT INTO held_results (run_id, call_id, item, principal, sender, result_id, answered_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""


def insert(run_id: str, answers: Sequence[Resolution], fence: int) -> Work[Committed]:
    """Write all of these answers, or none if one of the calls has another one, the run has ended, or a node with a
    higher fence has taken it: that one has read the answers already."""

    def work(connection: StoreConnection) -> Committed:
        if connection.execute(_ENDED, (run_id,)).fetchone() is not None:
            return Committed(over=True)
        if connection.execute(_OURS, (run_id, fence)).rowcount == 0:
            return Committed(lost=True)
        rows = [connection.execute(_KNOWN, (run_id, answer.call_id)).fetchone() for answer in answers]
        known = [resolution(*row) for row in rows if row is not None]
        others = tuple(there for there in known if there not in answers)
        if not others:
            connection.executemany(
                _INSERT,
                [
                    (run_id, a.call_id, orjson.dumps(a.item), a.by, a.sender, a.result_id, a.at)
                    for a in answers
                    if a not in known  # there already: an earlier try of this was committed after all
                ],
            )
        return Committed(others=others)

    return work


_CLAIM = """
INSERT INTO held_claims (run_id, call_id, principal, holder, fence, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, call_id) DO UPDATE SET principal = excluded.principal, holder = excluded.holder,
    fence = excluded.fence, expires_at = excluded.expires_at
"""


def keep_claim(run_id: str, call_id: str, claim: Claim) -> Work[None]:
    """Write the newest claim of a call, in the place of the one before."""

    def work(connection: StoreConnection) -> None:
        holder = (claim.principal or None, claim.key or None)
        connection.execute(_CLAIM, (run_id, call_id, *holder, claim.fence, claim.expires_at))

    return work


def forget(connection: StoreConnection, run_ids: Sequence[tuple[str]]) -> None:
    """Delete the answers and claims of these runs."""
    connection.executemany("DELETE FROM held_claims WHERE run_id = ?", run_ids)
    connection.executemany("DELETE FROM held_results WHERE run_id = ?", run_ids)


def resolution(
    call_id: str, item: bytes, principal: str, sender: str, result_id: str | None, answered_at: float
) -> Resolution:
    """A row as the answer it is."""
    return Resolution(call_id, orjson.loads(item), principal, sender, result_id, answered_at)
