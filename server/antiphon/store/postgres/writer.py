"""The writer on PostgreSQL."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import errors

from antiphon.store.group_commit import GroupWriter
from antiphon.store.postgres.connection import NoAnswer
from antiphon.store.postgres.exchange import ExchangingConnection, Statement
from antiphon.store.writing import StoreCursor


class PostgresWriter(GroupWriter):
    """Writes over one connection. timeout_s: for one statement, and for a connection to be made."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        super().__init__()
        self._url = url
        self._timeout_s = timeout_s

    def _open(self) -> PostgresSession:
        return PostgresSession(self._url, self._timeout_s)


_BEGIN = (b"BEGIN", ())
_SHUT_DOWN = "57P"
"""Class of the errors with which a server ends a connection."""


class PostgresSession:
    """See `StoreSession`. It connects where it begins and is not connected.

    Statements whose results nobody looks at wait for the next one, and go out together with it. What becomes of
    them is raised there.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._open: ExchangingConnection | None = None
        self._waiting: list[Statement] = []

    @property
    def _connection(self) -> ExchangingConnection:
        assert self._open is not None, "begin comes first"
        return self._open

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> StoreCursor:
        statements = [*self._waiting, (_translated(sql), parameters)]
        begins, self._waiting = _BEGIN in self._waiting, []
        try:
            return self._connection.exchange(statements)
        except NoAnswer:
            raise
        except psycopg.OperationalError as error:
            lost = self._connection.closed or (error.sqlstate or "").startswith(_SHUT_DOWN)
            if not (begins and lost):
                raise
        # It broke while nobody used it: the server was restarted. Nothing of this transaction was done.
        self.close()
        self._open = ExchangingConnection(self._url, self._timeout_s)
        return self._open.exchange(statements)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> object:
        statement = _translated(sql)
        self._waiting += [(statement, row) for row in rows]
        return None

    def begin(self) -> None:
        if self._open is None:
            self._open = ExchangingConnection(self._url, self._timeout_s)
        self._waiting = [_BEGIN]

    def commit(self) -> None:
        statements, self._waiting = [*self._waiting, (b"COMMIT", ())], []
        done = self._connection.exchange(statements).statusmessage
        if done != "COMMIT":
            raise psycopg.OperationalError("the transaction had failed before its end")

    def undo(self, error: Exception) -> bool:
        begun, self._waiting = _BEGIN not in self._waiting, []
        if self._open is None:  # it broke, and could not be made again
            return False
        connection = self._open
        try:
            if begun and not connection.closed:
                connection.roll_back()
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
