"""What a create brings: the turn it continues, and its input as a model reads it (door, step 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.context import Owned, given_ids
from antiphon.core.conversation_requests import calls_without_output
from antiphon.core.history import (
    Approval,
    OpenCall,
    Turn,
    approvals,
    check_continuable,
    echoed_approvals,
    encode_history,
    encode_items,
    resolve_outputs,
    take_approvals,
)
from antiphon.core.input_urls import check_input_urls
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.ports import Toolbox
from antiphon.runs.compaction.compactor import check_compactable
from antiphon.runs.directory import RunDirectory
from antiphon.runs.named_conversations import NamedConversations, Opened
from antiphon.runs.run import Create
from antiphon.runs.start.inputs import InputReader
from antiphon.store.named_conversations import NamedConversation

_APPROVALS = ("mcp_approval_request", "mcp_approval_response")


@dataclass(frozen=True, slots=True)
class ReadCreate:
    """A create that was read. items: its new ones as the client sent them, mapped: as the upstream gets them.

    input, client_input: the same, encoded. approvals: answers to calls that were asked to be approved; the input
    then stands behind them, unless it ends in these calls. conversation: of the client, which it appends to.
    """

    parent: Turn | None
    items: list[dict[str, Any]]
    mapped: list[dict[str, Any]]
    input: bytes
    client_input: bytes
    item_ids: Sequence[str]
    approvals: list[Approval]
    ends_in_calls: bool
    conversation: NamedConversation | None = None


class CreateReader:
    """Reads creates in the light of what is there. Nothing of it leaves a trace."""

    def __init__(
        self,
        directory: RunDirectory,
        conversations: NamedConversations,
        inputs: InputReader,
        toolbox: Toolbox,
        *,
        refuses_private_urls: bool,
    ) -> None:
        self._directory = directory
        self._conversations = conversations
        self._inputs = inputs
        self._toolbox = toolbox
        self._refuses_private_urls = refuses_private_urls

    async def read(
        self,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None,
        steered: Sequence[dict[str, Any]] = (),
    ) -> ReadCreate:
        """steered: what was said to the parent while it ran; it comes before the input. Raises AntiphonError."""
        request, conversation = create.request, None
        if request.conversation_id is not None:
            opened = await self._conversations.opened(request.conversation_id, principal)
            conversation, parent = opened.conversation, opened.turn or await self._told_by_items(opened, principal)
        else:
            parent = await self._parent(request.previous_response_id, principal, memory)
        if parent is not None:
            check_continuable(parent)
        read = await self.items(create, principal, parent, [*steered, *request.items()])
        return replace(read, conversation=conversation)

    async def items(
        self, create: Create, principal: Principal, parent: Turn | None, items: list[dict[str, Any]]
    ) -> ReadCreate:
        """The create with these new items. Raises AntiphonError."""
        if self._refuses_private_urls:
            check_input_urls(items)
        request = create.request
        plain = items[:-1] if request.wants_compaction else items
        owned = Owned(mcp=True, web_search=self._toolbox.owns_web_search())
        mapped = await self._inputs.read(plain, parent, principal, owned)
        said = approvals(parent, plain)
        calls: list[dict[str, Any]] = []
        if parent is None and any(item.get("type") == "mcp_approval_response" for item in mapped):
            mapped, calls, said = take_approvals(mapped, await self._asked(plain, principal))
        mapped = [*resolve_outputs(parent, mapped), *calls]
        client_input = encode_items(items)
        same = len(items) == len(mapped) and all(a is b for a, b in zip(items, mapped, strict=True))
        encoded = client_input if same else encode_items(mapped)
        if request.wants_compaction:
            check_compactable(encode_history(parent, encoded))
        return ReadCreate(
            parent=parent,
            items=items,
            mapped=mapped,
            input=encoded,
            client_input=client_input,
            item_ids=given_ids(items),
            approvals=said,
            ends_in_calls=bool(calls),
        )

    async def _told_by_items(self, opened: Opened, principal: Principal) -> Turn | None:
        """A conversation without a response whose chain says all of it.

        Calls that were to be approved are left out: what was shown to whoever approves is no longer at hand.
        """
        items = [item for item in opened.items if item["type"] not in _APPROVALS]
        if not items:
            return None
        owned = Owned(mcp=True, web_search=self._toolbox.owns_web_search())
        mapped = await self._inputs.read(items, None, principal, owned)
        compacted = any(item["type"] == "compaction" for item in items)
        calls = calls_without_output(mapped, compacted=compacted)
        conversation = opened.conversation
        return Turn(
            response_id=conversation.id,
            tenant=conversation.tenant,
            creator=conversation.creator,
            visibility="tenant",
            conversation_id=conversation.id,
            stored=False,  # as a response: what continues it has to stand alone
            status="completed",
            parent=None,
            input=encode_items(mapped),
            output=b"",
            open_calls=tuple(
                OpenCall(call["call_id"], None, str(call.get("name", call["type"])), call["type"])
                for call in calls
            ),
        )

    async def _asked(self, items: list[dict[str, Any]], principal: Principal) -> dict[str, dict[str, Any]]:
        """The approval requests that a whole history answers, as they were shown: not as the client sends them."""
        wanted = set(echoed_approvals(items))
        found = await self._directory.items(wanted, principal, whole=True) if wanted else {}
        shown = {item_id: known.item for item_id, known in found.items() if known.item is not None}
        return {item_id: item for item_id, item in shown.items() if item["type"] == "mcp_approval_request"}

    async def _parent(
        self, response_id: str | None, principal: Principal, memory: ConnectionMemory | None
    ) -> Turn | None:
        if response_id is None:
            return None
        turn = memory.find(response_id) if memory is not None else None
        if turn is None or turn.stored:  # a stored one may have been deleted since
            turn = await self._directory.parent(response_id, principal)
        if turn is None:
            raise RequestError(
                f"Previous response with id '{response_id[:80]}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return turn
