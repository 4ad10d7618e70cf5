"""Journals for tests: on memory, SQLite and Redis, with runs to write and ways to look at them from outside."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio

from antiphon.clock import RandomIds, SystemClock
from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.core.run_state import RunState
from antiphon.errors import StorageError
from antiphon.journal.contract import Journal, LiveRun, RunLost
from antiphon.journal.log import RunLog
from antiphon.journal.redis.archive import Archive
from antiphon.journal.redis.journal import RedisJournal
from antiphon.settings import Settings
from antiphon.store.records import Ending
from tests.store import database as store
from tests.store.database import Database
from tests.support.redis import RedisServer

TOKEN = "a" * 16
ALL = 1_000_000_000
WAIT_S = 40.0


def event(number: int, size: int = 0) -> bytes:
    """size: bytes of padding."""
    pad = b',"pad":"%b"' % (b"x" * size) if size else b""
    return b'{"type":"x","sequence_number":%d%b}' % (number, pad)


def events(first: int, last: int, size: int = 0) -> list[bytes]:
    """Both ends included."""
    return [event(number, size) for number in range(first, last + 1)]


def terminal(number: int, status: str = "completed") -> bytes:
    return b'{"type":"response.%b","sequence_number":%d,"response":{"id":"r","status":"%b","output":[]}}' % (
        status.encode(),
        number,
        status.encode(),
    )


def run_state(run_id: str) -> RunState:
    return RunState(
        response_id=run_id,
        conversation_id="conv_1",
        tenant="default",
        principal="user:local",
        model="antiphon/echo",
        upstream="builtin",
        origin="websocket",
        epoch=TOKEN,
        created_at=1000.0,
        updated_at=1000.0,
        state="running",
    )


def ending(run_log: RunLog, status: str = "completed", **fields: Any) -> Ending:
    """The end of a run at the number that follows its head."""
    number = run_log.head + 1
    given = {"terminal_event": terminal(number, status), **fields}
    return store.ending(run_log.run_id, status, number=number, **given)


def opened(
    journal: Journal, run_id: str, *, stored: bool = True, head: int = BEFORE_FIRST, fence: int = 1
) -> RunLog:
    """A run that begins (with its row), or one that is gone on with at `head`."""
    epochs = Epochs.starting(TOKEN)
    run_log = journal.open(run_id, epochs, stored=stored, state=run_state(run_id), head=head, fence=fence)
    if stored and head == BEFORE_FIRST:
        row = store.new_response(run_id)
        journal.begin(run_log, row, None)
    return run_log


async def ended(journal: Journal, run_log: RunLog) -> bytes:
    """End a run and show it; gives the terminal that counts."""
    async with asyncio.timeout(WAIT_S):
        if run_log.stored:
            verdict = await journal.end(run_log, ending(run_log), 5)
        else:
            verdict = await journal.end_unstored(run_log, terminal(run_log.head + 1), 5)
    assert verdict.terminal_event is not None
    run_log.end(verdict.terminal_event, durable=True)
    return verdict.terminal_event


async def everything(
    journal: Journal, run_id: str, after: int = BEFORE_FIRST, page_bytes: int = 4096
) -> list[bytes]:
    """All durable events after a number, page by page; they must follow each other."""
    found: list[bytes] = []
    while True:
        first, page = await journal.events(run_id, after + len(found), page_bytes)
        if not page:
            return found
        assert first == after + 1 + len(found), f"a hole before {first}"
        found += page


async def until(true: Callable[[], Any], within_s: float = WAIT_S) -> None:
    """Poll a condition that no event announces."""
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0.002)


async def flushed(journal: Journal, run_log: RunLog) -> None:
    """Flush, however often it is refused."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(StorageError):
                await journal.flush(run_log)
                return


@dataclass
class Side:
    """What a node's bus gives to its journal; the test says whether the node may act."""

    node: str
    commands: redis.asyncio.Redis
    publish_command: str
    held: bool = True


@dataclass
class Node:
    """A node with its journal. lost, restarted: ids of runs, as it was told."""

    side: Side
    journal: RedisJournal
    archive: Archive
    db: Database
    lost: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)

    async def take(self, run: LiveRun | None) -> LiveRun:
        """Adopt a run that nobody else wants."""
        assert run is not None
        taken = await self.journal.adopt(run)
        assert taken is not None
        return taken

    def goes_on(self, run: LiveRun, epochs: Epochs | None = None) -> RunLog:
        """Open an adopted run."""
        return self.journal.open(
            run.id,
            epochs or run.epochs,
            stored=run.stored,
            state=run_state(run.id),
            head=run.head,
            fence=run.fence,
        )

    async def owns(self, run_log: RunLog) -> bool:
        """Whether it can write."""
        try:
            self.journal.append(run_log, [event(run_log.head + 1)], run_log.head + 1)
            await self.journal.flush(run_log)
        except RunLost:
            return False
        return True


@contextlib.asynccontextmanager
async def node(
    server: RedisServer, db: Database, name: str = "node1", *, timeout_s: float = 2.0, **settings: Any
) -> AsyncIterator[Node]:
    """A node that lives until the block ends. timeout_s: of its commands. settings: tables of the settings."""
    client = server.client(socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=None, protocol=2)
    sharded = int(server.command("INFO", "server")["redis_version"].split(".")[0]) >= 7
    side = Side(name, client, "SPUBLISH" if sharded else "PUBLISH")
    settings.setdefault("bus", {"flush_ms": 1, "command_timeout_s": timeout_s})
    tree = Settings(**settings)
    clock, ids = SystemClock(), RandomIds()
    journal = RedisJournal(side, db.writer, db.reader, tree, clock, ids)
    archive = Archive(side, db.writer, tree, clock)
    made = Node(side, journal, archive, db)
    journal.on_lost = lambda run_log: made.lost.append(run_log.run_id)
    journal.on_restarted = lambda run_log: made.restarted.append(run_log.run_id)
    journal.start()
    try:
        yield made
    finally:
        async with asyncio.timeout(WAIT_S):
            await journal.aclose()
            await archive.aclose()
            await client.aclose()
