"""Redis and PostgreSQL together, as several nodes use them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from antiphon.core.cursor import Epochs
from antiphon.errors import StorageError
from antiphon.journal.contract import RunLost
from antiphon.store.records import IdempotencyRecord, KeyTaken
from tests.journal.logs import (
    TOKEN,
    Node,
    ended,
    ending,
    event,
    events,
    everything,
    node,
    opened,
    run_state,
    until,
)
from tests.store.database import Database, database, new_response
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer


@pytest.fixture
async def shared(postgres_url: str) -> AsyncIterator[Database]:
    async with database(postgres_url) as db:
        yield db


async def moved(made: Node, run_id: str) -> list[bytes]:
    """A log as the store has it, once it is there."""
    assert await made.archive.move(run_id)
    return (await made.db.reader.events(run_id, -1, 10_000_000))[1]


async def test_a_run_is_begun_spilled_taken_over_ended_and_moved(server: RedisServer, shared: Database) -> None:
    small = {"bus": {"flush_ms": 1, "live_log_bytes": 20_000}}
    async with node(server, shared, "node1", **small) as one, node(server, shared, "node2", **small) as two:
        run_log = opened(one.journal, "resp_1")
        for number in range(100):
            one.journal.append(run_log, [event(number, 500)], number)
            await one.journal.flush(run_log)
        await until(lambda: run_log.durable == 99 and not one.journal._trimmer._busy)
        assert shared.rows("SELECT COUNT(*) FROM journal")[0][0] > 0
        assert await everything(two.journal, "resp_1") == events(0, 99, 500)
        new = two.goes_on(await two.take(await two.journal.find("resp_1")))
        with pytest.raises(RunLost):
            await one.journal.end(run_log, ending(run_log), 5)
        last = await ended(two.journal, new)
        assert await moved(two, "resp_1") == [*events(0, 99, 500), last]
        assert shared.rows("SELECT fence, terminal_event FROM responses") == [(2, last)]


async def test_of_two_nodes_with_one_key_one_begins(server: RedisServer, shared: Database) -> None:
    async with node(server, shared, "node1") as one, node(server, shared, "node2") as two:
        outcomes: list[str] = []
        for made, run_id in ((one, "resp_1"), (two, "resp_2")):
            record = IdempotencyRecord("default", "user:local", "k", b"sha", run_id, time.time() + 1000)
            run_log = made.journal.open(run_id, Epochs.starting(TOKEN), stored=True, state=run_state(run_id))
            made.journal.begin(run_log, new_response(run_id), record)
            made.journal.append(run_log, [event(0)], 0)
            try:
                await made.journal.flush(run_log)
                outcomes.append(run_id)
            except KeyTaken as taken:
                outcomes.append(taken.response_id)
                made.journal.close(run_log)
        assert outcomes == ["resp_1", "resp_1"] and await one.journal.find("resp_2") is None


async def test_a_database_that_is_away_ends_a_run_in_its_log_and_gets_the_terminal_later(
    server: RedisServer,
) -> None:
    with PostgresServer() as postgres:
        async with database(postgres.create_database(), timeout_s=1) as db, node(server, db) as made:
            run_log = opened(made.journal, "resp_1")
            made.journal.append(run_log, events(0, 4), 0)
            await made.journal.flush(run_log)
            postgres.stop()
            with pytest.raises(StorageError):
                await made.journal.end(run_log, ending(run_log), 1)
            assert not made.journal.healthy
            state = b'{"response_id":"resp_1","state":"failed","updated_at":2000.0}'
            given = ending(run_log, "failed", http_status=500, run_state=state)
            assert await made.journal.end_undecided(run_log, given)
            run_log.end(given.terminal_event, durable=True)
            with pytest.raises(StorageError):
                await made.archive.move("resp_1")
            postgres.start()
            await until_moved(made)
            assert db.rows("SELECT status, terminal_event FROM responses") == [("failed", given.terminal_event)]


async def until_moved(made: Node) -> None:
    """Move the log, as soon as the database takes it."""
    deadline = time.monotonic() + 15
    while True:
        try:
            assert await made.archive.move("resp_1")
            return
        except StorageError:
            assert time.monotonic() < deadline
