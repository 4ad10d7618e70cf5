"""API keys that are kept in the store, known by their digests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import sqlalchemy as sa

from antiphon.core.principal import Role
from antiphon.store.reading import BoundedReader
from antiphon.store.tables import api_keys
from antiphon.store.writing import StoreConnection, Work


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One row. sha256: hex digest of the key. owner: the user whose key it is. Times are Unix seconds."""

    id: str
    sha256: str
    name: str
    owner: str | None
    tenant: str
    role: Role
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None

    def is_active(self, now: float) -> bool:
        """Whether it opens the door at this time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


_COLUMNS = (
    api_keys.c.id,
    api_keys.c.sha256,
    api_keys.c.name,
    api_keys.c.owner,
    api_keys.c.tenant,
    api_keys.c.role,
    api_keys.c.created_at,
    api_keys.c.expires_at,
    api_keys.c.revoked_at,
)
_INSERT = (
    "INSERT INTO api_keys (id, sha256, name, owner, tenant, role, created_at, expires_at, revoked_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_REVOKE = "UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL"


class ApiKeys:
    """Reads them. Every method raises StorageError."""

    def __init__(self, reader: BoundedReader) -> None:
        self._reader = reader

    async def find(self, sha256: str) -> ApiKey | None:
        """The key with this digest, also one that was revoked."""
        rows = await self._reader.rows(sa.select(*_COLUMNS).where(api_keys.c.sha256 == sha256))
        return ApiKey(*rows[0]) if rows else None

    async def listed(self) -> Sequence[ApiKey]:
        """All keys, the newest first."""
        rows = await self._reader.rows(sa.select(*_COLUMNS).order_by(api_keys.c.created_at.desc()))
        return [ApiKey(*row) for row in rows]

    async def revoked_since(self, at: float) -> frozenset[str]:
        """Ids of the keys that were revoked from a time on."""
        query = sa.select(api_keys.c.id).where(api_keys.c.revoked_at >= at)
        return frozenset(row[0] for row in await self._reader.rows(query))

    async def any_active(self, now: float) -> bool:
        """Whether some key opens the door."""
        valid = api_keys.c.expires_at.is_(None) | (api_keys.c.expires_at > now)
        query = sa.select(api_keys.c.id).where(api_keys.c.revoked_at.is_(None), valid).limit(1)
        return bool(await self._reader.rows(query))


def create(key: ApiKey) -> Work[None]:
    """Keep a new key."""

    def work(connection: StoreConnection) -> None:
        connection.execute(_INSERT, astuple(key))

    return work


def revoke(key_id: str, now: float) -> Work[bool]:
    """Take a key back; False if there is none with this id that was not revoked before."""

    def work(connection: StoreConnection) -> bool:
        if connection.execute(_REVOKE, (now, key_id)).rowcount > 0:
            return True
        # Perhaps this is done again after a commit whose answer was lost.
        done = connection.execute("SELECT 1 FROM api_keys WHERE id = ? AND revoked_at = ?", (key_id, now))
        return done.fetchone() is not None

    return work
