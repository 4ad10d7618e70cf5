"""A database of a test's own, with its writer and reader, and ways to break it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from antiphon.core.run_state import RunState
from antiphon.store.database import migrate, open_reader
from antiphon.store.postgres import migrating, reading
from antiphon.store.postgres.writer import PostgresWriter
from antiphon.store.records import Ending, NewResponse
from antiphon.store.responses import ResponseReader
from antiphon.store.writer import SqliteWriter
from antiphon.store.writing import Writer
from tests.support import postgres

WAIT_S = 40.0
TIMEOUT_S = 5.0


@dataclass
class Database:
    """place: the file of SQLite, or the URL of PostgreSQL."""

    place: Path | str
    writer: Writer
    reader: ResponseReader

    @property
    def path(self) -> Path:
        assert isinstance(self.place, Path), "only SQLite has a file"
        return self.place

    def rows(self, query: str, *values: Any) -> list[Any]:
        """What another program sees."""
        if isinstance(self.place, str):
            return postgres.execute(self.place, query.replace("?", "%s"), *values)
        with contextlib.closing(sqlite3.connect(self.place)) as connection:
            return connection.execute(query, values).fetchall()


@contextlib.asynccontextmanager
async def database(
    place: Path | str, *, full_sync: bool = False, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[Database]:
    """place: a folder for SQLite, or the URL of PostgreSQL. timeout_s: of PostgreSQL."""
    writer: Writer
    if isinstance(place, str):
        await asyncio.to_thread(migrating.migrate, place, TIMEOUT_S)
        engine = reading.open_reader(place, connections=2, timeout_s=timeout_s)
        writer = PostgresWriter(place, timeout_s=timeout_s)
        reader = ResponseReader(engine, timeout_s=timeout_s)
    else:
        place = place / "antiphon.db"
        await asyncio.to_thread(migrate, place)
        engine = open_reader(place)
        writer = SqliteWriter(place, full_sync=full_sync)
        reader = ResponseReader(engine)
    writer.start()
    try:
        yield Database(place, writer, reader)
    finally:
        async with asyncio.timeout(WAIT_S):
            await writer.stop()
            await reader.aclose()


def new_response(response_id: str, *, parent: str | None = None, **fields: Any) -> NewResponse:
    given: dict[str, Any] = {
        "id": response_id,
        "tenant": "default",
        "creator": "user:local",
        "visibility": "tenant",
        "conversation_id": "conv_1",
        "previous_response_id": parent,
        "status": "in_progress",
        "fence": 1,
        "epochs": '[["aaaaaaaaaaaaaaaa",0]]',
        "created_at": 1000.0,
        "input": b'{"type":"message","role":"user","content":"hi"}',
        "context_input": None,
        "response": b'{"id":"%b","status":"in_progress","output":[]}' % response_id.encode(),
        "run_state": orjson.dumps(_state(response_id).row()),
    }
    return NewResponse(**{**given, **fields})


def _state(response_id: str) -> RunState:
    return RunState(
        response_id=response_id,
        conversation_id="conv_1",
        tenant="default",
        principal="user:local",
        model="antiphon/echo",
        upstream="antiphon",
        origin="background",
        epoch="a" * 16,
        created_at=1000.0,
        updated_at=1000.0,
        state="running",
    )


def ending(
    response_id: str, status: str = "completed", *, number: int = 2, fence: int = 1, **fields: Any
) -> Ending:
    given: dict[str, Any] = {
        "id": response_id,
        "fence": fence,
        "status": status,
        "ended_at": 2000.0,
        "context_output": b"",
        "open_calls": b"[]",
        "response": b'{"id":"%b","status":"%b","output":[]}' % (response_id.encode(), status.encode()),
        "run_state": b'{"response_id":"%b","revision":3,"state":"%b"}' % (response_id.encode(), status.encode()),
        "terminal_event": b'{"type":"response.%b","sequence_number":%d}' % (status.encode(), number),
        "terminal_number": number,
    }
    return Ending(**{**given, **fields})


@contextlib.contextmanager
def locked(path: Path):  # type: ignore[no-untyped-def]
    """Another program holds the database's write lock."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def execute(path: Path, script: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


NO_TERMINAL = """
CREATE TRIGGER no_terminal BEFORE UPDATE OF terminal_event ON responses
BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END;
"""
NO_EVENTS = "CREATE TRIGGER no_events BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END;"
NO_ROWS = "CREATE TRIGGER no_rows BEFORE INSERT ON responses BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END;"
