"""The audit log: who did what, when, on what. Rows are only added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from antiphon.store.writing import StoreConnection, Work

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """at: Unix seconds. tenant, principal: of who did it. detail: small facts of the action, nothing secret."""

    id: str
    at: float
    tenant: str
    principal: str
    action: str
    target: str
    detail: dict[str, Any]

    def row(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "id": self.id,
            "at": self.at,
            "tenant": self.tenant,
            "principal": self.principal,
            "action": self.action,
            "target": self.target,
            "detail": self.detail,
        }


_ADD = """
INSERT INTO audit (id, at, tenant, principal, action, target, detail) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
"""


def add(entry: AuditEntry) -> Work[None]:
    """Write an entry."""

    def work(connection: StoreConnection) -> None:
        who = (entry.tenant, entry.principal)
        connection.execute(
            _ADD, (entry.id, entry.at, *who, entry.action, entry.target, orjson.dumps(entry.detail))
        )

    return work


def add_with(entry: AuditEntry, also: Work[T]) -> Work[T]:
    """Write an entry and do what it is about in one transaction; gives the result of that."""

    def work(connection: StoreConnection) -> T:
        add(entry)(connection)
        return also(connection)

    return work
