"""The store that the settings name: its writer, its reader, its start and its end."""

from __future__ import annotations

import asyncio
from typing import Protocol

from antiphon.settings import Settings
from antiphon.store import database
from antiphon.store.postgres import migrating, reading
from antiphon.store.postgres.connection import place_of
from antiphon.store.postgres.writer import PostgresWriter
from antiphon.store.responses import ResponseReader
from antiphon.store.schema import Migrated
from antiphon.store.writer import SqliteWriter
from antiphon.store.writing import Writer


class Store(Protocol):
    """place: the database in words for people, without a password."""

    place: str
    writer: Writer
    reader: ResponseReader

    async def prepare(self) -> Migrated:
        """Make sure that the database can be used, and bring its tables up to date. Raises StartupError."""
        ...

    async def aclose(self) -> None:
        """Finish what was submitted and let go of the database."""
        ...


def open_store(settings: Settings) -> Store:
    """Connects to nothing yet. Raises StartupError on a URL that cannot be read."""
    return PostgresStore(settings) if settings.store_engine == "postgresql" else SqliteStore(settings)


class SqliteStore:
    """One file, and one server that owns it. Of several workers, their supervisor holds its lock."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.database_path
        self._lock = database.DatabaseLock(self._path) if settings.workers == 1 else None
        self.place = str(self._path)
        self.writer: Writer = SqliteWriter(self._path, full_sync=settings.journal.mode == "strict")
        self.reader = ResponseReader(database.open_reader(self._path))

    async def prepare(self) -> Migrated:
        if self._lock is not None:
            self._lock.acquire()
        return await asyncio.to_thread(database.migrate, self._path)

    async def aclose(self) -> None:
        await self.writer.stop()
        await self.reader.aclose()
        if self._lock is not None:
            self._lock.release()


class PostgresStore:
    """One database that all nodes share."""

    def __init__(self, settings: Settings) -> None:
        limits = settings.store
        self._url = settings.store_url
        self._timeout_s = limits.timeout_s
        self.place = place_of(self._url)
        engine = reading.open_reader(self._url, connections=limits.connections, timeout_s=self._timeout_s)
        self.writer: Writer = PostgresWriter(self._url, timeout_s=self._timeout_s)
        self.reader = ResponseReader(engine, timeout_s=self._timeout_s)

    async def prepare(self) -> Migrated:
        return await asyncio.to_thread(migrating.migrate, self._url, self._timeout_s)

    async def aclose(self) -> None:
        await self.writer.stop()
        await self.reader.aclose()
