"""Output items of tools that run at the upstream. We pass them on; their inside is checked only in outline."""

from __future__ import annotations

from typing import Any, Literal

from antiphon_protocol.base import Id, JsonObject, Wire, opt
from antiphon_protocol.tools import ToolParam

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class FileSearchCall(Wire):
    """A search in uploaded files."""

    type: Literal["file_search_call"]
    id: Id
    queries: list[str]
    status: Literal["in_progress", "searching", "completed", "incomplete", "failed"]
    results: list[JsonObject] | None = opt()


class WebSearchCall(Wire):
    """A search or page visit on the web."""

    type: Literal["web_search_call"]
    id: Id
    action: JsonObject
    status: Literal["in_progress", "searching", "completed", "failed", "incomplete"]


class ComputerCall(Wire):
    """Clicks and keys for a computer."""

    type: Literal["computer_call"]
    id: Id
    call_id: Id
    pending_safety_checks: list[JsonObject]
    status: ItemStatus
    action: JsonObject | None = opt()
    actions: list[JsonObject] | None = opt()


class ComputerCallOutput(Wire):
    """What the screen showed."""

    type: Literal["computer_call_output"]
    id: Id
    call_id: Id
    output: JsonObject
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    acknowledged_safety_checks: list[JsonObject] | None = opt()
    created_by: str | None = opt()


class Program(Wire):
    """A program that calls tools."""

    type: Literal["program"]
    id: Id
    call_id: Id
    code: str
    fingerprint: str


class ProgramOutput(Wire):
    """What the program gave."""

    type: Literal["program_output"]
    id: Id
    call_id: Id
    result: str
    status: Literal["completed", "incomplete"]


class ToolSearchCall(Wire):
    """A search for tools that are not loaded yet."""

    type: Literal["tool_search_call"]
    id: Id
    arguments: Any
    execution: Literal["server", "client"]
    status: ItemStatus
    call_id: Id | None = opt()
    created_by: str | None = opt()


class ToolSearchOutput(Wire):
    """The tools found."""

    type: Literal["tool_search_output"]
    id: Id
    execution: Literal["server", "client"]
    status: ItemStatus
    tools: list[ToolParam]
    call_id: Id | None = opt()
    created_by: str | None = opt()


class ImageGenerationCall(Wire):
    """An image made. `result` is base64."""

    type: Literal["image_generation_call"]
    id: Id
    status: Literal["in_progress", "generating", "completed", "failed"]
    result: str | None = opt()
    error: JsonObject | None = opt()
    revised_prompt: str | None = opt()


class CodeInterpreterCall(Wire):
    """Code run in a container."""

    type: Literal["code_interpreter_call"]
    id: Id
    container_id: Id
    status: Literal["in_progress", "interpreting", "completed", "incomplete", "failed"]
    code: str | None = opt()
    outputs: list[JsonObject] | None = opt()


class McpCall(Wire):
    """A call of a tool on an MCP server. `arguments` is JSON text."""

    type: Literal["mcp_call"]
    id: Id
    server_label: Id
    name: Id
    arguments: str
    status: Literal["in_progress", "calling", "completed", "incomplete", "failed"] | None = opt()
    output: str | None = opt()
    error: JsonObject | str | None = opt()
    approval_request_id: Id | None = opt()


class McpTool(Wire):
    """A tool an MCP server offers."""

    name: Id
    input_schema: Any
    description: str | None = opt()
    annotations: Any = opt()


class McpListTools(Wire):
    """The tools of an MCP server."""

    type: Literal["mcp_list_tools"]
    id: Id
    server_label: Id
    tools: list[McpTool]
    error: JsonObject | str | None = opt()


class McpApprovalRequest(Wire):
    """A question whether an MCP call may run."""

    type: Literal["mcp_approval_request"]
    id: Id
    server_label: Id
    name: Id
    arguments: str


class McpApprovalResponse(Wire):
    """The answer to it."""

    type: Literal["mcp_approval_response"]
    id: Id
    approval_request_id: Id
    approve: bool
    reason: str | None = opt()
