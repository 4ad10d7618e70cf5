"""Every journal: order, once, replay from anywhere, nothing shown too early, one terminal."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.journal.contract import Journal
from antiphon.journal.log import LogOrderError, RunLog
from antiphon.journal.sqlite import SqliteJournal
from antiphon.settings import Settings
from tests.journal.logs import ALL, ended, ending, event, events, everything, flushed, node, opened, until
from tests.store.database import database
from tests.support.redis import redis_server

Kind = Literal["memory", "sqlite", "valkey", "redis6", "valkey, unstored"]
KINDS: list[Kind] = ["memory", "sqlite", "valkey", "redis6", "valkey, unstored"]
STORED: list[Kind] = ["sqlite", "valkey", "redis6"]
DURABLE: list[Kind] = ["sqlite", "valkey", "redis6", "valkey, unstored"]

every_kind = pytest.mark.parametrize("kind", KINDS)
stored_kinds = pytest.mark.parametrize("kind", STORED)
durable_kinds = pytest.mark.parametrize("kind", DURABLE)


@dataclass
class Logs:
    journal: Journal
    stored: bool

    def open(self, run_id: str = "resp_1") -> RunLog:
        return opened(self.journal, run_id, stored=self.stored)


@contextlib.asynccontextmanager
async def logs(kind: Kind, folder: Path, **tables: Any) -> AsyncIterator[Logs]:
    stored = kind not in ("memory", "valkey, unstored")
    async with database(folder) as db:
        if kind in ("memory", "sqlite"):
            journal = SqliteJournal(db.writer, db.reader, Settings(**tables).journal)
            yield Logs(journal, stored)
            await journal.aclose()
            return
        with redis_server("redis6" if kind == "redis6" else "valkey") as server:
            async with node(server, db, **tables) as made:
                yield Logs(made.journal, stored)


async def shown(journal: Journal, run_log: RunLog, after: int = -1, page_bytes: int = 4096) -> list[bytes]:
    """What a reader gets who comes with a cursor."""
    found: list[bytes] = []
    while after + len(found) < run_log.shown:
        page = await journal.read(run_log, after + len(found), page_bytes)
        assert page
        found += page
    return found


@every_kind
async def test_events_are_shown_at_once_in_order_and_once(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path) as given_:
        run_log = given_.open()
        seen: list[bytes] = []
        run_log.listen(lambda batch: seen.extend(batch.events))
        for number in range(0, 300, 3):
            given_.journal.append(run_log, events(number, number + 2), number)
            assert len(seen) == number + 3
        await given_.journal.flush(run_log)
        assert seen == events(0, 299) == await shown(given_.journal, run_log)


@every_kind
async def test_a_number_that_does_not_follow_is_a_fault_and_writes_nothing(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path) as given_:
        run_log = given_.open()
        given_.journal.append(run_log, events(0, 1), 0)
        for wrong in (0, 1, 3):
            with pytest.raises(LogOrderError):
                given_.journal.append(run_log, [event(wrong)], wrong)
        await given_.journal.flush(run_log)
        assert await shown(given_.journal, run_log) == events(0, 1)


@durable_kinds
async def test_events_are_durable_soon_without_being_asked_for(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path) as given_:
        run_log = given_.open()
        for number in range(50):
            given_.journal.append(run_log, [event(number)], number)
            await asyncio.sleep(0)
        await until(lambda: run_log.durable == 49)
        assert await everything(given_.journal, "resp_1") == events(0, 49)


@durable_kinds
async def test_after_a_flush_everything_before_it_is_durable(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path, journal={"flush_ms": 1000}, bus={"flush_ms": 1000}) as given_:
        took_s = []
        for number in range(5):  # one of them is not held up by what else this machine does
            run_log = given_.open(f"resp_{number}")
            given_.journal.append(run_log, events(0, 9), 0)
            began = time.monotonic()
            await given_.journal.flush(run_log)
            took_s.append(time.monotonic() - began)
            assert run_log.durable == 9
            assert await everything(given_.journal, run_log.run_id) == events(0, 9)
        assert min(took_s) < 0.9, "nothing waits for the next time at which it would be written anyway"


@durable_kinds
async def test_replay_from_any_number_gives_what_was_written_after_it(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path, journal={"tail_bytes": 500}) as given_:
        run_ids = (f"resp_{number}" for number in count())

        async def replay(batches: list[int], cuts: list[int], page_bytes: int) -> None:
            run_log = given_.open(next(run_ids))
            for size in batches:
                first = run_log.head + 1
                given_.journal.append(run_log, events(first, first + size - 1, size), first)
                if size % 3 == 0:
                    await given_.journal.flush(run_log)
            await given_.journal.flush(run_log)
            written = await everything(given_.journal, run_log.run_id)
            assert len(written) == sum(batches)
            for cut in {0, len(written), *(cut % (len(written) + 1) for cut in cuts)}:
                assert await shown(given_.journal, run_log, cut - 1, page_bytes) == written[cut:]
                assert await everything(given_.journal, run_log.run_id, cut - 1, page_bytes) == written[cut:]
            given_.journal.close(run_log)

        loop, examples = asyncio.get_running_loop(), []

        @settings(max_examples=25, suppress_health_check=list(HealthCheck))
        @given(
            batches=st.lists(st.integers(1, 40), min_size=1, max_size=20),
            cuts=st.lists(st.integers(0, 1000), max_size=4),
            page_bytes=st.sampled_from([1, 300, ALL]),
        )
        def chosen(batches: list[int], cuts: list[int], page_bytes: int) -> None:
            asyncio.run_coroutine_threadsafe(replay(batches, cuts, page_bytes), loop).result(30)
            examples.append(batches)

        await asyncio.to_thread(chosen)
        assert len(examples) >= 20


@durable_kinds
async def test_what_left_memory_is_read_back(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path, journal={"tail_bytes": 1000}) as given_:
        run_log = given_.open()
        for first in range(0, 200, 20):
            given_.journal.append(run_log, events(first, first + 19), first)
            await given_.journal.flush(run_log)
        assert run_log.first > 150
        assert await shown(given_.journal, run_log) == events(0, 199)


@pytest.mark.parametrize("kind", ["sqlite", "valkey", "redis6"])
async def test_strict_mode_shows_nothing_that_is_not_durable(kind: Kind, tmp_path: Path) -> None:
    strict = {"mode": "strict", "flush_ms": 1000}
    async with logs(kind, tmp_path, journal=strict, bus={"flush_ms": 1000}) as given_:
        run_log = given_.open()
        seen: list[int] = []
        run_log.listen(lambda batch: seen.append(run_log.durable - batch.last))
        given_.journal.append(run_log, events(0, 4), 0)
        assert (run_log.head, run_log.shown, seen) == (4, -1, [])
        await given_.journal.flush(run_log)
        assert run_log.shown == 4 and seen == [0]
        assert await everything(given_.journal, "resp_1") == events(0, 4)


@every_kind
async def test_the_end_is_decided_with_everything_before_it_and_not_shown_before(
    kind: Kind, tmp_path: Path
) -> None:
    async with logs(kind, tmp_path, journal={"flush_ms": 1000}, bus={"flush_ms": 1000}) as given_:
        run_log = given_.open()
        given_.journal.append(run_log, events(0, 9), 0)
        listening: list[bytes] = []
        run_log.listen(lambda batch: listening.extend(batch.events))
        last = await ended(given_.journal, run_log)
        assert listening == [last]
        assert await shown(given_.journal, run_log) == [*events(0, 9), last]
        if kind != "memory":
            assert await everything(given_.journal, "resp_1") == [*events(0, 9), last]


@stored_kinds
async def test_of_two_ends_the_first_counts_and_the_second_is_told(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path) as given_:
        run_log = given_.open()
        given_.journal.append(run_log, events(0, 1), 0)
        first = await given_.journal.end(run_log, ending(run_log), 5)
        again = opened(given_.journal, "resp_1", head=run_log.head)
        second = await given_.journal.end(again, ending(again, "failed"), 5)
        assert first.won and not second.won
        assert second.terminal_event == first.terminal_event
        assert await everything(given_.journal, "resp_1") == [*events(0, 1), first.terminal_event]


@durable_kinds
async def test_closing_the_journal_writes_what_is_left(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path, journal={"flush_ms": 1000}, bus={"flush_ms": 1000}) as given_:
        run_log = given_.open()
        given_.journal.append(run_log, events(0, 1), 0)
        await given_.journal.aclose()
        assert await everything(given_.journal, "resp_1") == events(0, 1)


@every_kind
async def test_a_node_that_is_not_suspended_may_act_at_once(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path) as given_:
        run_log = given_.open()
        given_.journal.append(run_log, [event(0)], 0)
        assert not given_.journal.holds_back(run_log)
        async with asyncio.timeout(40):
            await given_.journal.may_act(run_log)


@durable_kinds
async def test_many_runs_at_once_each_keep_their_own_order(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path) as given_:
        every = [given_.open(f"resp_{number}") for number in range(30)]
        for number in range(60):
            for run_log in every:
                given_.journal.append(run_log, [event(number)], number)
            await asyncio.sleep(0)
        for run_log in every:
            await flushed(given_.journal, run_log)
        for run_log in every:
            assert await everything(given_.journal, run_log.run_id) == events(0, 59)


@durable_kinds
async def test_a_flush_whose_caller_was_cancelled_holds_up_nothing(kind: Kind, tmp_path: Path) -> None:
    async with logs(kind, tmp_path) as given_:
        run_log = given_.open()
        given_.journal.append(run_log, [event(0)], 0)
        flushing = asyncio.create_task(given_.journal.flush(run_log))
        await asyncio.sleep(0)
        flushing.cancel()
        await asyncio.gather(flushing, return_exceptions=True)
        given_.journal.append(run_log, [event(1)], 1)
        await given_.journal.flush(run_log)
        assert await everything(given_.journal, "resp_1") == events(0, 1)
