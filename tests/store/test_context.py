"""Where items stand that are named by their ids, and chains of which a compaction has replaced the beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from antiphon.core.history import encode_history
from antiphon.store import records
from antiphon.store.responses import ItemHome, turn_of_chain
from tests.store.database import Database, database, ending, new_response


async def finish(db: Database, name: str, parent: str | None = None, **fields: Any) -> None:
    given = {key: fields.pop(key) for key in ("input",) if key in fields}
    await db.writer.submit(records.begin(new_response(name, parent=parent, **given), None))
    await db.writer.submit(records.end(ending(name, **fields), []))


async def test_a_chain_is_read_from_its_newest_compaction_on_and_what_it_replaced_is_not_read(
    place: Path | str,
) -> None:
    async with database(place) as db:
        await finish(db, "resp_1", input=b"1", context_output=b"2", compacted_context=b"old")
        await finish(db, "resp_2", "resp_1", input=b"3", context_output=b"4")
        await finish(db, "resp_3", "resp_2", input=b"5", context_output=b"7", compacted_context=b"6")
        await finish(db, "resp_4", "resp_3", input=b"8", context_output=b"9")
        rows = await db.reader.chain("resp_4", "default")
        turn = turn_of_chain(rows)
        assert encode_history(turn, b"10") == b"[6,7,8,9,10]"
        assert [row["context_input"] or b"" for row in rows] == [b"8", b"", b"", b""]
        assert [row["context_output"] for row in rows] == [b"9", b"7", None, None]
        earlier = turn_of_chain(await db.reader.chain("resp_2", "default"))
        assert encode_history(earlier, b"") == b"[old,2,3,4]", "who forks before it reads what it replaced"


async def test_a_chain_whose_beginning_was_deleted_is_gone_even_if_a_compaction_replaced_it(
    place: Path | str,
) -> None:
    async with database(place) as db:
        await finish(db, "resp_1", input=b"1")
        await finish(db, "resp_2", "resp_1", compacted_context=b"2")
        assert turn_of_chain(await db.reader.chain("resp_2", "default")) is not None
        await db.writer.submit(records.delete("resp_1"))
        assert turn_of_chain(await db.reader.chain("resp_2", "default")) is None


async def test_deleting_a_response_deletes_what_it_compacted(place: Path | str) -> None:
    async with database(place) as db:
        await finish(db, "resp_1", compacted_context=b"SECRET")
        await db.writer.submit(records.delete("resp_1"))
        assert db.rows("SELECT compacted_context FROM responses") == [(None,)]


async def test_items_are_found_by_id_in_the_newest_response_of_their_tenant_first(place: Path | str) -> None:
    async with database(place) as db:
        await finish(db, "resp_1", item_ids=[("msg_out", "theirs"), ("rs_out", None)])
        await db.writer.submit(records.begin(new_response("resp_2", item_ids=["msg_in"], created_at=2000.0), None))
        await db.writer.submit(records.begin(new_response("resp_3", item_ids=["msg_in"], created_at=3000.0), None))
        await db.writer.submit(records.begin(new_response("resp_4", item_ids=["msg_in"], tenant="other"), None))
        found = await db.reader.item_homes(["msg_in", "msg_out", "rs_out", "msg_unknown"], "default")
        assert [(home.item_id, home.response_id) for home in found if home.item_id == "msg_in"] == [
            ("msg_in", "resp_3"),
            ("msg_in", "resp_2"),
        ]
        assert ItemHome("msg_out", "resp_1", "theirs", "user:local", "tenant") in found
        assert ItemHome("rs_out", "resp_1", None, "user:local", "tenant") in found
        assert len(found) == 4
        await db.writer.submit(records.delete("resp_3"))
        (left,) = await db.reader.item_homes(["msg_in"], "default")
        assert left.response_id == "resp_2"


async def test_any_number_of_ids_can_be_asked_for_at_once(place: Path | str) -> None:
    async with database(place) as db:
        await finish(db, "resp_1", item_ids=[(f"msg_{n}", None) for n in range(3000)])
        assert len(await db.reader.item_homes([f"msg_{n}" for n in range(40_000)], "default")) == 3000
