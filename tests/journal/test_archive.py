"""Logs of ended runs move from Redis to the store: whole, once, whoever moves them and however often."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from antiphon.bus.redis import keys
from antiphon.clock import SystemClock
from antiphon.errors import StorageError
from antiphon.journal.log import RunLog
from antiphon.journal.redis.archive import Archive
from antiphon.journal.redis.chunks import Merger
from antiphon.settings import Settings
from antiphon.store import records
from tests.journal.logs import TOKEN, Node, ended, ending, event, events, everything, node, opened, until
from tests.store.database import NO_EVENTS, database, execute
from tests.support.redis import RedisServer

BIG = 3000
"""Padding of an event with which a hundred do not fit into one row."""


async def over(made: Node, run_id: str = "resp_1", last: int = 99, size: int = 0) -> bytes:
    """A run that has ended, its log on Redis in many entries; gives its terminal."""
    run_log = opened(made.journal, run_id)
    for number in range(last + 1):
        made.journal.append(run_log, [event(number, size)], number)
        if number % 5 == 0:
            await made.journal.flush(run_log)
    return await ended(made.journal, run_log)


async def kept(made: Node, run_id: str = "resp_1") -> list[bytes]:
    """The log as the store has it."""
    found: list[bytes] = []
    while True:
        first, page = await made.db.reader.events(run_id, len(found) - 1, 1_000_000)
        if not page:
            return found
        assert first == len(found)
        found += page


async def listed(made: Node) -> list[bytes]:
    found: list[bytes] = await made.side.commands.zrange(keys.ENDED, 0, -1)
    return found


class Later(SystemClock):
    """A clock two minutes ahead."""

    def now(self) -> float:
        return super().now() + 120


def sweeper(made: Node) -> Archive:
    """Another node's archive, later."""
    return Archive(made.side, made.db.writer, Settings(), Later())


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_a_log_is_moved_right_after_the_end_into_few_rows(
    engine: str, server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = tmp_path if engine == "sqlite" else request.getfixturevalue("postgres_url")
    async with database(place) as db, node(server, db) as made:
        made.journal.on_ended = made.archive.moved_soon
        made.archive.start()
        last = await over(made, size=BIG)
        async with asyncio.timeout(40):
            while await listed(made):  # noqa: ASYNC110 - no event announces it
                await asyncio.sleep(0.005)
        assert await kept(made) == [*events(0, 99, BIG), last]
        assert db.rows("SELECT COUNT(*) FROM journal") == [(2,)]
        server.command("DEL", keys.run_log("resp_1"), keys.run_meta("resp_1"))
        assert await everything(made.journal, "resp_1") == [*events(0, 99, BIG), last]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
async def test_a_small_log_is_kept_with_its_end_and_need_not_be_moved(
    engine: str, server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = tmp_path if engine == "sqlite" else request.getfixturevalue("postgres_url")
    async with database(place) as db, node(server, db) as made:
        moved: list[str] = []
        made.journal.on_ended = moved.append
        last = await over(made)
        assert await kept(made) == [*events(0, 99), last]
        assert await listed(made) == [] and moved == []
        assert 0 < server.command("TTL", keys.run_log("resp_1")) <= 60
        assert 0 < server.command("TTL", keys.run_meta("resp_1")) <= 60
        server.command("DEL", keys.run_log("resp_1"), keys.run_meta("resp_1"))
        assert await everything(made.journal, "resp_1") == [*events(0, 99), last]


async def test_a_small_log_that_was_lost_and_written_again_tells_its_row_the_new_epoch(
    server: RedisServer, one: Node
) -> None:
    run_log = opened(one.journal, "resp_1")
    one.journal.append(run_log, events(0, 4), 0)
    await one.journal.flush(run_log)
    server.command("FLUSHALL")
    one.journal.append(run_log, [event(5)], 5)
    await until(lambda: one.restarted == ["resp_1"])
    last = await ended(one.journal, run_log)
    assert await kept(one) == [*events(0, 5), last]
    epochs = orjson.dumps(run_log.epochs.entries).decode()
    assert one.db.rows("SELECT epochs FROM responses") == [(epochs,)] and TOKEN not in epochs


async def test_a_big_log_is_moved_in_rows_of_a_quarter_of_a_mebibyte(one: Node) -> None:
    last = await over(one, last=1000, size=1000)
    assert await one.archive.move("resp_1")
    assert await kept(one) == [*events(0, 1000, 1000), last]
    sizes = [size for (size,) in one.db.rows("SELECT LENGTH(payload) FROM journal ORDER BY first")]
    assert len(sizes) == 4 and all(200_000 < size <= 256 * 1024 for size in sizes[:-1])


async def test_moving_twice_and_by_two_nodes_at_once_changes_nothing(one: Node, two: Node) -> None:
    last = await over(one, last=300, size=2000)
    await asyncio.gather(*(made.archive.move("resp_1") for made in (one, two, one)))
    assert await one.archive.move("resp_1")
    assert await kept(one) == [*events(0, 300, 2000), last]


async def test_what_was_moved_while_the_run_lived_is_not_moved_again(server: RedisServer, one: Node) -> None:
    run_log = opened(one.journal, "resp_1")
    for number in range(100):
        one.journal.append(run_log, [event(number, BIG)], number)
        await one.journal.flush(run_log)
    await one.db.writer.submit(records.keep_chunks([("resp_1", 0, 42, b"\n".join(events(0, 42, BIG)))]))
    last = await ended(one.journal, run_log)
    assert await one.archive.move("resp_1")
    assert await kept(one) == [*events(0, 99, BIG), last]


async def test_a_log_that_could_not_be_moved_is_moved_by_a_sweep(one: Node) -> None:
    execute(one.db.path, NO_EVENTS)
    last = await over(one, size=BIG)
    with pytest.raises(StorageError):
        await one.archive.move("resp_1")
    execute(one.db.path, "DROP TRIGGER no_events")
    assert await one.archive.sweep() == 0  # it is not old enough for other nodes
    assert await sweeper(one).sweep() == 1
    assert await kept(one) == [*events(0, 99, BIG), last]
    assert await listed(one) == [] and await sweeper(one).sweep() == 0


async def test_a_dead_nodes_ended_run_is_listed_when_somebody_looks(
    server: RedisServer, one: Node, two: Node
) -> None:
    last = await over(one)
    await until(lambda: server.command("EXISTS", keys.node_runs("node1")) == 0)
    server.command("DEL", keys.ENDED)
    server.command("SADD", keys.node_runs("node1"), "resp_1")
    assert await two.journal.owned_by("node1") == []
    assert await sweeper(two).sweep() == 1
    assert await kept(two) == [*events(0, 99), last]


async def undecided(made: Node) -> tuple[RunLog, bytes]:
    """A run whose end the store did not take in time."""
    run_log = opened(made.journal, "resp_1")
    made.journal.append(run_log, events(0, 4), 0)
    await made.journal.flush(run_log)
    state = orjson.dumps({"response_id": "resp_1", "state": "failed", "updated_at": 2000.0})
    given = ending(run_log, "failed", http_status=500, run_state=state)
    assert await made.journal.end_undecided(run_log, given)
    return run_log, given.terminal_event


async def test_a_terminal_that_is_in_the_log_alone_is_written_into_the_row(one: Node) -> None:
    _, shown = await undecided(one)
    assert await one.archive.move("resp_1")
    columns = "status, terminal_event, terminal_number, http_status, ended_at"
    assert one.db.rows(f"SELECT {columns} FROM responses") == [("failed", shown, 5, 500, 2000.0)]
    assert await kept(one) == [*events(0, 4), shown]


async def test_what_was_shown_wins_over_a_commit_of_which_nobody_knew(one: Node) -> None:
    run_log = opened(one.journal, "resp_1")
    one.journal.append(run_log, events(0, 4), 0)
    await one.journal.flush(run_log)
    await one.db.writer.submit(records.end(ending(run_log), []))
    state = orjson.dumps({"response_id": "resp_1", "state": "failed", "updated_at": 2000.0})
    given = ending(run_log, "failed", http_status=500, run_state=state)
    assert await one.journal.end_undecided(run_log, given)
    assert await one.archive.move("resp_1")
    assert one.db.rows("SELECT status, terminal_event FROM responses") == [("failed", given.terminal_event)]


async def test_a_log_without_a_row_waits_for_it(one: Node) -> None:
    await undecided(one)
    rows = one.db.rows("SELECT * FROM responses")
    execute(one.db.path, "DELETE FROM responses")
    assert rows and not await one.archive.move("resp_1")
    assert await listed(one) == [b"resp_1"]


async def test_nothing_is_kept_of_a_response_that_was_deleted(server: RedisServer, one: Node) -> None:
    await over(one)
    await one.db.writer.submit(records.delete("resp_1"))
    assert not await one.archive.move("resp_1")
    assert one.db.rows("SELECT COUNT(*) FROM journal") == [(0,)] and await listed(one) == []
    assert 0 < server.command("TTL", keys.run_log("resp_1")) <= 60


async def test_what_is_listed_and_has_not_ended_is_left_to_its_owner(one: Node) -> None:
    run_log = opened(one.journal, "resp_1")
    one.journal.append(run_log, [event(0)], 0)
    await one.journal.flush(run_log)
    await one.side.commands.zadd(keys.ENDED, {"resp_1": 1, "resp_gone": 1})
    assert await sweeper(one).sweep() == 0
    assert await listed(one) == [] and await one.owns(run_log)


async def test_closing_waits_for_what_is_being_moved(server: RedisServer, one: Node) -> None:
    one.journal.on_ended = one.archive.moved_soon
    one.archive.start()
    for number in range(20):
        await over(one, f"resp_{number}", last=10, size=30_000)
    await one.archive.aclose()
    await until(lambda: server.command("ZCARD", keys.ENDED) == 0)
    assert len(one.db.rows("SELECT DISTINCT run_id FROM journal")) == 20


def test_entries_that_do_not_follow_begin_a_row_of_their_own() -> None:
    merger = Merger("resp_1")
    for first, payload in [(0, b"a\nb"), (2, b"c"), (7, b"h")]:
        merger.add(first, payload)
    assert merger.finish() == [("resp_1", 0, 2, b"a\nb\nc"), ("resp_1", 7, 7, b"h")]
    assert merger.finish() == []
