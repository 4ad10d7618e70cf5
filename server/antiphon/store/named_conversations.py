"""Conversations that clients made: their rows, their items, and who may append to them.

A response that writes a conversation claims it with its own row, before any model is asked, and appends its turn
in the transaction that decides its terminal. In between the conversation is locked: for other responses, and for
whoever would change its items. The claim counts until that response has ended, so nobody has to give it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
import sqlalchemy as sa

from antiphon.core.input_items import list_items
from antiphon.store.reading import BoundedReader
from antiphon.store.tables import conversation_items, conversations, responses
from antiphon.store.writing import StoreConnection, Work

Item = dict[str, Any]

Changed = Literal["done", "locked", "gone"]


@dataclass(frozen=True, slots=True)
class NamedConversation:
    """created_at: Unix seconds. revision, head: see the table. locked: a response that writes it goes on."""

    id: str
    tenant: str
    creator: str
    created_at: float
    metadata: dict[str, str]
    revision: int = 0
    head: str | None = None
    locked: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """What a response adds to its conversation besides its input: its output, as clients see it."""

    conversation_id: str
    output: Sequence[Item]


_FREE = """ (writer IS NULL OR EXISTS (
    SELECT 1 FROM responses WHERE responses.id = conversations.writer AND terminal_event IS NOT NULL))"""
"""A writer whose row is not seen has just begun: having waited for the other transaction, PostgreSQL looks at the
conversation as it is now, and at `responses` as it was."""
_CLAIM = "UPDATE conversations SET writer = ? WHERE id = ? AND revision = ? AND"
_WRITES = "SELECT 1 FROM conversations WHERE id = ? AND writer = ?"
_APPEND = "UPDATE conversations SET revision = revision + 1, head = ?, writer = NULL WHERE id = ? AND writer = ?"
_EDIT = "UPDATE conversations SET revision = revision + 1, head = NULL WHERE id = ? AND"
_DELETE = "DELETE FROM conversations WHERE id = ? AND"
_INSERT = """
INSERT INTO conversations (id, tenant, creator, created_at, metadata, revision) VALUES (?, ?, ?, ?, ?, 0)
ON CONFLICT (id) DO NOTHING
"""
_INSERT_ITEM = """
INSERT INTO conversation_items (conversation_id, id, position, item) VALUES (?, ?, ?, ?)
ON CONFLICT (conversation_id, id) DO NOTHING
"""
_LAST = "SELECT MAX(position) FROM conversation_items WHERE conversation_id = ?"


def claim(connection: StoreConnection, conversation_id: str, revision: int, response_id: str) -> bool:
    """Make a response the one that writes; False if another one does, or this is not what was read."""
    if connection.execute(_CLAIM + _FREE, (response_id, conversation_id, revision)).rowcount > 0:
        return True
    # An earlier try of this was committed after all.
    return connection.execute(_WRITES, (conversation_id, response_id)).fetchone() is not None


def append_turn(connection: StoreConnection, response_id: str, appended: Appended) -> None:
    """Append input and output of the response that writes; not an item whose id is there already."""
    values = (response_id, appended.conversation_id, response_id)
    if connection.execute(_APPEND, values).rowcount == 0:
        return
    given = connection.execute("SELECT input FROM responses WHERE id = ?", (response_id,)).fetchone()[0]
    said = [item for item in list_items(response_id, given) if item["type"] != "compaction_trigger"]
    _insert(connection, appended.conversation_id, [*said, *appended.output])


def create(conversation: NamedConversation, items: Sequence[Item]) -> Work[None]:
    """A new conversation with its first items."""
    row = (
        conversation.id,
        conversation.tenant,
        conversation.creator,
        conversation.created_at,
        orjson.dumps(conversation.metadata),
    )

    def work(connection: StoreConnection) -> None:
        if connection.execute(_INSERT, row).rowcount:
            _insert(connection, conversation.id, items)

    return work


def set_metadata(conversation_id: str, metadata: dict[str, str]) -> Work[None]:
    """Put other metadata in the place of what is there."""

    def work(connection: StoreConnection) -> None:
        statement = "UPDATE conversations SET metadata = ? WHERE id = ?"
        connection.execute(statement, (orjson.dumps(metadata), conversation_id))

    return work


def add_items(conversation_id: str, items: Sequence[Item]) -> Work[Changed]:
    """Append items that no response brings."""

    def work(connection: StoreConnection) -> Changed:
        if (changed := _edited(connection, _EDIT, conversation_id)) == "done":
            _insert(connection, conversation_id, items)
        return changed

    return work


def delete_item(conversation_id: str, item_id: str) -> Work[Changed]:
    """Forget one item."""

    def work(connection: StoreConnection) -> Changed:
        if (changed := _edited(connection, _EDIT, conversation_id)) == "done":
            statement = "DELETE FROM conversation_items WHERE conversation_id = ? AND id = ?"
            connection.execute(statement, (conversation_id, item_id))
        return changed

    return work


def delete(conversation_id: str) -> Work[Changed]:
    """Forget a conversation and its items. Its responses stay."""

    def work(connection: StoreConnection) -> Changed:
        if (changed := _edited(connection, _DELETE, conversation_id)) == "done":
            connection.execute("DELETE FROM conversation_items WHERE conversation_id = ?", (conversation_id,))
        return changed

    return work


def _edited(connection: StoreConnection, statement: str, conversation_id: str) -> Changed:
    if connection.execute(statement + _FREE, (conversation_id,)).rowcount:
        return "done"
    there = connection.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation_id,)).fetchone()
    return "gone" if there is None else "locked"


def _insert(connection: StoreConnection, conversation_id: str, items: Sequence[Item]) -> None:
    last = connection.execute(_LAST, (conversation_id,)).fetchone()[0]
    first = 0 if last is None else last + 1
    if items:
        rows = [(conversation_id, item["id"], first + n, orjson.dumps(item)) for n, item in enumerate(items)]
        connection.executemany(_INSERT_ITEM, rows)


class NamedConversationReader:
    """Queries. Every method raises StorageError if the database does not answer."""

    def __init__(self, reader: BoundedReader) -> None:
        self._reader = reader

    async def find(self, conversation_id: str) -> NamedConversation | None:
        columns = conversations.c
        locked = columns.writer.is_not(None) & responses.c.terminal_event.is_(None)
        query = (
            sa.select(
                columns.id,
                columns.tenant,
                columns.creator,
                columns.created_at,
                columns.metadata,
                columns.revision,
                columns.head,
                sa.case((locked, 1), else_=0).label("locked"),
            )
            .outerjoin_from(conversations, responses, responses.c.id == columns.writer)
            .where(columns.id == conversation_id)
        )
        rows = await self._reader.rows(query)
        if not rows:
            return None
        fields = dict(rows[0]._mapping)
        return NamedConversation(
            **{**fields, "metadata": orjson.loads(fields["metadata"]), "locked": bool(fields["locked"])}
        )

    async def items(
        self,
        conversation_id: str,
        *,
        limit: int | None = None,
        newest_first: bool = False,
        after: int | None = None,
    ) -> list[Item]:
        """Items in their order. after: the position behind which they begin, see `position`."""
        columns = conversation_items.c
        query = sa.select(columns.item).where(columns.conversation_id == conversation_id)
        if after is not None:
            query = query.where(columns.position < after if newest_first else columns.position > after)
        query = query.order_by(columns.position.desc() if newest_first else columns.position).limit(limit)
        return [orjson.loads(row[0]) for row in await self._reader.rows(query)]

    async def item(self, conversation_id: str, item_id: str) -> Item | None:
        columns = conversation_items.c
        query = sa.select(columns.item).where(columns.conversation_id == conversation_id, columns.id == item_id)
        rows = await self._reader.rows(query)
        return orjson.loads(rows[0][0]) if rows else None

    async def position(self, conversation_id: str, item_id: str) -> int | None:
        """Where an item stands, None if there is none with this id."""
        columns = conversation_items.c
        query = sa.select(columns.position).where(
            columns.conversation_id == conversation_id, columns.id == item_id
        )
        rows = await self._reader.rows(query)
        return int(rows[0][0]) if rows else None
