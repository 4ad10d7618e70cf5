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

    held: nothing new is started. cancel: what was running at the change is cancelled as well. by_admin: an admin
    did it, of whatever tenant.
    """

    scope: str
    revision: int
    held: bool
    cancel: bool
    by_admin: bool = False


_NEXT = "SELECT COALESCE(MAX(revision), 0) + 1 FROM standing"
_SET = """
INSERT INTO standing (scope, revision, held, cancel, by_admin) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET revision = excluded.revision, held = excluded.held, cancel = excluded.cancel,
    by_admin = excluded.by_admin
"""
_LOCK = "UPDATE cluster SET value = value WHERE name = 'database_id'"
"""Two nodes that change something at once do it one after the other, so that each gets a revision of its own."""
_READ = "SELECT scope, revision, held, cancel, by_admin FROM standing WHERE revision > ? ORDER BY revision"


def change(scope: str, *, held: bool, cancel: bool = False, by_admin: bool = False) -> Work[ScopeStanding]:
    """Hold a scope or let it go; gives how it stands now."""

    def work(connection: StoreConnection) -> ScopeStanding:
        connection.execute(_LOCK)
        revision = int(connection.execute(_NEXT).fetchone()[0])
        connection.execute(_SET, (scope, revision, int(held), int(cancel), int(by_admin)))
        return ScopeStanding(scope, revision, held, cancel, by_admin)

    return work


def changed_since(last: int) -> Work[Sequence[ScopeStanding]]:
    """What was changed after the revision `last`, the oldest first."""

    def work(connection: StoreConnection) -> list[ScopeStanding]:
        rows = connection.execute(_READ, (last,)).fetchall()
        return [
            ScopeStanding(scope, int(revision), bool(held), bool(cancel), bool(by_admin))
            for scope, revision, held, cancel, by_admin in rows
        ]

    return work
