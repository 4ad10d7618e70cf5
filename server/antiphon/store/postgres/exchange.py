"""Several statements in one exchange with PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from antiphon.store.postgres.connection import connect

Statement = tuple[bytes, Sequence[Any]]
"""A statement with psycopg's placeholders, and its values."""


class ExchangingConnection:
    """A connection that sends statements together and then waits once; waiting costs more than most of them do.

    It stays in pipeline mode: leaving that sends one more message, and a server that was sent something in mid
    transaction no longer counts how long its client is silent.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        """timeout_s: for each statement. Raises psycopg.Error."""
        self._connection = connect(url, timeout_s)
        self._mode = contextlib.ExitStack()
        self._pipeline = self._mode.enter_context(self._connection.pipeline())

    @property
    def closed(self) -> bool:
        """It was closed, or is broken."""
        return self._connection.closed

    def exchange(self, statements: Sequence[Statement]) -> psycopg.Cursor[Any]:
        """Send statements and wait for all their results; gives that of the last. Raises the first failure."""
        cursors = [self._connection.execute(sql, values, binary=True) for sql, values in statements]
        self._finish()
        return cursors[-1]

    def roll_back(self) -> None:
        """Give a transaction up, after whatever failed in it. Raises psycopg.Error."""
        while True:
            try:
                self._finish()  # what was sent behind the failure is answered too
                break
            except psycopg.Error:
                if self.closed:
                    raise
        self.exchange([(b"ROLLBACK", ())])

    def close(self) -> None:
        self._connection.close()
        with contextlib.suppress(psycopg.Error):
            self._mode.close()

    def _finish(self) -> None:
        """Send everything, then wait for all results.

        The library waits for results once the socket has taken some of it, and our largest values are larger than
        what a socket takes: both sides would wait for ever.
        """
        self._connection.wait(_sent(self._connection))
        self._pipeline.sync()


def _sent(connection: psycopg.Connection[Any]) -> PQGen[None]:
    """Until the socket has taken all that was given to libpq, which reads results meanwhile."""
    while connection.pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            connection.pgconn.consume_input()
