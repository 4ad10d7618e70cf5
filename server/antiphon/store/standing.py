"""Who may not start runs at present: paused tenants, and a server that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.store.writing import StoreConnection, Work

EVERYBODY = "*"
"""The scope of an emergency stop. No tenant has this id."""


@dataclass(frozen=True, slots=True)
class ScopeStanding:
    """How a scope stands. revision: of the last change, higher than all before it in the whole database.

    held: nothing new is started. cancel: what was running at the change is cancelled as well.
    """

    scope: str
    revision: int
    held: bool
    cancel: bool


_NEXT = "SELECT COALESCE(MAX(revision), 0) + 1 FROM standing"
_SET = """
INSERT INTO standing (scope, revision, held, cancel) VALUES (?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET revision = excluded.revision, held = excluded.held, cancel = excluded.cancel
"""
_LOCK = "UPDATE cluster SET value = value WHERE name = 'database_id'"
"""Two nodes that change something at once do it one after the other, so that each gets a revision of its own."""
_READ = "SELECT scope, revision, held, cancel FROM standing WHERE revision > ? ORDER BY revision"


def change(scope: str, *, held: bool, cancel: bool = False) -> Work[ScopeStanding]:
    """Hold a scope or let it go; gives how it stands now."""

    def work(connection: StoreConnection) -> ScopeStanding:
        connection.execute(_LOCK)
        revision = int(connection.execute(_NEXT).fetchone()[0])
        connection.execute(_SET, (scope, revision, int(held), int(cancel)))
        return ScopeStanding(scope, revision, held, cancel)

    return work


def changed_since(revision: int) -> Work[Sequence[ScopeStanding]]:
    """What was changed after a revision, the oldest first."""

    def work(connection: StoreConnection) -> list[ScopeStanding]:
        rows = connection.execute(_READ, (revision,)).fetchall()
        return [
            ScopeStanding(scope, int(number), bool(held), bool(cancel)) for scope, number, held, cancel in rows
        ]

    return work
