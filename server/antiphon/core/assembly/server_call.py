"""Calls that the server answers itself: how clients see them, and what the model gets to read of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

ItemType = Literal["mcp_call", "web_search_call"]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of the server, as the assembler has to show its calls.

    name, server_label: as clients know it. needs_approval: its calls are shown as `mcp_approval_request` first.
    """

    name: str
    server_label: str
    item_type: ItemType = "mcp_call"
    needs_approval: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a call of the server gave: exactly one of output and error. action: of a web search."""

    output: str | None = None
    error: str | None = None
    action: Mapping[str, Any] | None = None

    @property
    def for_model(self) -> str:
        """The output as the model reads it."""
        return self.output if self.output is not None else f"error: {self.error}"


def shown_item(
    tool: ServerTool,
    item_id: str,
    arguments: str,
    status: str,
    result: CallResult | None,
    approval_request_id: str | None,
) -> dict[str, Any]:
    """The output item of a call. result: None while there is none."""
    if tool.item_type == "web_search_call":
        action = result.action if result is not None and result.action is not None else None
        return {
            "id": item_id,
            "type": "web_search_call",
            "status": status,
            "action": dict(action) if action is not None else {"type": "search", "query": _query(arguments)},
        }
    return {
        "id": item_id,
        "type": "mcp_call",
        "status": status,
        "approval_request_id": approval_request_id,
        "arguments": arguments,
        "error": error_object(result.error) if result is not None and result.error is not None else None,
        "name": tool.name,
        "output": result.output if result is not None else None,
        "server_label": tool.server_label,
    }


def error_object(message: str) -> dict[str, Any]:
    """The error of an `mcp_call`, as clients type it: what an MCP server gives as the content of a failed call."""
    return {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": message}]}


def error_text(error: Any) -> str:
    """What an `mcp_call`'s error says, also one in the older form of a string or of another kind."""
    if isinstance(error, str):
        return error
    content = error.get("content") if isinstance(error, dict) else None
    texts = (
        [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        if (isinstance(content, list))
        else []
    )
    return "\n".join(texts) if texts else orjson.dumps(error).decode()


def start_event(tool: ServerTool) -> str:
    """The event behind the announcement of a call."""
    return f"response.{tool.item_type}.in_progress"


def end_event(tool: ServerTool, result: CallResult) -> str:
    """The event before the done of a call. A web search knows no failed event; its item says it."""
    failed = result.error is not None and tool.item_type == "mcp_call"
    return f"response.{tool.item_type}.{'failed' if failed else 'completed'}"


def _query(arguments: str) -> str:
    try:
        given = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return ""
    query = given.get("query") if isinstance(given, dict) else None
    return query if isinstance(query, str) else ""
