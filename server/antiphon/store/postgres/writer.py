"""The writer on PostgreSQL."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors

from antiphon.store.group_commit import GroupWriter
from antiphon.store.postgres.connection import BoundedConnection, NoAnswer, connect
from antiphon.store.writing import StoreCursor


class PostgresWriter(GroupWriter):
    """Writes over one connection. timeout_s: for one statement, and for a connection to be made."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        super().__init__()
        self._url = url
        self._timeout_s = timeout_s

    def _open(self) -> PostgresSession:
        return PostgresSession(self._url, self._timeout_s)


class PostgresSession:
    """See `StoreSession`. It connects where it begins and is not connected."""

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._open: BoundedConnection | None = None

    @property
    def _connection(self) -> BoundedConnection:
        assert self._open is not None, "begin comes first"
        return self._open

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> StoreCursor:
        return self._connection.execute(_translated(sql), parameters, binary=True)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> object:
        if len(rows) == 1:
            return self.execute(sql, rows[0])
        cursor = self._connection.cursor()
        cursor.executemany(_translated(sql), rows)
        return cursor

    def begin(self) -> None:
        if self._open is not None:
            try:
                self._open.execute("BEGIN")
                return
            except NoAnswer:
                raise
            except psycopg.OperationalError:
                self.close()  # it broke while nobody used it: the server was restarted
        self._open = connect(self._url, self._timeout_s)
        self._open.execute("BEGIN")

    def commit(self) -> None:
        done = self._connection.execute("COMMIT").statusmessage
        if done != "COMMIT":
            raise psycopg.OperationalError("the transaction had failed before its end")

    def undo(self, error: Exception) -> bool:
        connection = self._connection
        try:
            if not connection.closed:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()
        # A server that has become a standby refuses writes on this connection for ever.
        if connection.closed or isinstance(error, errors.ReadOnlySqlTransaction):
            self.close()
            return False
        return not isinstance(error, errors.QueryCanceled)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


@functools.cache
def _translated(sql: str) -> bytes:
    """A statement with psycopg's placeholders."""
    return sql.replace("%", "%%").replace("?", "%s").encode()
