"""How data is written: work on a connection, submitted to the one writer of this process.

Work is a function of a connection. It uses SQL that SQLite and PostgreSQL both understand, with `?` for values,
touches nothing but the connection, and may be done again: a commit whose answer was lost is submitted once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from antiphon.core.durations import Durations

T = TypeVar("T")


class StoreCursor(Protocol):
    """What a statement gave. rowcount: rows it changed."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any:
        """The next row, None if there is none."""
        ...

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        ...


class StoreConnection(Protocol):
    """A connection inside a transaction."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> StoreCursor:
        """Run a statement; `?` stands for a value. Bytes come back as bytes."""
        ...

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> object:
        """Run a statement once for each row of values. What fails may be raised by what follows."""
        ...


Work = Callable[[StoreConnection], T]


class Writer(Protocol):
    """Runs submitted work in transactions, in the order of submission. commits: how long transactions took."""

    commits: Durations

    @property
    def waiting(self) -> int:
        """What was submitted and is in no transaction yet."""
        ...

    def start(self) -> None:
        """Begin to take work; call it in the event loop. Raises StorageError."""
        ...

    async def stop(self) -> None:
        """Finish what was submitted, then close."""
        ...

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """Queue work; the future has its result once it is committed, or StorageError.

        After a StorageError the work was not committed, unless the connection broke during the commit itself.
        """
        ...


class StoreSession(StoreConnection, Protocol):
    """The writer's own connection, which it opens again by itself where it breaks."""

    def begin(self) -> None:
        """Begin a transaction. Raises what the engine raises if the database does not answer."""
        ...

    def commit(self) -> None:
        """End it; what was written is durable as far as the engine promises."""
        ...

    def undo(self, error: Exception) -> bool:
        """Roll back after an error. Gives whether the database still answers, so that others may be tried."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...
