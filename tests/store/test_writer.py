"""The one writer: groups, order, failures that stay where they belong, and a clean end."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StorageError
from antiphon.store import records
from antiphon.store.writing import StoreConnection
from tests.store.database import WAIT_S, database, locked


def note(value: int) -> Any:
    def work(connection: StoreConnection) -> int:
        connection.execute("INSERT INTO notes VALUES (?)", (value,))
        return value

    return work


async def with_notes(db: Any) -> None:
    await db.writer.submit(lambda connection: connection.execute("CREATE TABLE notes (value INTEGER)") and None)


class Gate:
    """Work that holds the writer's thread until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.release = threading.Event()

    def __call__(self, connection: StoreConnection) -> None:
        self.entered.set()
        assert self.release.wait(WAIT_S)


async def test_results_come_back_and_what_is_answered_is_committed(place: Path | str) -> None:
    async with database(place) as db:
        await with_notes(db)
        assert await asyncio.gather(*(db.writer.submit(note(n)) for n in range(1000))) == list(range(1000))
        assert [row[0] for row in db.rows("SELECT value FROM notes ORDER BY value")] == list(range(1000))


async def test_submissions_that_wait_go_into_one_transaction_in_their_order(place: Path | str) -> None:
    async with database(place) as db:
        await with_notes(db)
        gate = Gate()
        first = db.writer.submit(gate)
        await asyncio.to_thread(gate.entered.wait, WAIT_S)
        seen: list[bool] = []

        def look(connection: StoreConnection) -> None:
            seen.append(connection.execute("SELECT count(*) FROM notes").fetchone()[0] == 3)
            seen.append(len(db.rows("SELECT * FROM notes")) == 0)  # not committed yet

        rest = [db.writer.submit(note(n)) for n in range(3)] + [db.writer.submit(look)]
        gate.release.set()
        await asyncio.gather(first, *rest)
        assert seen == [True, True]


async def test_values_larger_than_any_socket_takes_are_written_together(place: Path | str) -> None:
    chunks = [("resp_1", n, n, bytes([65 + n]) * 12_000_000) for n in range(3)]
    async with database(place) as db:
        async with asyncio.timeout(WAIT_S):
            await db.writer.submit(records.append_chunks(chunks))
        sizes = db.rows("SELECT LENGTH(payload) FROM journal ORDER BY first")
        assert sizes == [(12_000_000,)] * 3


async def test_what_goes_out_with_the_commit_can_fail_and_costs_the_others_of_its_group_nothing(
    place: Path | str,
) -> None:
    chunk = ("resp_1", 0, 0, b"{}")
    async with database(place) as db:
        gate = Gate()
        first = db.writer.submit(gate)
        await asyncio.to_thread(gate.entered.wait, WAIT_S)
        twice = [db.writer.submit(records.append_chunks([chunk])) for _ in range(2)]
        gate.release.set()
        _, won, refused = await asyncio.gather(first, *twice, return_exceptions=True)
        assert won is None and isinstance(refused, StorageError)
        await db.writer.submit(records.append_chunks([("resp_1", 1, 1, b"{}")]))
        assert db.rows("SELECT first FROM journal ORDER BY first") == [(0,), (1,)]


@pytest.mark.parametrize("broken", [{3}, {0, 4}, set(range(8))])
async def test_one_bad_submission_costs_the_others_of_its_group_nothing(
    place: Path | str, broken: set[int]
) -> None:
    def bad(connection: StoreConnection) -> None:
        connection.execute("INSERT INTO notes VALUES (-1)")
        connection.execute("INSERT INTO nowhere VALUES (1)")

    async with database(place) as db:
        await with_notes(db)
        gate = Gate()
        first = db.writer.submit(gate)
        await asyncio.to_thread(gate.entered.wait, WAIT_S)
        group = [db.writer.submit(bad if n in broken else note(n)) for n in range(8)]
        gate.release.set()
        results = await asyncio.gather(first, *group, return_exceptions=True)
        for n, result in enumerate(results[1:]):
            if n in broken:
                assert isinstance(result, StorageError) and "nowhere" in str(result.__cause__)
            else:
                assert result == n
        assert [row[0] for row in db.rows("SELECT value FROM notes ORDER BY value")] == [
            n for n in range(8) if n not in broken
        ]


async def test_work_that_raises_what_no_database_raises_does_not_end_the_writer(place: Path | str) -> None:
    async with database(place) as db:
        await with_notes(db)
        with pytest.raises(StorageError):
            await db.writer.submit(lambda connection: 1 // 0)
        assert await db.writer.submit(note(1)) == 1


async def test_a_waiter_that_gave_up_costs_nobody_anything(place: Path | str) -> None:
    async with database(place) as db:
        await with_notes(db)
        gate = Gate()
        first = db.writer.submit(gate)
        impatient = db.writer.submit(note(1))
        impatient.cancel()
        second = db.writer.submit(note(2))
        gate.release.set()
        assert await asyncio.gather(first, second) == [None, 2]
        assert db.rows("SELECT value FROM notes ORDER BY value") == [(1,), (2,)]


async def test_stopping_writes_everything_that_was_submitted_and_takes_no_more(place: Path | str) -> None:
    async with database(place) as db:
        await with_notes(db)
        gate = Gate()
        db.writer.submit(gate)
        waiting = [db.writer.submit(note(n)) for n in range(600)]
        stopping = asyncio.ensure_future(db.writer.stop())
        await asyncio.sleep(0)
        with pytest.raises(StorageError):
            db.writer.submit(note(-1))
        gate.release.set()
        async with asyncio.timeout(WAIT_S):
            await stopping
            assert await asyncio.gather(*waiting) == list(range(600))
        assert len(db.rows("SELECT * FROM notes")) == 600
        with pytest.raises(StorageError):
            db.writer.submit(note(-1))


async def test_a_database_that_is_locked_fails_all_that_waits_at_once_and_not_one_after_the_other(
    tmp_path: Path,
) -> None:
    async with database(tmp_path) as db:
        await with_notes(db)
        await db.writer.submit(lambda connection: connection.execute("PRAGMA busy_timeout = 200") and None)
        with locked(db.path):
            started = time.monotonic()
            results = await asyncio.gather(
                *(db.writer.submit(note(n)) for n in range(100)), return_exceptions=True
            )
            took_s = time.monotonic() - started
        assert all(isinstance(result, StorageError) for result in results)
        assert took_s < 5
        assert await db.writer.submit(note(7)) == 7


@pytest.mark.parametrize(("full_sync", "level"), [(False, 1), (True, 2)])
async def test_strict_mode_syncs_to_the_disk_and_both_use_the_write_ahead_log(
    tmp_path: Path, full_sync: bool, level: int
) -> None:
    async with database(tmp_path, full_sync=full_sync) as db:
        assert await db.writer.submit(lambda c: c.execute("PRAGMA synchronous").fetchone()[0]) == level
        assert await db.writer.submit(lambda c: c.execute("PRAGMA journal_mode").fetchone()[0]) == "wal"


async def test_readers_cannot_write(place: Path | str) -> None:
    import sqlalchemy

    async with database(place) as db:
        with pytest.raises(StorageError):
            await db.reader._all(sqlalchemy.text("DELETE FROM responses"))  # type: ignore[arg-type]
