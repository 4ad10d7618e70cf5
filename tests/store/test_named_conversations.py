"""Who may append to a conversation that a client made, and what is appended, decided in the database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from antiphon.store import named_conversations as named
from antiphon.store import records
from antiphon.store.named_conversations import Appended, NamedConversation, NamedConversationReader
from antiphon.store.records import ConversationTaken
from tests.store.database import Database, database, ending, new_response

MADE = NamedConversation("conv_1", "default", "user:local", 1000.0, {"k": "v"})


def item(item_id: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": "x", "id": item_id}


async def begin(db: Database, name: str, revision: int) -> None:
    await db.writer.submit(records.begin(new_response(name, writes=("conv_1", revision)), None))


async def end(db: Database, name: str, *output: str) -> None:
    appended = Appended("conv_1", [item(item_id) for item_id in output])
    await db.writer.submit(records.end(ending(name, appended=appended), []))


async def ids(db: Database) -> list[str]:
    return [one["id"] for one in await NamedConversationReader(db.reader).items("conv_1")]


async def test_a_turn_appends_its_input_and_its_output_once_however_often_it_is_written(place: Path | str) -> None:
    async with database(place) as db:
        reader = NamedConversationReader(db.reader)
        for _ in range(2):
            await db.writer.submit(named.create(MADE, [item("msg_0")]))
        assert await reader.find("conv_1") == MADE
        for _ in range(2):
            await begin(db, "resp_1", 0)
        found = await reader.find("conv_1")
        assert found is not None and found.locked
        for _ in range(2):
            await end(db, "resp_1", "msg_out")
        found = await reader.find("conv_1")
        assert found is not None and (found.locked, found.head, found.revision) == (False, "resp_1", 1)
        first, given, last = await ids(db)
        assert (first, last) == ("msg_0", "msg_out") and given.startswith("msg_")


@pytest.mark.parametrize("revision", [0, 1], ids=["read before the first ended", "read after it"])
async def test_only_who_read_what_is_there_may_begin(place: Path | str, revision: int) -> None:
    async with database(place) as db:
        await db.writer.submit(named.create(MADE, []))
        await begin(db, "resp_1", 0)
        with pytest.raises(ConversationTaken):
            await begin(db, "resp_2", 0)
        assert await db.reader.find("resp_2") is None
        await end(db, "resp_1", "msg_1")
        if revision == 0:
            with pytest.raises(ConversationTaken):
                await begin(db, "resp_3", revision)
        else:
            await begin(db, "resp_3", revision)


async def test_a_writer_that_failed_lets_the_next_one_in_and_leaves_nothing(place: Path | str) -> None:
    async with database(place) as db:
        await db.writer.submit(named.create(MADE, []))
        await begin(db, "resp_1", 0)
        await db.writer.submit(records.end(ending("resp_1", "failed"), []))
        assert await ids(db) == []
        await begin(db, "resp_2", 0)
        await end(db, "resp_2", "msg_2")
        assert (await ids(db))[-1:] == ["msg_2"]


async def test_while_a_response_writes_nobody_changes_the_items_and_afterwards_they_say_it_alone(
    place: Path | str,
) -> None:
    async with database(place) as db:
        works = (named.add_items("conv_1", [item("msg_9")]), named.delete_item("conv_1", "msg_0"))
        await db.writer.submit(named.create(MADE, [item("msg_0")]))
        await begin(db, "resp_1", 0)
        assert [await db.writer.submit(work) for work in (*works, named.delete("conv_1"))] == ["locked"] * 3
        await end(db, "resp_1", "msg_1")
        assert [await db.writer.submit(work) for work in works] == ["done", "done"]
        found = await NamedConversationReader(db.reader).find("conv_1")
        assert found is not None and (found.head, found.revision) == (None, 3)
        assert (await ids(db))[-2:] == ["msg_1", "msg_9"] and "msg_0" not in await ids(db)
        assert await db.writer.submit(named.delete("conv_1")) == "done"
        assert await ids(db) == [] and await db.writer.submit(named.delete("conv_1")) == "gone"


async def test_of_two_nodes_that_begin_at_once_exactly_one_writes(place: Path | str) -> None:
    async with database(place) as one, database(place) as two:
        for n in range(50):
            conversation_id = f"conv_{n}"
            await one.writer.submit(named.create(NamedConversation(conversation_id, "t", "u", 1.0, {}), []))
            begun = [
                db.writer.submit(records.begin(new_response(f"resp_{n}{node}", writes=(conversation_id, 0)), None))
                for node, db in (("a", one), ("b", two))
            ]
            results = await asyncio.gather(*begun, return_exceptions=True)
            assert results.count(None) == 1
            assert [type(result) for result in results if result is not None] == [ConversationTaken]


async def test_an_item_with_the_longest_id_is_found_by_it(place: Path | str) -> None:
    long = "".join(chr(0x4E00 + n) for n in range(341))  # hardly to be compressed
    async with database(place) as db:
        await db.writer.submit(named.create(MADE, [item(long)]))
        assert await NamedConversationReader(db.reader).position("conv_1", long) == 0
