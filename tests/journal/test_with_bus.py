"""The journal behind a real bus: the lease decides when it may write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from antiphon.bus.redis.bus import RedisBus
from antiphon.clock import RandomIds, SystemClock
from antiphon.journal.redis.journal import RedisJournal
from antiphon.settings import Settings
from tests.journal.logs import ended, event, events, everything, flushed, opened, until
from tests.store.database import Database
from tests.support.redis import RedisServer, redis_server

LEASE_S = 0.5


@contextlib.asynccontextmanager
async def node(server: RedisServer, db: Database, name: str) -> AsyncIterator[tuple[RedisBus, RedisJournal]]:
    settings = Settings(bus={"lease_s": LEASE_S, "flush_ms": 1, "command_timeout_s": 1})  # type: ignore[arg-type]
    clock = SystemClock()
    bus = RedisBus(server.url, settings.bus, clock, name, {})
    journal = RedisJournal(bus, db.writer, db.reader, settings, clock, RandomIds())
    bus.on_resumed = journal.retake
    await bus.start()
    journal.start()
    try:
        yield bus, journal
    finally:
        async with asyncio.timeout(40):
            await journal.aclose()
            await bus.stop()


@pytest.mark.parametrize("engine", ["valkey", "redis6"])
async def test_while_redis_is_paused_longer_than_the_lease_nothing_is_shown_and_then_all_of_it(
    engine: str, db: Database
) -> None:
    with redis_server(engine) as server:  # type: ignore[arg-type]
        async with node(server, db, "node1") as (bus, journal):
            run_log = opened(journal, "resp_1")
            journal.append(run_log, events(0, 4), 0)
            await flushed(journal, run_log)
            server.pause()
            try:
                await until(lambda: not bus.held)
                journal.append(run_log, events(5, 9), 5)
                assert journal.holds_back(run_log) and run_log.shown == 4
            finally:
                server.resume()
            async with asyncio.timeout(40):
                await journal.may_act(run_log)
            assert bus.held and run_log.shown == 9 and journal.fence(run_log) > 1
            last = await ended(journal, run_log)
            assert await everything(journal, "resp_1") == [*events(0, 9), last]


async def test_an_owner_that_was_passed_over_is_told_at_its_next_event(server: RedisServer, db: Database) -> None:
    async with node(server, db, "node1") as (bus, journal), node(server, db, "node2") as (_, other):
        run_log = opened(journal, "resp_1")
        journal.append(run_log, events(0, 4), 0)
        await flushed(journal, run_log)
        lost: list[str] = []
        journal.on_lost = lambda run_log: lost.append(run_log.run_id)
        found = await other.find("resp_1")
        assert found is not None
        taken = await other.adopt(found)
        assert taken is not None
        journal.append(run_log, [event(5)], 5)
        await until(lambda: lost == ["resp_1"])
        assert bus.held and await everything(other, "resp_1") == events(0, 4)
