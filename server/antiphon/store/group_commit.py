"""The writer's thread: what is submitted while a transaction runs goes into the next one together.

If a group fails, its members are tried one by one, so that one bad submission costs nobody else anything.
"""

from __future__ import annotations

import abc
import asyncio
import queue
import threading
import time
from typing import Any, TypeVar

from antiphon.core.durations import Durations
from antiphon.errors import StorageError
from antiphon.store.writing import StoreSession, Work

T = TypeVar("T")
Entry = tuple[Work[Any], asyncio.Future[Any]]
Done = tuple[asyncio.Future[Any], Any, Exception | None]

_MAX_GROUP = 256
"""Submissions in one transaction: bounds how long a reader of the result waits for its neighbours."""


class GroupWriter(abc.ABC):
    """A thread that owns the only connection that writes (see `Writer`)."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._away = False
        """The last transaction met a database that does not answer."""
        self.commits = Durations()

    @abc.abstractmethod
    def _open(self) -> StoreSession:
        """The connection. Raises StorageError."""

    def start(self) -> None:
        """Open the connection and start the thread; call it in the event loop. Raises StorageError."""
        self._loop = asyncio.get_running_loop()
        session = self._open()
        self._thread = threading.Thread(target=self._run, args=(session,), name="antiphon-writer", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Finish what was submitted, then close."""
        if self._thread is None:
            return
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._thread = None

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """Queue work; the future has its result once it is committed, or StorageError."""
        if self._loop is None or self._thread is None or self._closed:
            raise StorageError("The store is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((work, future))
        return future

    def _run(self, session: StoreSession) -> None:
        try:
            stopping = False
            while not stopping:
                group, stopping = self._next_group()
                if self._closed and self._away:
                    # Nobody waits for every timeout of a database that is gone.
                    self._deliver([(future, None, StorageError("The store is closed.")) for _, future in group])
                elif group:
                    self._deliver(self._commit(session, group))
                group = []  # what was written must not live on while this thread waits for more
        finally:
            session.close()

    def _next_group(self) -> tuple[list[Entry], bool]:
        group: list[Entry] = []
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

    def _commit(self, session: StoreSession, group: list[Entry]) -> list[Done]:
        results, error = self._transaction(session, [work for work, _ in group])
        if error is None:
            return [(future, result, None) for (_, future), result in zip(group, results, strict=True)]
        if self._away or len(group) == 1:
            return [(future, None, error) for _, future in group]
        done: list[Done] = []
        for work, future in group:
            if not self._away:
                results, error = self._transaction(session, [work])
            done.append((future, results[0] if error is None else None, error))
        return done

    def _transaction(self, session: StoreSession, works: list[Work[Any]]) -> tuple[list[Any], Exception | None]:
        """Do all of the works or none; gives their results, or why not."""
        self._away, begun = True, time.monotonic()
        try:
            session.begin()
        except Exception as error:
            return [], error
        try:
            results = [work(session) for work in works]
            session.commit()
        except Exception as error:
            self._away = not session.undo(error)
            return [], error
        self._away = False
        self.commits.add(time.monotonic() - begun)
        return results, None

    def _deliver(self, done: list[Done]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(_resolve, done)
        except RuntimeError:
            return  # the loop is gone; nobody waits any more


def _resolve(done: list[Done]) -> None:
    for future, result, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        elif isinstance(error, StorageError):
            future.set_exception(error)
        else:
            failure = StorageError("The store did not take the data.")
            failure.__cause__ = error
            future.set_exception(failure)
