"""The one writer: a thread that owns the only connection that writes.

What is submitted while a transaction runs goes into the next one together. If a group fails, its members are
tried one by one, so that one bad submission costs nobody else anything.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from antiphon.errors import StorageError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

_MAX_GROUP = 256
"""Submissions in one transaction: bounds how long a reader of the result waits for its neighbours."""


class SqliteWriter:
    """Runs submitted work in transactions, in the order of submission."""

    def __init__(self, database: Path, *, full_sync: bool) -> None:
        self._database = database
        self._full_sync = full_sync
        self._queue: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def start(self) -> None:
        """Open the connection and start the thread; call it in the event loop. Raises StorageError."""
        self._loop = asyncio.get_running_loop()
        try:
            connection = self._connect()
        except sqlite3.Error as error:
            raise StorageError("The store cannot be opened for writing.") from error
        self._thread = threading.Thread(target=self._run, args=(connection,), name="antiphon-writer", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Finish what was submitted, then close."""
        if self._thread is None:
            return
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._thread = None

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue work; the future has its result once it is committed, or StorageError."""
        if self._loop is None or self._thread is None or self._closed:
            raise StorageError("The store is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((work, future))
        return future

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._database, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if self._full_sync else 'NORMAL'}")
        connection.execute("PRAGMA busy_timeout = 5000")
        return connection

    def _run(self, connection: sqlite3.Connection) -> None:
        try:
            stopping = False
            while not stopping:
                group, stopping = self._next_group()
                if group:
                    self._deliver(self._commit(connection, group))
                group = []  # what was written must not live on while this thread waits for more
        finally:
            connection.close()

    def _next_group(self) -> tuple[list[tuple[Work, asyncio.Future[Any]]], bool]:
        group: list[tuple[Work, asyncio.Future[Any]]] = []
        entry = self._queue.get()
        while True:
            if entry is None:
                return group, True
            group.append(entry)
            if len(group) == _MAX_GROUP:
                return group, False
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                return group, False

    def _commit(
        self, connection: sqlite3.Connection, group: list[tuple[Work, asyncio.Future[Any]]]
    ) -> list[tuple[asyncio.Future[Any], Any, Exception | None]]:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            # The database is away for all of them: trying each would make the last wait for every timeout.
            return [(future, None, error) for _, future in group]
        try:
            results = _transaction(connection, [work for work, _ in group])
            return [(future, result, None) for (_, future), result in zip(group, results, strict=True)]
        except Exception as error:
            if len(group) == 1:
                return [(group[0][1], None, error)]
        return [done for entry in group for done in self._commit(connection, [entry])]

    def _deliver(self, done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(_resolve, done)
        except RuntimeError:
            return  # the loop is gone; nobody waits any more


def _transaction(connection: sqlite3.Connection, works: list[Work]) -> list[Any]:
    """Do the works in the transaction that was begun, and end it."""
    try:
        results = [work(connection) for work in works]
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return results


def _resolve(done: list[tuple[asyncio.Future[Any], Any, Exception | None]]) -> None:
    for future, result, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            failure = StorageError("The store did not take the data.")
            failure.__cause__ = error
            future.set_exception(failure)
