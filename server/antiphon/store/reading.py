"""How the database is read: bounded, tried again where that can help, in one kind of error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from antiphon.errors import StorageError


class BoundedReader:
    """Runs queries. timeout_s: how long anybody waits for an answer; None: as long as the engine takes."""

    def __init__(self, engine: AsyncEngine, *, timeout_s: float | None = None) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._reads: set[asyncio.Task[Sequence[Any]]] = set()

    async def aclose(self) -> None:
        """Let reads that nobody waits for any more come to their end, then disconnect."""
        if self._reads:
            await asyncio.wait(self._reads)
        await self._engine.dispose()

    async def rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        """The rows of a query on tables that have no reader of their own. Raises StorageError."""
        return await self._all(query)

    async def _all(self, query: sa.Select[Any]) -> Sequence[Any]:
        """The rows of a query. Raises StorageError."""
        # A cancelled read must not leave its connection half way: it finishes in a task of its own.
        reading = asyncio.create_task(self._fetch(query))
        self._reads.add(reading)
        reading.add_done_callback(self._reads.discard)
        try:
            async with asyncio.timeout(self._timeout_s):
                rows: Sequence[Any] = await asyncio.shield(reading)
                return rows
        except TimeoutError as error:
            raise StorageError("The store did not give the data in time.") from error

    async def _fetch(self, query: sa.Select[Any], *, again: bool = True) -> Sequence[Any]:
        try:
            async with self._engine.connect() as connection:
                rows: Sequence[Any] = (await connection.execute(query)).all()
                return rows
        except sa.exc.DBAPIError as error:
            # The server was restarted since this connection was used; the pool has thrown away all like it.
            if again and error.connection_invalidated:
                return await self._fetch(query, again=False)
            raise StorageError("The store did not give the data.") from error
        except (sa.exc.SQLAlchemyError, OSError) as error:
            raise StorageError("The store did not give the data.") from error
