"""Logs on Redis stay bounded, and every key runs out."""

from __future__ import annotations

import pytest

from antiphon.bus.redis import keys
from tests.journal.logs import Node, ended, event, events, everything, node, opened, until
from tests.store.database import Database, locked
from tests.support.redis import RedisServer, redis_server

LIMIT = 20_000


def small(**bus: float) -> dict[str, dict[str, float]]:
    return {"bus": {"flush_ms": 1, "command_timeout_s": 2, "live_log_bytes": LIMIT, **bus}}


async def written(made: Node, *, stored: bool, count: int = 200, size: int = 500) -> None:
    """A run of five times the limit, in many entries."""
    run_log = opened(made.journal, "resp_1", stored=stored)
    for number in range(count):
        made.journal.append(run_log, [event(number, size)], number)
        await made.journal.flush(run_log)


def log_bytes(server: RedisServer) -> int:
    entries = server.command("XRANGE", keys.run_log("resp_1"), "-", "+")
    return sum(len(fields[b"p"]) for _, fields in entries)


@pytest.mark.parametrize("engine", ["valkey", "redis6"])
async def test_old_events_of_a_stored_run_move_to_the_store_and_are_read_from_there(
    engine: str, db: Database
) -> None:
    with redis_server(engine) as server:  # type: ignore[arg-type]
        async with node(server, db, **small()) as made:
            await written(made, stored=True)
            await until(lambda: log_bytes(server) <= LIMIT)
            found = await made.journal.find("resp_1")
            assert found is not None and found.first == 0
            assert await everything(made.journal, "resp_1") == events(0, 199, 500)
            assert await everything(made.journal, "resp_1", 150) == events(151, 199, 500)
            assert db.rows("SELECT COUNT(*) FROM journal")[0][0] <= 100


async def test_old_events_of_an_unstored_run_are_gone_and_it_says_so(server: RedisServer, db: Database) -> None:
    async with node(server, db, **small()) as made:
        await written(made, stored=False)
        await until(lambda: log_bytes(server) <= LIMIT and not made.journal._trimmer._busy)
        found = await made.journal.find("resp_1")
        assert found is not None and 150 < found.first < 199
        first, left = await made.journal.events("resp_1", -1, 1_000_000)
        assert first == found.first and left == events(first, 199, 500)
        assert db.rows("SELECT COUNT(*) FROM journal") == [(0,)]


async def test_a_log_whose_old_events_the_store_does_not_take_keeps_them(
    server: RedisServer, db: Database
) -> None:
    async with node(server, db, **small()) as made:
        run_log = opened(made.journal, "resp_1")
        made.journal.append(run_log, [event(0)], 0)
        await made.journal.flush(run_log)
        with locked(db.path):
            for number in range(1, 200):
                made.journal.append(run_log, [event(number, 500)], number)
            await until(lambda: run_log.durable == 199)
            assert await everything(made.journal, "resp_1") == [event(0), *events(1, 199, 500)]
        for number in range(200, 300):
            made.journal.append(run_log, [event(number, 500)], number)
            await made.journal.flush(run_log)
        await until(lambda: log_bytes(server) <= LIMIT + 200 * 520)
        last = await ended(made.journal, run_log)
        assert await everything(made.journal, "resp_1") == [event(0), *events(1, 299, 500), last]


async def test_one_entry_that_is_too_big_stays(server: RedisServer, db: Database) -> None:
    async with node(server, db, **small()) as made:
        run_log = opened(made.journal, "resp_1", stored=False)
        for number in range(3):
            made.journal.append(run_log, [event(number, 2 * LIMIT)], number)
            await made.journal.flush(run_log)
        await until(lambda: server.command("XLEN", keys.run_log("resp_1")) == 1)
        assert await made.owns(run_log) and made.restarted == []


async def test_a_backlog_goes_in_several_entries_and_one_event_may_be_bigger(
    server: RedisServer, one: Node
) -> None:
    run_log = opened(one.journal, "resp_1")
    big = [event(0, 3_000_000), *events(1, 30, 200_000)]
    one.journal.append(run_log, big, 0)
    await one.journal.flush(run_log)
    assert server.command("XLEN", keys.run_log("resp_1")) > 4
    assert await everything(one.journal, "resp_1", page_bytes=1_000_000) == big


@pytest.mark.parametrize("stored", [True, False])
async def test_every_key_runs_out_while_a_run_lives_and_after_it(
    server: RedisServer, db: Database, stored: bool
) -> None:
    tables = small(live_log_ttl_s=1000, linger_s=50)
    async with node(server, db, store={"grace_s": 30}, **tables) as made:
        made.journal.on_ended = made.archive.moved_soon
        made.archive.start()
        run_log = opened(made.journal, "resp_1", stored=stored)
        made.journal.append(run_log, events(0, 4), 0)
        made.journal.checkpoint(run_log, b"kept")
        await made.journal.flush(run_log)
        living = ttls(server)
        assert living.keys() == {
            keys.node_runs("node1"),
            keys.run_meta("resp_1"),
            keys.run_log("resp_1"),
        }
        assert all(900 < ttl <= 1000 for ttl in living.values())
        await ended(made.journal, run_log)
        limit = 50 if stored else 30
        run_keys = {keys.run_meta("resp_1"), keys.run_log("resp_1")}
        await until(lambda: ttls(server).keys() == run_keys and max(ttls(server).values()) <= limit)
        assert min(ttls(server).values()) > limit - 20


async def test_a_released_run_runs_out_too(server: RedisServer, one: Node) -> None:
    run_log = opened(one.journal, "resp_1")
    one.journal.append(run_log, events(0, 4), 0)
    await one.journal.release(run_log)
    assert keys.RELEASED in ttls(server) and all(ttl > 0 for ttl in ttls(server).values())


def ttls(server: RedisServer) -> dict[str, int]:
    """Seconds that each key has left."""
    return {name.decode(): server.command("TTL", name) for name in server.command("KEYS", "*")}


async def test_a_page_of_a_log_of_big_entries_reads_little_more_than_itself(
    server: RedisServer, one: Node
) -> None:
    run_log = opened(one.journal, "resp_1")
    size = 1024 * 1024
    for number in range(20):
        one.journal.append(run_log, [event(number, size)], number)
        await one.journal.flush(run_log)
    before = server.command("INFO", "stats")["total_net_output_bytes"]
    assert await one.journal.events("resp_1", 3, size) == (4, [event(4, size)])
    assert server.command("INFO", "stats")["total_net_output_bytes"] - before < 4 * size
    assert await everything(one.journal, "resp_1", page_bytes=size) == events(0, 19, size)
