"""Conversations that clients make: what their requests do to them, and what a create finds in one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from antiphon.core.assembly.wire import id_prefix
from antiphon.core.conversation_requests import ConversationCreate, ConversationUpdate, ItemsCreate, parse
from antiphon.core.history import Turn
from antiphon.core.input_items import complete_items
from antiphon.core.input_urls import check_input_urls
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.ports import Clock, Ids
from antiphon.runs.directory import RunDirectory
from antiphon.store import named_conversations as stored
from antiphon.store.named_conversations import Changed, NamedConversation, NamedConversationReader
from antiphon.store.reading import BoundedReader
from antiphon.store.writing import Writer

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation as a create finds it. turn: what to continue from, None where only the items say it."""

    conversation: NamedConversation
    turn: Turn | None
    items: list[Item]


class NamedConversations:
    """Unknown and foreign ids answer alike. All of it raises RequestError `conversation_not_found`, StorageError.

    Reading is for every role. Drivers add; what is there is changed and deleted by its creator or an operator.
    """

    def __init__(
        self,
        reader: BoundedReader,
        writer: Writer,
        directory: RunDirectory,
        clock: Clock,
        ids: Ids,
        *,
        refuses_private_urls: bool,
    ) -> None:
        self._reader = NamedConversationReader(reader)
        self._writer = writer
        self._directory = directory
        self._clock = clock
        self._ids = ids
        self._refuses_private_urls = refuses_private_urls
        self._beginning: set[tuple[str, str]] = set()
        """(tenant, id) of those for which a response of this node is being started."""

    # For creates of responses

    @contextlib.contextmanager
    def beginning(self, conversation_id: str | None, principal: Principal) -> Iterator[None]:
        """A response that writes it is being started. Raises `conversation_locked` for a second one."""
        if conversation_id is None:
            yield
            return
        place = (principal.tenant, conversation_id)
        if place in self._beginning:
            raise locked(conversation_id)
        self._beginning.add(place)
        try:
            yield
        finally:
            self._beginning.discard(place)

    async def opened(self, conversation_id: str, principal: Principal) -> Opened:
        """What a create continues from. Raises `conversation_locked` while a response that writes it goes on."""
        found = await self._reader.find(conversation_id)
        if found is None or found.tenant != principal.tenant:  # history stays in its tenant, whatever the role
            raise unknown(conversation_id, "conversation")
        turn = None
        if not found.locked and found.head is not None:
            turn = await self._directory.parent(found.head, principal)
        if found.locked or (turn is not None and turn.status == "in_progress"):  # its end is just being shown
            raise locked(conversation_id)
        items = await self._reader.items(conversation_id) if turn is None else []
        return Opened(found, turn, items)

    # For requests about conversations

    async def exists(self, conversation_id: str, principal: Principal) -> bool:
        """Whether this principal may see it."""
        found = await self._reader.find(conversation_id)
        return found is not None and principal.may_see(found.tenant, found.creator, "tenant")

    async def create(self, raw: dict[str, Any], principal: Principal) -> dict[str, Any]:
        """A new one, with its first items."""
        _check_driver(principal)
        given = parse(ConversationCreate, raw)
        made = NamedConversation(
            id=self._ids.mint("conv"),
            tenant=principal.tenant,
            creator=principal.id,
            created_at=self._clock.now(),
            metadata=given.metadata or {},
        )
        await self._writer.submit(stored.create(made, self._whole(given.items or [])))
        return _shown(made)

    async def get(self, conversation_id: str, principal: Principal) -> dict[str, Any]:
        return _shown(await self._find(conversation_id, principal))

    async def update(self, conversation_id: str, raw: dict[str, Any], principal: Principal) -> dict[str, Any]:
        """Give it other metadata."""
        found = await self._find(conversation_id, principal)
        _check_owner(found, principal)
        metadata = parse(ConversationUpdate, raw).metadata or {}
        await self._writer.submit(stored.set_metadata(conversation_id, metadata))
        return _shown(found) | {"metadata": metadata}

    async def delete(self, conversation_id: str, principal: Principal) -> dict[str, Any]:
        """Forget it and its items; its responses stay. Raises `conversation_locked`."""
        _check_owner(await self._find(conversation_id, principal), principal)
        _done(await self._writer.submit(stored.delete(conversation_id)), conversation_id)
        return {"id": conversation_id, "object": "conversation.deleted", "deleted": True}

    async def items(
        self, conversation_id: str, principal: Principal, *, limit: int, order: str, after: str | None
    ) -> dict[str, Any]:
        """A page of its items. Raises RequestError for an `after` that is not among them."""
        await self._find(conversation_id, principal)
        behind: int | None = None
        if after is not None:
            behind = await self._reader.position(conversation_id, after)
            if behind is None:
                raise RequestError(f"No item {after[:80]!r} in this list.", param="after")
        found = await self._reader.items(
            conversation_id, limit=limit + 1, newest_first=order == "desc", after=behind
        )
        return _list(found[:limit], has_more=len(found) > limit)

    async def add_items(self, conversation_id: str, raw: dict[str, Any], principal: Principal) -> dict[str, Any]:
        """Append items; gives them as they are kept. Raises `conversation_locked`."""
        _check_driver(principal)
        await self._find(conversation_id, principal)
        items = self._whole(parse(ItemsCreate, raw).items)
        for item in items:
            if await self._reader.position(conversation_id, item["id"]) is not None:
                raise RequestError(f"Item {item['id'][:80]!r} is in this conversation already.", param="items")
        _done(await self._writer.submit(stored.add_items(conversation_id, items)), conversation_id)
        return _list(items, has_more=False)

    async def item(self, conversation_id: str, item_id: str, principal: Principal) -> Item:
        """Raises `item_not_found`."""
        await self._find(conversation_id, principal)
        found = await self._reader.item(conversation_id, item_id)
        if found is None:
            raise _no_item(item_id)
        return found

    async def delete_item(self, conversation_id: str, item_id: str, principal: Principal) -> dict[str, Any]:
        """Forget an item; gives the conversation. Raises `item_not_found`, `conversation_locked`."""
        found = await self._find(conversation_id, principal)
        _check_owner(found, principal)
        if await self._reader.position(conversation_id, item_id) is None:
            raise _no_item(item_id)
        _done(await self._writer.submit(stored.delete_item(conversation_id, item_id)), conversation_id)
        return _shown(found)

    async def _find(self, conversation_id: str, principal: Principal) -> NamedConversation:
        found = await self._reader.find(conversation_id)
        if found is None or not principal.may_see(found.tenant, found.creator, "tenant"):
            raise unknown(conversation_id)
        return found

    def _whole(self, items: list[Item]) -> list[Item]:
        if self._refuses_private_urls:
            check_input_urls(items)
        return complete_items(items, lambda kind, _: self._ids.mint(id_prefix(kind)))


def unknown(conversation_id: str, param: str = "conversation_id") -> RequestError:
    return RequestError(
        f"Conversation with id '{conversation_id[:80]}' not found.",
        code="conversation_not_found",
        param=param,
    )


def locked(conversation_id: str) -> RequestError:
    return RequestError(
        f"A response of conversation '{conversation_id[:80]}' goes on; send this again when it has ended.",
        code="conversation_locked",
        param="conversation",
        headers={"retry-after": "1"},
    )


def _no_item(item_id: str) -> RequestError:
    return RequestError(f"Item with id '{item_id[:80]}' not found.", code="item_not_found", param="item_id")


def _check_driver(principal: Principal) -> None:
    if not principal.at_least("driver"):
        raise RequestError("A viewer adds nothing to conversations.", code="forbidden")


def _check_owner(conversation: NamedConversation, principal: Principal) -> None:
    if not principal.may_cancel(conversation.creator):
        raise RequestError("Only its creator or an operator may change this conversation.", code="forbidden")


def _done(changed: Changed, conversation_id: str) -> None:
    """One that is gone meanwhile was deleted by somebody else, or by the first try of this write."""
    if changed == "locked":
        raise locked(conversation_id)


def _shown(conversation: NamedConversation) -> dict[str, Any]:
    return {
        "id": conversation.id,
        "object": "conversation",
        "created_at": int(conversation.created_at),
        "metadata": conversation.metadata,
    }


def _list(items: list[Item], *, has_more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
