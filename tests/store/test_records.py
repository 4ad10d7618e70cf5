"""What is written about one run: the guarded terminal, takeover, deletion, expiry; and how it is read back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.errors import StorageError
from antiphon.store import records
from antiphon.store.records import Verdict
from antiphon.store.responses import turn_of_chain
from tests.store.database import database, ending, new_response


async def test_of_two_writers_that_race_for_the_terminal_exactly_one_wins_every_time(place: Path | str) -> None:
    names = [f"resp_{n}" for n in range(500)]
    async with database(place) as first, database(place) as second:
        await asyncio.gather(*(first.writer.submit(records.begin(new_response(name), None)) for name in names))

        async def race(name: str) -> list[Verdict]:
            terminals = [(first, ending(name, "completed")), (second, ending(name, "cancelled"))]
            if int(name[5:]) % 2:
                terminals.reverse()
            submitted = [
                db.writer.submit(
                    records.end(end, [(name, end.terminal_number, end.terminal_number, end.terminal_event)])
                )
                for db, end in terminals
            ]
            return await asyncio.gather(*submitted)

        verdicts = await asyncio.gather(*(race(name) for name in names))
        rows = dict(first.rows("SELECT id, terminal_event FROM responses"))
        log = dict(first.rows("SELECT run_id, payload FROM journal"))
    winners = set()
    for name, (one, other) in zip(names, verdicts, strict=True):
        assert one.won != other.won
        assert one.terminal_event == other.terminal_event == log[name] == rows[name]
        winners.add(one.won)
    assert len(log) == 500 and winners == {True, False}


async def test_a_terminal_is_written_once_and_the_loser_is_told_who_won(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        first = await db.writer.submit(records.end(ending("resp_1", "cancelled"), []))
        second = await db.writer.submit(records.end(ending("resp_1", "completed"), [("resp_1", 9, 9, b"{}")]))
        stored = await db.reader.find("resp_1")
        assert first.won and not second.won
        assert second.terminal_event == first.terminal_event and second.terminal_number == 2
        assert stored is not None and stored.status == "cancelled"
        assert await db.reader.head("resp_1") == -1


async def test_an_owner_whose_fence_was_passed_can_no_longer_end_its_run(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        assert await db.writer.submit(records.take_over("resp_1", None)) == 2
        old = await db.writer.submit(records.end(ending("resp_1", fence=1), []))
        assert old == Verdict(False, None, None)
        assert (await db.writer.submit(records.end(ending("resp_1", "failed", fence=2), []))).won


async def test_row_and_last_chunk_are_written_together_or_not_at_all(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        await db.writer.submit(records.append_chunks([("resp_1", 2, 2, b"{}")]))
        with pytest.raises(StorageError):
            await db.writer.submit(records.end(ending("resp_1"), [("resp_1", 2, 2, b"{}")]))
        stored = await db.reader.find("resp_1")
        assert stored is not None and stored.terminal_event is None and stored.status == "in_progress"


async def test_a_number_that_is_in_the_log_cannot_be_written_again(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.append_chunks([("resp_1", 0, 1, b"{}\n{}")]))
        with pytest.raises(StorageError):
            await db.writer.submit(records.append_chunks([("resp_1", 0, 0, b"{}")]))
        await db.writer.submit(records.append_chunks([("resp_2", 0, 0, b"{}")]))


async def test_events_page_over_chunks_without_a_hole_from_any_number(place: Path | str) -> None:
    events = [b'{"n":%d,"x":"%b"}' % (n, b"y" * (n % 7)) for n in range(500)]
    async with database(place) as db:
        start, chunks = 0, []
        while start < 500:
            size = 1 + start % 5
            chunks.append(("resp_1", start, min(start + size, 500) - 1, b"\n".join(events[start : start + size])))
            start += size
        await db.writer.submit(records.append_chunks(chunks))
        for max_bytes in (1, 100, 10_000_000):
            for after in (-1, 0, 1, 2, 250, 498, 499, 600):
                got: list[bytes] = []
                while True:
                    first, page = await db.reader.events("resp_1", after + len(got), max_bytes)
                    if not page:
                        break
                    assert first == after + len(got) + 1
                    got += page
                    if max_bytes == 1 and len(got) > 20:
                        break
                assert got == events[after + 1 :][: len(got)]
                if max_bytes > 1:
                    assert len(got) == max(0, 499 - after)
        assert await db.reader.head("resp_1") == 499 and await db.reader.head("resp_2") == -1


async def test_a_hole_in_the_log_ends_the_page_before_it(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.append_chunks([("resp_1", 0, 1, b"a\nb"), ("resp_1", 3, 3, b"d")]))
        assert await db.reader.events("resp_1", -1, 1000) == (0, [b"a", b"b"])
        assert await db.reader.events("resp_1", 1, 1000) == (3, [b"d"])


async def test_a_chain_is_read_newest_first_within_one_tenant_and_is_none_if_a_part_is_gone(
    place: Path | str,
) -> None:
    async with database(place) as db:
        parent = None
        for n in range(50):
            row = new_response(f"resp_{n}", parent=parent, input=b'{"n":%d}' % n)
            await db.writer.submit(records.begin(row, None))
            await db.writer.submit(records.end(ending(row.id, context_output=b'{"o":%d}' % n), []))
            parent = row.id
        await db.writer.submit(records.begin(new_response("resp_other", tenant="t2"), None))
        turn = turn_of_chain(await db.reader.chain("resp_49", "default"))
        assert turn is not None
        assert [t.response_id for t in turn.chain()] == [f"resp_{n}" for n in reversed(range(50))]
        assert [t.input for t in turn.chain()][:2] == [b'{"n":49}', b'{"n":48}']
        assert turn_of_chain(await db.reader.chain("resp_49", "t2")) is None
        assert turn_of_chain(await db.reader.chain("resp_other", "default")) is None
        assert turn_of_chain(await db.reader.chain("resp_nobody", "default")) is None
        await db.writer.submit(records.delete("resp_20"))
        assert turn_of_chain(await db.reader.chain("resp_49", "default")) is None
        assert turn_of_chain(await db.reader.chain("resp_19", "default")) is not None


async def test_a_chain_that_bites_its_tail_is_no_chain(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_a", parent="resp_b"), None))
        await db.writer.submit(records.begin(new_response("resp_b", parent="resp_a"), None))
        async with asyncio.timeout(40):
            assert turn_of_chain(await db.reader.chain("resp_a", "default")) is None


async def test_a_deleted_row_says_nothing_and_its_id_is_not_free_again(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        await db.writer.submit(records.end(ending("resp_1"), [("resp_1", 0, 2, b"a\nb\nc")]))
        await db.writer.submit(records.delete("resp_1"))
        assert await db.reader.find("resp_1") is None and await db.reader.head("resp_1") == -1
        assert await db.reader.unfinished() == [] and await db.reader.terminal_without_event() == []
        with pytest.raises(StorageError):
            await db.writer.submit(records.begin(new_response("resp_1"), None))


async def test_expiry_takes_old_logs_of_ended_runs_and_leaves_their_responses(place: Path | str) -> None:
    async with database(place) as db:
        for name, ended_at in (("resp_old", 100.0), ("resp_new", 300.0)):
            await db.writer.submit(records.begin(new_response(name), None))
            await db.writer.submit(records.end(ending(name, ended_at=ended_at), [(name, 0, 2, b"a\nb\nc")]))
        await db.writer.submit(records.begin(new_response("resp_live"), None))
        await db.writer.submit(records.append_chunks([("resp_live", 0, 0, b"a")]))
        assert await db.writer.submit(records.expire(200.0, 0, 100)) == 1
        assert await db.writer.submit(records.expire(200.0, 0, 100)) == 0
        heads = [await db.reader.head(name) for name in ("resp_old", "resp_new", "resp_live")]
        assert heads == [-1, 2, 0]
        assert await db.reader.find("resp_old") is not None
        assert await db.reader.terminal_without_event() == []
