"""What clients send about conversations of their own, checked; and what a turn leaves in one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from antiphon.core.assembly.item import CALL_TYPES
from antiphon.core.create_request import Metadata, check_items
from antiphon.core.faults import refusal
from antiphon.core.history import answered_call_id
from antiphon.errors import RequestError

Item = dict[str, Any]

_MAX_ITEMS = 20
"""Items that one request may add, as in the published API."""

Items = Annotated[list[Item], Field(max_length=_MAX_ITEMS)]


class ConversationCreate(BaseModel):
    """A new conversation. Unknown fields are ignored, as in a create of a response."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    items: Items | None = None
    metadata: Annotated[Metadata, Field(max_length=16)] | None = None


class ConversationUpdate(BaseModel):
    """Other metadata, in the place of what is there."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    metadata: Annotated[Metadata, Field(max_length=16)] | None


class ItemsCreate(BaseModel):
    """Items to add."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    items: Annotated[Items, Field(min_length=1)]


M = TypeVar("M", bound=BaseModel)


def parse(model: type[M], raw: dict[str, Any]) -> M:
    """Check a body. Raises RequestError naming the field at fault."""
    try:
        given = model.model_validate(raw)
    except ValidationError as error:
        raise refusal(error, raw) from error
    items: list[Item] = getattr(given, "items", None) or []
    check_items(items, "items")
    for index, item in enumerate(items):
        if item.get("type") in ("item_reference", "compaction_trigger"):
            raise RequestError("A conversation takes whole items.", param=f"items[{index}].type")
    return given


def left_in_conversation(output: Sequence[Item], open_calls: Collection[str]) -> list[Item]:
    """The output of a turn without calls that nobody will answer, because the turn was ended before.

    open_calls: ids of the calls that a client is still to answer.
    """
    answered = {call_id for item in output if (call_id := answered_call_id(item)) is not None}
    waits = answered | set(open_calls)
    return [item for item in output if item.get("type") not in CALL_TYPES or item.get("call_id") in waits]


def calls_without_output(items: Sequence[Item], *, compacted: bool) -> list[Item]:
    """Calls of a history that its next input has to answer. compacted: calls may be where nobody sees them.

    Raises RequestError `tool_output_unknown` for an output whose call is not there: no model would take it.
    """
    calls: dict[str, Item] = {}
    for item in items:
        call_id = answered_call_id(item)
        if call_id is not None and calls.pop(call_id, None) is None and not compacted:
            raise RequestError(
                f"The conversation has an output of call {call_id[:80]!r}, but not the call; delete the output.",
                code="tool_output_unknown",
                param="conversation",
            )
        if call_id is None and item.get("type") in CALL_TYPES:
            calls[item["call_id"]] = item
    return list(calls.values())
