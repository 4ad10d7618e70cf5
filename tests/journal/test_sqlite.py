"""The journal on SQLite: what fails is tried again, nothing is lost or doubled, strict shows what is durable."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.cursor import Epochs
from antiphon.errors import StorageError
from antiphon.journal.log import LogOrderError, RunLog
from antiphon.journal.sqlite import SqliteJournal
from antiphon.settings.storage import JournalSettings
from antiphon.store.records import ConversationTaken
from antiphon.store.writer import SqliteWriter
from tests.http.calling import begin, follow, get, script, until
from tests.journal.logs import run_state
from tests.store.database import NO_EVENTS, Database, database, ending, execute, locked, new_response
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.ws_client import ws_client

EPOCHS = Epochs.starting("a" * 16)


def event(number: int) -> bytes:
    return b'{"type":"x","sequence_number":%d}' % number


def opened(db: Database, run_id: str, **settings: Any) -> tuple[SqliteJournal, RunLog]:
    journal = SqliteJournal(db.writer, db.reader, JournalSettings(**settings))
    run_log = journal.open(run_id, EPOCHS, stored=True, state=run_state(run_id))
    journal.begin(run_log, new_response(run_id), None)
    return journal, run_log


def fail_each(writer: SqliteWriter, fails: Callable[[int], bool]) -> list[int]:
    """Make submissions whose number `fails` names fail in their transaction; the numbers that did."""
    submit, failed, count = writer.submit, [], 0

    def failing(work: Callable[[sqlite3.Connection], Any]) -> Any:
        nonlocal count
        count += 1
        if not fails(count):
            return submit(work)
        failed.append(count)

        def broken(connection: sqlite3.Connection) -> Any:
            work(connection)
            raise sqlite3.OperationalError("disk I/O error")

        return submit(broken)

    writer.submit = failing  # type: ignore[method-assign]
    return failed


async def stored_events(db: Database, run_id: str) -> list[bytes]:
    events: list[bytes] = []
    while True:
        _, page = await db.reader.events(run_id, len(events) - 1, 1_000_000)
        if not page:
            return events
        events += page


async def test_events_are_durable_within_the_flush_time_in_order_and_once(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, run_log = opened(db, "resp_1", flush_ms=5)
        for n in range(300):
            journal.append(run_log, [event(n)], n)
            if n % 10 == 0:
                await asyncio.sleep(0.002)
        await until(lambda: run_log.durable == 299)
        assert await stored_events(db, "resp_1") == [event(n) for n in range(300)]


async def test_a_number_that_does_not_follow_is_a_fault_and_writes_nothing(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, run_log = opened(db, "resp_1")
        journal.append(run_log, [event(0), event(1)], 0)
        for wrong in (0, 1, 3):
            with pytest.raises(LogOrderError):
                journal.append(run_log, [event(wrong)], wrong)
        await journal.flush(run_log)
        assert await stored_events(db, "resp_1") == [event(0), event(1)]


@pytest.mark.parametrize("every", [2, 3, 50])
async def test_when_every_nth_write_fails_nothing_is_lost_doubled_or_out_of_order(
    tmp_path: Path, every: int
) -> None:
    runs = 4
    async with database(tmp_path) as db:
        journal = SqliteJournal(db.writer, db.reader, JournalSettings(flush_ms=1))
        logs = [journal.open(f"resp_{i}", EPOCHS, stored=True, state=run_state(f"resp_{i}")) for i in range(runs)]
        for i, run_log in enumerate(logs):
            journal.begin(run_log, new_response(f"resp_{i}"), None)
        failed = fail_each(db.writer, lambda n: n % every == 0)
        for n in range(200):
            for run_log in logs:
                journal.append(run_log, [event(n)], n)
            await asyncio.sleep(0.002)
        for i, run_log in enumerate(logs):
            async with asyncio.timeout(40):
                while True:
                    try:
                        verdict = await journal.end(run_log, ending(f"resp_{i}", number=200), 10)
                        break
                    except StorageError:
                        await asyncio.sleep(0.01)
            assert verdict.won
        for i in range(runs):
            wanted = [*(event(n) for n in range(200)), ending(f"resp_{i}", number=200).terminal_event]
            assert await stored_events(db, f"resp_{i}") == wanted
        assert failed and journal.healthy


async def test_a_write_that_fails_for_one_run_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, good = opened(db, "resp_good", flush_ms=1)
        bad = journal.open("resp_bad", EPOCHS, stored=True, state=run_state("resp_bad"))
        only_bad = NO_EVENTS.replace(
            "BEFORE INSERT ON journal", "BEFORE INSERT ON journal WHEN NEW.run_id = 'resp_bad'"
        )
        execute(db.path, only_bad)
        journal.append(good, [event(0)], 0)
        journal.append(bad, [event(0)], 0)
        await until(lambda: good.durable == 0)
        journal.append(good, [event(1)], 1)
        await until(lambda: good.durable == 1)
        assert bad.durable == -1
        execute(db.path, "DROP TRIGGER no_events")
        await until(lambda: bad.durable == 0)
        assert await stored_events(db, "resp_bad") == [event(0)]


async def test_the_end_of_a_run_does_not_wait_for_ever_for_events_that_the_store_refuses(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, run_log = opened(db, "resp_1", flush_ms=1)
        execute(db.path, NO_EVENTS)
        journal.append(run_log, [event(0)], 0)
        await until(lambda: not journal.healthy)
        async with asyncio.timeout(30):
            with pytest.raises(StorageError):
                await journal.end(run_log, ending("resp_1", number=1), 0.1)
        journal.close(run_log)


def slow_first_write(writer: SqliteWriter) -> threading.Event:
    """Keep the next submission from being written until the event is set."""
    submit, may = writer.submit, threading.Event()

    def held_up(work: Callable[[sqlite3.Connection], Any]) -> Any:
        def later(connection: sqlite3.Connection) -> Any:
            assert may.wait(10)
            return work(connection)

        writer.submit = submit  # type: ignore[method-assign]
        return submit(later)

    writer.submit = held_up  # type: ignore[method-assign]
    return may


async def test_a_flush_waits_for_a_checkpoint_that_is_on_its_way_alone(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, run_log = opened(db, "resp_1", flush_ms=1000)
        await journal.flush(run_log)
        may = slow_first_write(db.writer)
        journal.checkpoint(run_log, b"kept")
        first = asyncio.create_task(journal.flush(run_log))
        await asyncio.sleep(0)
        second = asyncio.create_task(journal.flush(run_log))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not second.done()
        may.set()
        await second
        assert db.rows("SELECT payload FROM checkpoints") == [(b"kept",)]
        await first


async def test_a_flush_whose_caller_was_cancelled_is_carried_through_and_holds_up_nothing(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, run_log = opened(db, "resp_1", flush_ms=5)
        may = slow_first_write(db.writer)
        journal.append(run_log, [event(0)], 0)
        flushing = asyncio.create_task(journal.flush(run_log))
        await asyncio.sleep(0)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        may.set()
        journal.append(run_log, [event(1)], 1)
        await until(lambda: run_log.durable == 1)
        assert await stored_events(db, "resp_1") == [event(0), event(1)]


async def test_events_leave_memory_only_when_they_are_durable_and_are_read_back(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, run_log = opened(db, "resp_1", flush_ms=1, tail_bytes=1000)
        with locked(db.path):
            for n in range(200):
                journal.append(run_log, [event(n)], n)
            await asyncio.sleep(0.02)
            assert run_log.first == 0 and run_log.page(-1, 1_000_000) == [event(n) for n in range(200)]
        await until(lambda: run_log.durable == 199)
        assert run_log.first > 150
        got: list[bytes] = []
        while len(got) < 200:
            page = await journal.read(run_log, len(got) - 1, 500)
            assert page
            got += page
        assert got == [event(n) for n in range(200)]


async def test_closing_writes_what_is_left(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal, run_log = opened(db, "resp_1", flush_ms=1000)
        journal.append(run_log, [event(0), event(1)], 0)
        await journal.aclose()
        assert await stored_events(db, "resp_1") == [event(0), event(1)]


async def test_strict_mode_shows_no_frame_before_it_is_durable() -> None:
    async with running_server(journal={"mode": "strict"}) as server:
        model = script(server, "paced", "[[turns]]\n[[turns.steps]]\ntext='w{n} '\nrate=100\nrepeat=20")
        async with ws_client(server.ws_url) as socket:
            with locked(server.app.settings.database_path):
                await socket.create(model=model)
                await until(lambda: len(server.app.registry) == 1)
                (state,) = list(server.app.registry)
                run_log = server.app.engine.supervisor._directory._runs[state.response_id].log
                await until(lambda: run_log.head > 12)
                assert (run_log.shown, run_log.durable) == (-1, -1)
                assert socket.received == []
                reply = await asyncio.wait_for(socket.command("antiphon:ping"), 30)
                assert reply["type"] == "antiphon:pong" and len(socket.received) == 1
            events = await socket.collect_run()
        run = check_run(events)
        assert (await follow(server, str(run.response_id))).payloads == [dict(event) for event in events]


async def test_in_strict_mode_a_get_says_no_more_than_the_log_shows() -> None:
    async with running_server(journal={"mode": "strict", "flush_ms": 1000}) as server:
        model = script(server, "paced", "[[turns]]\n[[turns.steps]]\ntext='w{n} '\nrate=100\nrepeat=1000")
        response_id = await begin(server, model=model)
        run_log = server.app.engine.supervisor._directory._runs[response_id].log
        await until(lambda: run_log.head > 20)
        text = (await get(server, f"/v1/responses/{response_id}")).json()["output"][0]["content"][0]["text"]
        shown = run_log.page(-1, 10_000_000)
        assert shown is not None
        assert text in "".join(_delta(event) for event in shown)


def _delta(event: bytes) -> str:
    parsed = json.loads(event)
    return str(parsed["delta"]) if parsed["type"] == "response.output_text.delta" else ""


async def test_relaxed_mode_shows_events_while_the_store_is_busy_but_never_the_terminal() -> None:
    async with running_server() as server:
        async with ws_client(server.ws_url) as socket:
            with locked(server.app.settings.database_path):
                await socket.create(input="one two")
                seen = await socket.recv_until(lambda event: event["type"] == "response.output_text.delta")
                await until(lambda: any(s.head >= 1 for s in server.app.registry))
                reply = await asyncio.wait_for(socket.command("antiphon:ping"), 30)
                assert reply["type"] == "antiphon:pong"
                assert not any(frame["type"] == "response.completed" for frame in socket.received)
                assert (await get(server, f"/v1/responses/{seen[0]['response']['id']}")).json()[
                    "status"
                ] == "in_progress"
            assert check_run([*seen, *await socket.collect_run()]).text == "one two"


async def test_a_row_that_the_store_refuses_by_a_rule_says_nothing_against_the_store(tmp_path: Path) -> None:
    async with database(tmp_path) as db:
        journal = SqliteJournal(db.writer, db.reader, JournalSettings())
        run_log = journal.open("resp_1", EPOCHS, stored=True, state=run_state("resp_1"))
        journal.begin(run_log, new_response("resp_1", writes=("conv_gone", 0)), None)
        with pytest.raises(ConversationTaken):
            await journal.flush(run_log)
        assert journal.healthy
        journal.close(run_log)
        assert db.rows("SELECT id FROM responses") == []
