"""What is written again because its answer was lost, or by two nodes at once, is there once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.core.held_calls import Resolution
from antiphon.errors import StorageError
from antiphon.store import cluster, held_results, records
from antiphon.store.records import IdempotencyRecord, KeyTaken, RowTaken, Verdict
from tests.store.database import database, ending, new_response

FORKED = '[["aaaaaaaaaaaaaaaa",0],["bbbbbbbbbbbbbbbb",7]]'


def key(response_id: str, *, body: bytes = b"one", expires_at: float = 2000.0) -> IdempotencyRecord:
    return IdempotencyRecord("default", "user:local", "k", body, response_id, expires_at)


async def test_a_run_that_is_begun_again_is_begun_once(place: Path | str) -> None:
    row = new_response("resp_1", item_ids=["msg_1"])
    async with database(place) as db:
        for _ in range(3):
            await db.writer.submit(records.begin(row, key("resp_1")))
        assert db.rows("SELECT id, response_id FROM items") == [("msg_1", "resp_1")]
        assert db.rows("SELECT response_id FROM idempotency") == [("resp_1",)]
        assert [stored.id for stored in await db.reader.unfinished()] == ["resp_1"]


async def test_an_id_that_another_run_or_a_deleted_one_has_is_refused(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        with pytest.raises(RowTaken):
            await db.writer.submit(records.begin(new_response("resp_1", epochs=FORKED), key("resp_1")))
        assert db.rows("SELECT * FROM idempotency") == []
        await db.writer.submit(records.delete("resp_1"))
        with pytest.raises(RowTaken):
            await db.writer.submit(records.begin(new_response("resp_1"), None))


async def test_of_two_nodes_that_begin_with_one_key_exactly_one_does_and_the_other_learns_which(
    place: Path | str,
) -> None:
    async with database(place) as one, database(place) as two:
        for n in range(50):
            names = (f"resp_a{n}", f"resp_b{n}")
            tries = [
                db.writer.submit(records.begin(new_response(name), replace(key(name), key=f"k{n}")))
                for db, name in zip((one, two), names, strict=True)
            ]
            results = await asyncio.gather(*tries, return_exceptions=True)
            lost = [result for result in results if isinstance(result, KeyTaken)]
            assert len(lost) == 1 and results.count(None) == 1
            winner = names[results.index(None)]
            assert (lost[0].response_id, lost[0].body_sha256) == (winner, b"one")
            assert [await one.reader.find(name) is not None for name in names] == [
                name == winner for name in names
            ]


async def test_a_key_is_free_again_when_it_has_expired_or_its_response_is_gone(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), key("resp_1", expires_at=1000.0)))
        await db.writer.submit(records.begin(new_response("resp_2"), key("resp_2", body=b"two")))
        with pytest.raises(KeyTaken) as taken:
            await db.writer.submit(records.begin(new_response("resp_3"), key("resp_3")))
        assert (taken.value.response_id, taken.value.body_sha256) == ("resp_2", b"two")
        known_as_gone = replace(key("resp_3"), replaces="resp_2")
        await db.writer.submit(records.begin(new_response("resp_3"), known_as_gone))
        assert await db.reader.idempotent("default", "user:local", "k", 1500.0) == (b"one", "resp_3")


async def test_one_taken_key_costs_the_others_of_its_group_nothing(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), key("resp_1")))
        group = [
            db.writer.submit(records.begin(new_response(f"resp_{n}"), key(f"resp_{n}") if n == 5 else None))
            for n in range(2, 9)
        ]
        results = await asyncio.gather(*group, return_exceptions=True)
        assert [n for n, result in enumerate(results, 2) if result is not None] == [5]
        assert len(await db.reader.unfinished()) == 7


async def test_an_end_that_is_written_again_is_told_the_stored_terminal(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        end = ending("resp_1", item_ids=[("msg_1", None)])
        first = await db.writer.submit(records.end(end, [("resp_1", 2, 2, end.terminal_event)]))
        again = await db.writer.submit(records.end(end, [("resp_1", 2, 2, end.terminal_event)]))
        assert first == Verdict(True, end.terminal_event, 2)
        assert again == Verdict(False, end.terminal_event, 2)


async def test_the_terminal_that_was_shown_goes_over_the_one_in_the_row(place: Path | str) -> None:
    async with database(place) as db:
        for name in ("resp_1", "resp_2"):
            await db.writer.submit(records.begin(new_response(name), None))
            await db.writer.submit(records.end(ending(name, "completed"), []))
        shown = ending("resp_1", "failed", number=5)
        assert await db.writer.submit(records.overrule(shown)) == Verdict(True, shown.terminal_event, 5)
        stored = await db.reader.find("resp_1")
        assert stored is not None and (stored.status, stored.terminal_event) == ("failed", shown.terminal_event)
        await db.writer.submit(records.take_over("resp_2", None, fence=4))
        assert not (await db.writer.submit(records.overrule(ending("resp_2", "failed", fence=3)))).won


async def test_a_fence_is_raised_to_what_was_agreed_and_never_lowered(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        assert await db.writer.submit(records.take_over("resp_1", FORKED, fence=5)) == 5
        assert await db.writer.submit(records.take_over("resp_1", FORKED, fence=5)) == 5
        assert await db.writer.submit(records.take_over("resp_1", "[]", fence=3)) == 5
        stored = await db.reader.find("resp_1")
        assert stored is not None and len(stored.epochs.entries) == 2
        assert await db.writer.submit(records.take_over("resp_1", None)) == 6
        assert await db.writer.submit(records.take_over("resp_nobody", None, fence=2)) == 0


@pytest.mark.parametrize(
    "again",
    [
        [(0, 4)],
        [(0, 2), (3, 4)],
        [(3, 4)],
        [(0, 7)],
        [(3, 7)],
        [(5, 7)],
        [(0, 4), (5, 7)],
    ],
)
async def test_events_that_are_moved_again_in_other_pieces_are_kept_once(
    place: Path | str, again: list[tuple[int, int]]
) -> None:
    events = [b'{"n":%d}' % n for n in range(8)]

    def chunk(first: int, last: int) -> records.Chunk:
        return ("resp_1", first, last, b"\n".join(events[first : last + 1]))

    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        await db.writer.submit(records.keep_chunks([chunk(0, 1), chunk(2, 4)]))
        await db.writer.submit(records.keep_chunks([chunk(*piece) for piece in again]))
        head = max(4, again[-1][1])
        assert await db.reader.events("resp_1", -1, 1_000_000) == (0, events[: head + 1])
        kept = db.rows("SELECT first, last FROM journal ORDER BY first")
        assert [n for first, last in kept for n in range(first, last + 1)] == list(range(head + 1))


async def test_two_nodes_that_move_one_log_at_once_keep_it_once(place: Path | str) -> None:
    async with database(place) as one, database(place) as two:
        await one.writer.submit(records.begin(new_response("resp_1"), None))
        moves = []
        for n in range(0, 60, 3):
            for db, size in ((one, 3), (two, 6)):
                first, last = n - n % size, n - n % size + size - 1
                payload = b"\n".join(b"%d" % number for number in range(first, last + 1))
                moves.append(db.writer.submit(records.keep_chunks([("resp_1", first, last, payload)])))
        await asyncio.gather(*moves)
        kept = one.rows("SELECT first, last FROM journal ORDER BY first")
        assert [n for first, last in kept for n in range(first, last + 1)] == list(range(60))


async def test_an_answer_that_is_written_again_is_the_one_that_won(place: Path | str) -> None:
    item = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    mine = Resolution("c1", item, "key:anna", "connection:c1", "r-1", 10.0)
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        for _ in range(2):
            assert (await db.writer.submit(held_results.insert("resp_1", [mine], 1))).won
        assert await db.reader.held_results("resp_1") == [mine]


async def test_of_what_all_nodes_share_the_first_value_counts(place: Path | str) -> None:
    async with database(place) as one, database(place) as two:
        assert await one.writer.submit(cluster.read("seal_key")) is None
        keys = await asyncio.gather(*(cluster.seal_key(db.writer) for db in (one, two) for _ in range(5)))
        assert len(set(keys)) == 1 and len(keys[0]) >= 32
        assert await one.writer.submit(cluster.read("seal_key")) == keys[0].encode()
        assert await cluster.database_id(one.writer) == await cluster.database_id(two.writer)


async def test_text_with_nul_characters_is_written_and_found(place: Path | str) -> None:
    nul = "a\x00b"
    async with database(place) as db:
        row = new_response("resp_1", tenant=nul, conversation_id=nul)
        await db.writer.submit(records.begin(row, replace(key("resp_1"), key=nul)))
        await db.writer.submit(records.end(ending("resp_1"), []))
        assert await db.reader.newest_ended(nul, nul, None) is not None
        assert await db.reader.idempotent("default", "user:local", nul, 1500.0) == (b"one", "resp_1")
        with pytest.raises(KeyTaken):
            await db.writer.submit(records.begin(new_response("resp_2"), replace(key("resp_2"), key=nul)))


async def test_bytes_come_back_as_they_went_in(place: Path | str) -> None:
    every = bytes(range(256)) * 4
    async with database(place) as db:
        assert await db.writer.submit(cluster.keep("every", every)) == every
        await db.writer.submit(records.append_chunks([("resp_1", 0, 0, b'"' + b"x" * 3_000_000 + b'"')]))
        assert (await db.reader.events("resp_1", -1, 1))[1] == [b'"' + b"x" * 3_000_000 + b'"']
        with pytest.raises(StorageError):
            await db.writer.submit(records.append_chunks([("resp_1", 0, 0, b"{}")]))
