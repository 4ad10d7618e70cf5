"""Agents that tenants store for themselves."""

from __future__ import annotations

import sqlalchemy as sa

from antiphon.store.reading import BoundedReader
from antiphon.store.tables import agents
from antiphon.store.writing import StoreConnection, Work

_PUT = (
    "INSERT INTO agents (tenant, name, definition, updated_at) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (tenant, name) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at"
)


class StoredAgents:
    """Reads them. Definitions are encoded."""

    def __init__(self, reader: BoundedReader) -> None:
        self._reader = reader

    async def find(self, tenant: str, name: str) -> bytes | None:
        """The definition of one, None if the tenant has none with this name. Raises StorageError."""
        query = sa.select(agents.c.definition).where(agents.c.tenant == tenant, agents.c.name == name)
        rows = await self._reader.rows(query)
        return bytes(rows[0][0]) if rows else None

    async def of_tenant(self, tenant: str) -> dict[str, bytes]:
        """All definitions of a tenant, by name. Raises StorageError."""
        query = sa.select(agents.c.name, agents.c.definition).where(agents.c.tenant == tenant)
        return {name: bytes(definition) for name, definition in await self._reader.rows(query)}


def put(tenant: str, name: str, definition: bytes, now: float) -> Work[None]:
    """Store an agent, in the place of one with the same name."""

    def work(connection: StoreConnection) -> None:
        connection.execute(_PUT, (tenant, name, definition, now))

    return work


def delete(tenant: str, name: str) -> Work[None]:
    """Forget an agent."""

    def work(connection: StoreConnection) -> None:
        connection.execute("DELETE FROM agents WHERE tenant = ? AND name = ?", (tenant, name))

    return work
