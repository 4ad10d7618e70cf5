"""Who acts, and what a role may do (PROTOCOL "Roles")."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

Role = Literal["viewer", "driver", "operator", "admin"]

ROLES: tuple[Role, ...] = ("viewer", "driver", "operator", "admin")
"""From the least to the most."""

_TENANT = re.compile(r"[A-Za-z0-9_-]{1,64}|user:[^\x00-\x1f\x7f]{1,3072}")
"""An id from the configuration or a token, or the scope of a user without a tenant."""

_RANK: dict[str, int] = {role: rank for rank, role in enumerate(ROLES)}


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. id is `user:<name>` or `key:<name>`; tenant comes from the credential only.

    tenant: an id of `[A-Za-z0-9_-]{1,64}`, or for a user without one the scope `user:<name>`, which no tenant's id
    can be. expires_at: Unix seconds until which its credential counts, None for ever. credential: a name of it by
    which it can be taken back, never the secret. issued_at: Unix seconds, where a signed token says it. Callers
    are the same where tenant and id are.
    """

    id: str
    tenant: str
    role: Role
    tier: str = "enterprise"
    expires_at: float | None = None
    credential: str = ""
    issued_at: float | None = None

    def at_least(self, role: Role) -> bool:
        return _RANK[self.role] >= _RANK[role]

    def is_same_as(self, other: Principal) -> bool:
        """Whether both are one caller, whatever their credentials are."""
        return (self.tenant, self.id) == (other.tenant, other.id)

    def at_most(self, role: Role) -> Principal:
        """The same caller with no more rights than a role has."""
        return replace(self, role=role) if _RANK[self.role] > _RANK[role] else self

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


def is_tenant(text: str) -> bool:
    """Whether a tenant could have this id."""
    return _TENANT.fullmatch(text) is not None


LOCAL = Principal(id="user:local", tenant="default", role="admin")
"""Everybody, when authentication is off (loopback only)."""
