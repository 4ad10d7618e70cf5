"""Who acts, and what a role may do (PROTOCOL "Roles")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["viewer", "driver", "operator", "admin"]

_RANK: dict[str, int] = {"viewer": 0, "driver": 1, "operator": 2, "admin": 3}


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. id is `user:<name>` or `key:<name>`; tenant comes from the credential only."""

    id: str
    tenant: str
    role: Role
    tier: str = "enterprise"

    def at_least(self, role: Role) -> bool:
        return _RANK[self.role] >= _RANK[role]

    def may_see(self, tenant: str, creator: str, visibility: str) -> bool:
        """Runs are visible to their tenant; private ones to their creator and to operators."""
        if self.role == "admin":
            return True
        if tenant != self.tenant:
            return False
        return visibility != "private" or creator == self.id or self.at_least("operator")

    def may_cancel(self, creator: str) -> bool:
        """Of a run it may see: drivers cancel their own, operators any."""
        return self.at_least("operator") or (self.at_least("driver") and creator == self.id)


LOCAL = Principal(id="user:local", tenant="default", role="admin")
"""Everybody, when authentication is off (loopback only)."""
