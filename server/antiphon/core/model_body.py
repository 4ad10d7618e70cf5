"""The body of a model call: what the client asked, with the whole history, and nothing that is only ours."""

from __future__ import annotations

from typing import Any

import orjson

_FORWARDED = (
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tool_calls",
    "text",
    "reasoning",
    "include",
    "temperature",
    "top_p",
    "top_logprobs",
    "presence_penalty",
    "frequency_penalty",
    "max_output_tokens",
    "truncation",
    "metadata",
    "user",
    "safety_identifier",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "service_tier",
    "context_management",
    "moderation",
    "image",
)
"""Fields of the Responses API that an upstream gets as the client sent them. The chain, storage and delivery
are ours, so `previous_response_id`, `conversation`, `store`, `stream` and `background` are not among them."""


def model_body(raw: dict[str, Any], model: str, history: bytes) -> bytes:
    """The JSON body. model: the upstream's name for it. history: the encoded input list."""
    body: dict[str, Any] = {"model": model, "input": orjson.Fragment(history), "stream": True, "store": False}
    for key in _FORWARDED:
        value = raw.get(key)
        if value is not None:
            body[key] = value
    return orjson.dumps(body)


def visible_tools(tools: Any) -> list[Any]:
    """Tools as they may be echoed and stored: credentials of MCP servers removed."""
    if not isinstance(tools, list):
        return []
    return [_visible(tool) for tool in tools]


def _visible(tool: Any) -> Any:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "mcp":
        return {key: value for key, value in tool.items() if key not in ("authorization", "headers")}
    if kind == "function":
        # Clients of the published schema require these three, asked for or not.
        return {"description": None, "parameters": None, "strict": None, **tool}
    return tool
