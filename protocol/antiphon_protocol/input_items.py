"""Items a client gives as input. The ones the server acts on are spelled out, all others pass."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from antiphon_protocol.base import Id, Wire, opt, other_than, type_names
from antiphon_protocol.content import Part, SummaryText, ToolOutput


class InputMessage(Wire):
    """Words of anybody. `type` may be missing; `content` may be plain text."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]
    id: Id | None = opt()
    status: str | None = opt()
    phase: Literal["commentary", "final_answer"] | None = opt()


class InputFunctionCall(Wire):
    """A function call of an earlier response, sent back."""

    type: Literal["function_call"]
    call_id: Id
    name: Id
    arguments: str
    id: Id | None = opt()
    status: str | None = opt()
    namespace: str | None = opt()


class InputFunctionCallOutput(Wire):
    """What a function call gave. `call_id` names the call."""

    type: Literal["function_call_output"]
    call_id: Id
    output: ToolOutput
    id: Id | None = opt()
    status: str | None = opt()


class InputCustomToolCall(Wire):
    """A custom tool call of an earlier response, sent back."""

    type: Literal["custom_tool_call"]
    call_id: Id
    name: Id
    input: str
    id: Id | None = opt()
    namespace: str | None = opt()


class InputCustomToolCallOutput(Wire):
    """What a custom tool call gave. `call_id` names the call."""

    type: Literal["custom_tool_call_output"]
    call_id: Id
    output: ToolOutput
    id: Id | None = opt()


class InputReasoning(Wire):
    """Reasoning of an earlier response, sent back as it came."""

    type: Literal["reasoning"]
    summary: list[SummaryText]
    id: Id | None = opt()
    encrypted_content: str | None = opt()


class ItemReference(Wire):
    """An item of an earlier response, by id."""

    type: Literal["item_reference"]
    id: Id


class InputCompaction(Wire):
    """A compacted history, sent back. It holds all that came before it."""

    type: Literal["compaction"]
    encrypted_content: str
    id: Id | None = opt()


class CompactionTrigger(Wire):
    """Asks for a compaction and nothing else. It is the last item."""

    type: Literal["compaction_trigger"]
    id: Id | None = opt()


class UnknownInputItem(Wire):
    """An item the server does not act on. It is passed on as it is."""

    model_config = other_than(lambda: INPUT_ITEM_TYPES)

    type: Id


KnownInputItem = Annotated[
    InputFunctionCall
    | InputFunctionCallOutput
    | InputCustomToolCall
    | InputCustomToolCallOutput
    | InputReasoning
    | InputCompaction
    | CompactionTrigger
    | ItemReference,
    Field(discriminator="type"),
]
INPUT_ITEM_TYPES: frozenset[str] = type_names(KnownInputItem) | {"message"}


def _input_kind(value: Any) -> str:
    given = value.get("type", "message") if isinstance(value, dict) else getattr(value, "type", None)
    if given == "message":
        return "message"
    return "known" if given in INPUT_ITEM_TYPES else "unknown"


InputItem = Annotated[
    Annotated[InputMessage, Tag("message")]
    | Annotated[KnownInputItem, Tag("known")]
    | Annotated[UnknownInputItem, Tag("unknown")],
    Discriminator(_input_kind),
]
"""Any input item."""
