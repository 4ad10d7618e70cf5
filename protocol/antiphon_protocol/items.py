"""Output items: what a response is made of. The kinds clients run themselves are here, hosted ones beside."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from antiphon_protocol.base import Id, JsonObject, Wire, opt, other_than, type_names, type_of
from antiphon_protocol.content import Part, ReasoningText, SummaryText, ToolOutput
from antiphon_protocol.items_hosted import (
    CodeInterpreterCall,
    ComputerCall,
    ComputerCallOutput,
    FileSearchCall,
    ImageGenerationCall,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    Program,
    ProgramOutput,
    ToolSearchCall,
    ToolSearchOutput,
    WebSearchCall,
)
from antiphon_protocol.items_shell import (
    ApplyPatchCall,
    ApplyPatchCallOutput,
    LocalShellCall,
    LocalShellCallOutput,
    ShellCall,
    ShellCallOutput,
)
from antiphon_protocol.tools import ToolParam

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class Message(Wire):
    """Words of the model."""

    type: Literal["message"]
    id: Id
    status: ItemStatus
    role: Literal["assistant"]
    content: list[Part]
    phase: Literal["commentary", "final_answer"] | None = opt()


class Reasoning(Wire):
    """How the model came to its answer. `encrypted_content` is opaque and is sent back as it came."""

    type: Literal["reasoning"]
    id: Id
    summary: list[SummaryText]
    content: list[ReasoningText] | None = opt()
    encrypted_content: str | None = opt()
    status: ItemStatus | None = opt()


class FunctionCall(Wire):
    """A call of a function. `arguments` is JSON text. `call_id` ties the output to it, `id` names the item."""

    type: Literal["function_call"]
    id: Id
    call_id: Id
    name: Id
    arguments: str
    status: ItemStatus
    namespace: str | None = opt()
    caller: JsonObject | None = opt()


class FunctionCallOutput(Wire):
    """What a function call gave."""

    type: Literal["function_call_output"]
    id: Id
    call_id: Id
    output: ToolOutput
    status: ItemStatus
    name: str | None = opt()
    namespace: str | None = opt()
    caller: JsonObject | None = opt()
    created_by: str | None = opt()


class CustomToolCall(Wire):
    """A call of a custom tool. `input` is free text."""

    type: Literal["custom_tool_call"]
    id: Id
    call_id: Id
    name: Id
    input: str
    status: ItemStatus | None = opt()
    namespace: str | None = opt()
    caller: JsonObject | None = opt()


class CustomToolCallOutput(Wire):
    """What a custom tool call gave."""

    type: Literal["custom_tool_call_output"]
    id: Id
    call_id: Id
    output: ToolOutput
    status: ItemStatus
    caller: JsonObject | None = opt()
    created_by: str | None = opt()


class Compaction(Wire):
    """The history so far as one opaque blob."""

    type: Literal["compaction"]
    id: Id
    encrypted_content: str
    created_by: str | None = opt()


class AdditionalTools(Wire):
    """Tools that join in mid-conversation."""

    type: Literal["additional_tools"]
    id: Id
    role: str
    tools: list[ToolParam]


class UnknownItem(Wire):
    """An item of a kind this version does not know. It is passed on as it is."""

    model_config = other_than(lambda: ITEM_TYPES)

    type: Id
    id: Id | None = opt()


KnownItem = Annotated[
    Message
    | Reasoning
    | FunctionCall
    | FunctionCallOutput
    | CustomToolCall
    | CustomToolCallOutput
    | Compaction
    | AdditionalTools
    | FileSearchCall
    | WebSearchCall
    | ComputerCall
    | ComputerCallOutput
    | Program
    | ProgramOutput
    | ToolSearchCall
    | ToolSearchOutput
    | ImageGenerationCall
    | CodeInterpreterCall
    | LocalShellCall
    | LocalShellCallOutput
    | ShellCall
    | ShellCallOutput
    | ApplyPatchCall
    | ApplyPatchCallOutput
    | McpCall
    | McpListTools
    | McpApprovalRequest
    | McpApprovalResponse,
    Field(discriminator="type"),
]
ITEM_TYPES: frozenset[str] = type_names(KnownItem)


def _item_kind(value: Any) -> str:
    return "known" if type_of(value) in ITEM_TYPES else "unknown"


Item = Annotated[
    Annotated[KnownItem, Tag("known")] | Annotated[UnknownItem, Tag("unknown")], Discriminator(_item_kind)
]
"""Any output item."""
