"""The newest ended response of a conversation, as the asker may see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from antiphon.store import records
from antiphon.store.conversations import runs_of_conversation
from tests.store.database import Database, database, ending, new_response


async def ended(db: Database, name: str, created_at: float, **fields: Any) -> None:
    await db.writer.submit(records.begin(new_response(name, created_at=created_at, **fields), None))
    await db.writer.submit(records.end(ending(name), []))


async def newest(db: Database, conversation_id: str = "conv_1", **asker: str | None) -> str | None:
    found = await db.reader.newest_ended(conversation_id, asker.get("tenant"), asker.get("creator"))
    return orjson.loads(found)["response_id"] if found is not None else None


async def test_the_newest_one_that_has_ended_is_found_and_one_in_progress_is_not(place: Path | str) -> None:
    async with database(place) as db:
        assert await newest(db) is None
        await ended(db, "resp_new", 3.0)
        await ended(db, "resp_old", 1.0)
        await ended(db, "resp_other", 9.0, conversation_id="conv_2")
        await db.writer.submit(records.begin(new_response("resp_running", created_at=9.0), None))
        assert await newest(db) == "resp_new"
        await db.writer.submit(records.delete("resp_new"))
        assert await newest(db) == "resp_old"


async def test_other_tenants_and_other_peoples_private_responses_are_not_there(place: Path | str) -> None:
    async with database(place) as db:
        await ended(db, "resp_shared", 1.0)
        await ended(db, "resp_private", 2.0, visibility="private", creator="user:a")
        assert await newest(db, tenant="default", creator="user:a") == "resp_private"
        assert await newest(db, tenant="default", creator="user:b") == "resp_shared"
        assert await newest(db, tenant="default") == "resp_private"
        assert await newest(db, tenant="elsewhere") is None
        assert await newest(db) == "resp_private"


async def test_a_conversation_is_found_by_its_index(place: Path | str) -> None:
    query = "SELECT run_state FROM responses WHERE conversation_id = 'x' ORDER BY created_at DESC LIMIT 1"
    async with database(place) as db:
        explain = "EXPLAIN QUERY PLAN" if isinstance(place, Path) else "EXPLAIN"
        assert "responses_conversation" in str(db.rows(f"{explain} {query}"))


async def test_runs_of_a_conversation_come_newest_first_also_where_two_began_at_once(place: Path | str) -> None:
    async with database(place) as db:
        for name, created_at in (("resp_a", 1.0), ("resp_b", 2.0), ("resp_c", 2.0)):
            await ended(db, name, created_at)
        await ended(db, "resp_private", 2.5, visibility="private", creator="user:a")
        await ended(db, "resp_other", 9.0, conversation_id="conv_2")
        await db.writer.submit(records.begin(new_response("resp_running", created_at=3.0), None))

        async def listed(before: tuple[float, str] | None = None, limit: int = 9, **asker: str) -> list[str]:
            tenant, creator = asker.get("tenant"), asker.get("creator")
            rows = await runs_of_conversation(
                db.reader, "conv_1", tenant=tenant, creator=creator, before=before, limit=limit
            )
            assert {row.id for row in rows if not row.ended} <= {"resp_running"}
            return [row.id for row in rows]

        assert await listed() == ["resp_running", "resp_private", "resp_c", "resp_b", "resp_a"]
        assert await listed((2.0, "resp_c"), limit=1) == ["resp_b"]
        assert await listed(tenant="default", creator="user:b") == ["resp_running", "resp_c", "resp_b", "resp_a"]
        assert await listed(tenant="elsewhere") == []
