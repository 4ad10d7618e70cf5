"""Opening the SQLite database: its folder, its lock, its tables, its readers."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from antiphon.errors import StartupError
from antiphon.store.schema import Migrated, upgrade


class DatabaseLock:
    """One server process per database: two would both own its runs."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + ".lock")
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Raises StartupError if another process holds it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a")
        except OSError as error:
            raise StartupError(
                f"the data folder {self._path.parent} cannot be used ({error.strerror}); choose another --data-dir"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise StartupError(
                f"another antiphon server uses the data in {self._path.parent}; "
                "stop it, or give this one a --data-dir of its own"
            ) from None
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def migrate(database: Path) -> Migrated:
    """Bring the tables up to date. Raises StartupError if the file cannot be used."""
    database.parent.mkdir(parents=True, exist_ok=True)
    engine = sqlalchemy.create_engine(sqlalchemy.URL.create("sqlite", database=str(database)))
    try:
        with engine.begin() as connection:
            # The driver begins no transaction before DDL: each table would be committed by itself, and a start
            # that is interrupted would leave some of them behind.
            connection.exec_driver_sql("BEGIN")
            return upgrade(connection, str(database))
    except sqlalchemy.exc.DBAPIError as error:
        raise StartupError(f"the database {database} cannot be used: {error.orig}") from error
    finally:
        engine.dispose()


def open_reader(database: Path) -> AsyncEngine:
    """An engine for reads. It never writes: all writes go through the one writer thread."""
    url = sqlalchemy.URL.create("sqlite+aiosqlite", database=str(database))
    engine = create_async_engine(url, pool_size=4, max_overflow=4)

    @sqlalchemy.event.listens_for(engine.sync_engine, "connect")
    def _read_only(connection, _record) -> None:  # type: ignore[no-untyped-def]
        cursor = connection.cursor()
        cursor.execute("PRAGMA query_only = ON")
        cursor.execute("PRAGMA busy_timeout = 5000")
        cursor.close()

    return engine
