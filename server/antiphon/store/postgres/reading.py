"""The pool that reads from PostgreSQL."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from antiphon.store.postgres.connection import BoundedAsyncConnection, connect_async


def open_reader(url: str, *, connections: int, timeout_s: float) -> AsyncEngine:
    """An engine for reads: each statement sees what was committed before it. It connects when it is first asked.

    connections: at most so many. timeout_s: for one statement, and for a free connection.
    """

    async def creator() -> BoundedAsyncConnection:
        return await connect_async(url, timeout_s)

    return create_async_engine(
        "postgresql+psycopg://",
        async_creator=creator,
        isolation_level="AUTOCOMMIT",
        pool_size=connections,
        max_overflow=0,
        pool_timeout=timeout_s,
    )
