"""What a create brings: the turn it continues, and its input as a model reads it (door, step 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.context import Owned, given_ids
from antiphon.core.history import (
    Approval,
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
from antiphon.runs.run import Create
from antiphon.runs.start.inputs import InputReader


@dataclass(frozen=True, slots=True)
class ReadCreate:
    """A create that was read. items: its new ones as the client sent them, mapped: as the upstream gets them.

    input, client_input: the same, encoded. approvals: answers to calls that were asked to be approved; the input
    then stands behind them, unless it ends in these calls.
    """

    parent: Turn | None
    items: list[dict[str, Any]]
    mapped: list[dict[str, Any]]
    input: bytes
    client_input: bytes
    item_ids: Sequence[str]
    approvals: list[Approval]
    ends_in_calls: bool


class CreateReader:
    """Reads creates in the light of what is there. Nothing of it leaves a trace."""

    def __init__(
        self, directory: RunDirectory, inputs: InputReader, toolbox: Toolbox, *, refuses_private_urls: bool
    ) -> None:
        self._directory = directory
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
        parent = await self._parent(create.request.previous_response_id, principal, memory)
        if parent is not None:
            check_continuable(parent)
        return await self.items(create, principal, parent, [*steered, *create.request.items()])

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
