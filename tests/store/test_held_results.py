"""Answers of held calls in the database: the first one counts, lists are atomic, ended runs take none."""

from __future__ import annotations

import asyncio
from pathlib import Path

from antiphon.core.held_calls import Claim, Resolution
from antiphon.store import held_results, records
from tests.store.database import database, ending, new_response


def answer(call_id: str, by: str = "key:anna", text: str = "x", at: float = 10.0) -> Resolution:
    item = {"type": "function_call_output", "call_id": call_id, "output": text}
    return Resolution(call_id, item, by, "connection:c1", "r-1", at)


async def test_an_answer_reads_back_as_it_was_written_oldest_first(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        later, earlier = answer("c1", at=20.0), answer("c2", at=10.0)
        assert (await db.writer.submit(held_results.insert("resp_1", [later], 1))).won
        assert (await db.writer.submit(held_results.insert("resp_1", [earlier], 1))).won
        assert await db.reader.held_results("resp_1") == [earlier, later]
        assert await db.reader.held_results("resp_2") == []


async def test_the_second_answer_is_not_written_and_is_told_the_first(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        first, second = answer("c1", text="first"), answer("c1", "key:bob", "second")
        both = [db.writer.submit(held_results.insert("resp_1", [one], 1)) for one in (first, second)]
        won, lost = await asyncio.gather(*both)
        assert (won.won, lost.won, lost.others) == (True, False, (first,))
        assert await db.reader.held_results("resp_1") == [first]


async def test_a_list_with_one_answered_call_writes_nothing(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        await db.writer.submit(held_results.insert("resp_1", [answer("c2")], 1))
        lost = await db.writer.submit(held_results.insert("resp_1", [answer("c1"), answer("c2", "key:bob")], 1))
        assert [other.call_id for other in lost.others] == ["c2"]
        assert [kept.call_id for kept in await db.reader.held_results("resp_1")] == ["c2"]


async def test_an_answer_that_comes_after_another_node_took_the_run_is_not_written(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        fence = await db.writer.submit(records.take_over("resp_1", None))
        late = await db.writer.submit(held_results.insert("resp_1", [answer("c1")], fence - 1))
        assert (late.lost, late.won) == (True, False)
        assert await db.reader.held_results("resp_1") == []
        assert (await db.writer.submit(held_results.insert("resp_1", [answer("c1")], fence))).won


async def test_a_run_with_a_terminal_takes_no_answer(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(records.begin(new_response("resp_1"), None))
        await db.writer.submit(records.end(ending("resp_1"), []))
        late = await db.writer.submit(held_results.insert("resp_1", [answer("c1")], 1))
        assert (late.over, late.won) == (True, False)
        assert await db.reader.held_results("resp_1") == []


async def test_the_newest_claim_of_a_call_reads_back(place: Path | str) -> None:
    async with database(place) as db:
        first, second = Claim("key:anna", "instance:tab", 1, 20.0), Claim("", "", 1, 0.0)
        await db.writer.submit(held_results.keep_claim("resp_1", "c1", first))
        await db.writer.submit(held_results.keep_claim("resp_1", "c2", first))
        await db.writer.submit(held_results.keep_claim("resp_1", "c2", second))
        assert await db.reader.held_claims("resp_1") == {"c1": first, "c2": second}
        assert await db.reader.held_claims("resp_2") == {}


async def test_answers_go_with_the_response_or_with_its_log(place: Path | str) -> None:
    async with database(place) as db:
        for run_id in ("resp_1", "resp_2", "resp_3"):
            await db.writer.submit(records.begin(new_response(run_id), None))
            await db.writer.submit(held_results.insert(run_id, [answer("c1")], 1))
            await db.writer.submit(held_results.keep_claim(run_id, "c1", Claim("k", "c", 1, 1.0)))
        await db.writer.submit(records.end(ending("resp_1"), []))
        await db.writer.submit(records.end(ending("resp_2"), []))
        await db.writer.submit(records.delete("resp_1"))
        await db.writer.submit(records.expire(3000.0, 3000.0, 10))
        assert [bool(await db.reader.held_results(f"resp_{n}")) for n in (1, 2, 3)] == [False, False, True]
        assert [bool(await db.reader.held_claims(f"resp_{n}")) for n in (1, 2, 3)] == [False, False, True]
