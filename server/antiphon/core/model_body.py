"""The body of a model call: what the client asked, with the whole history, and nothing that is only ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    "image",
    "access_programs",
)
"""Fields of the Responses API that an upstream gets as the client sent them. The chain, storage and delivery
are ours, so `previous_response_id`, `conversation`, `store`, `stream` and `background` are not among them."""

_USER = re.compile(r"^([^/?#]*//)[^/?#]*@")


def model_body(
    raw: dict[str, Any], model: str, history: Sequence[bytes], *, native_compaction: bool = False
) -> bytes:
    """The JSON body. model: the upstream's name for it. history: the parts of the encoded input list.

    native_compaction: the upstream gets `context_management`; for all others the server does it.
    """
    body: dict[str, Any] = {"model": model, "stream": True, "store": False}
    for key in _FORWARDED:
        value = raw.get(key)
        if value is not None and (native_compaction or key != "context_management"):
            body[key] = value
    parts = list(history) or [b""]
    parts[0] = b'%b,"input":[%b' % (orjson.dumps(body)[:-1], parts[0])
    parts[-1] += b"]}"
    return b",".join(parts)  # a history may be long: it is copied once


def visible_tools(tools: Any) -> list[Any]:
    """Tools as they may be echoed and stored: credentials of MCP servers removed."""
    if not isinstance(tools, list):
        return []
    return [_visible(tool) for tool in tools]


def _visible(tool: Any) -> Any:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "mcp":
        return _without_secrets(tool)
    if kind == "function":
        # Clients of the published schema require these three, asked for or not.
        return {"description": None, "parameters": None, "strict": None, **tool}
    return tool


def holds_credentials(raw: dict[str, Any]) -> bool:
    """Whether a request brings credentials of its caller for MCP servers."""
    return any(_secret_keys(tool) for tool in raw.get("tools") or ())


def without_credentials(raw: dict[str, Any]) -> dict[str, Any]:
    """The request as it may be written down."""
    options = raw.get("antiphon")
    if isinstance(options, dict) and "upstream_authorization" in options:
        raw = {**raw, "antiphon": {k: v for k, v in options.items() if k != "upstream_authorization"}}
    if holds_credentials(raw):
        raw = {**raw, "tools": [_without_secrets(tool) for tool in raw["tools"]]}
    return raw


def bare_url(url: str) -> str:
    """An address without the parts that may hold credentials: name and password, query, fragment."""
    return _USER.sub(r"\1", re.split(r"[?#]", url, maxsplit=1)[0])


def _secret_keys(tool: Any) -> list[str]:
    if not isinstance(tool, dict) or tool.get("type") != "mcp":
        return []
    found = [key for key in ("authorization", "headers") if tool.get(key)]
    url = tool.get("server_url")
    return [*found, "server_url"] if isinstance(url, str) and bare_url(url) != url else found


def _without_secrets(tool: Any) -> Any:
    secret = _secret_keys(tool)
    if not secret:
        return tool
    kept = {key: value for key, value in tool.items() if key not in secret}
    return {**kept, "server_url": bare_url(tool["server_url"])} if "server_url" in secret else kept
