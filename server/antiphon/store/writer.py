"""The writer on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from antiphon.errors import StorageError
from antiphon.store.group_commit import GroupWriter


class SqliteWriter(GroupWriter):
    """Writes into one file. full_sync: what was committed survives a power cut."""

    def __init__(self, database: Path, *, full_sync: bool) -> None:
        super().__init__()
        self._database = database
        self._full_sync = full_sync

    def _open(self) -> SqliteSession:
        try:
            connection = sqlite3.connect(self._database, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._full_sync else 'NORMAL'}")
            connection.execute("PRAGMA busy_timeout = 5000")
        except sqlite3.Error as error:
            raise StorageError("The store cannot be opened for writing.") from error
        return SqliteSession(connection)


class SqliteSession:
    """See `StoreSession`. A file does not break: it is only locked by others, or full."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> object:
        return self._connection.executemany(sql, rows)

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def undo(self, error: Exception) -> bool:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        return True

    def close(self) -> None:
        self._connection.close()
