"""Words of Chat Completions in those of the Responses API: how an answer ended, usage, probabilities, sources."""

from __future__ import annotations

import json
from typing import Any

import orjson

_INCOMPLETE = {
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "model_length": "max_output_tokens",
    "content_filter": "content_filter",
}

_FAILED = frozenset({"error", "abort", "insufficient_system_resource"})
"""Reasons some servers give where the model did not come to an end of its own."""


def terminal(reason: str, usage: dict[str, Any] | None) -> dict[str, Any]:
    """The terminal event for a `finish_reason`; one nobody knows means that the model was done."""
    if reason in _FAILED:
        error = {"code": "upstream_error", "message": f"The upstream stopped with the reason {reason!r}."}
        return _terminal("failed", usage, error=error)
    if reason in _INCOMPLETE:
        return _terminal("incomplete", usage, incomplete_details={"reason": _INCOMPLETE[reason]})
    return _terminal("completed", usage)


def _terminal(status: str, usage: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, **fields, "usage": usage}}


def usage_in(holder: dict[str, Any]) -> dict[str, Any] | None:
    """The usage a chunk, a choice or an answer holds, in the words of Responses; None if it holds none."""
    groq = holder.get("x_groq")
    given = holder.get("usage") or (groq.get("usage") if isinstance(groq, dict) else None)
    if not isinstance(given, dict):
        return None
    prompt, completion = _inner(given, "prompt_tokens_details"), _inner(given, "completion_tokens_details")
    return {
        "input_tokens": given.get("prompt_tokens"),
        "input_tokens_details": {
            "cached_tokens": prompt.get("cached_tokens") or given.get("prompt_cache_hit_tokens"),
            "cache_write_tokens": prompt.get("cache_write_tokens"),
        },
        "output_tokens": given.get("completion_tokens"),
        "output_tokens_details": {"reasoning_tokens": completion.get("reasoning_tokens")},
        "total_tokens": given.get("total_tokens"),
    }


def annotations_in(given: Any) -> list[dict[str, Any]]:
    """The sources a message names; of other annotations Responses clients know nothing."""
    found = []
    for annotation in given if isinstance(given, list) else ():
        citation = annotation.get("url_citation") if isinstance(annotation, dict) else None
        if isinstance(citation, dict) and isinstance(citation.get("url"), str):
            citation = {"title": citation["url"], "start_index": 0, "end_index": 0, **citation}
            fields = {key: citation[key] for key in ("url", "title", "start_index", "end_index")}
            found.append({"type": "url_citation", **fields})
    return found


def reasoning_in(delta: dict[str, Any]) -> str:
    """Thoughts in a delta. Servers that give them under several names mean the same text."""
    for key in ("reasoning_content", "reasoning"):
        text = delta.get(key)
        if isinstance(text, str) and text:
            return text
    details = delta.get("reasoning_details")
    texts = [
        detail.get("text") or detail.get("summary")
        for detail in (details if isinstance(details, list) else ())
        if isinstance(detail, dict)
    ]
    return "".join(text for text in texts if isinstance(text, str))


def texts_in(content: list[Any]) -> list[tuple[str, str]]:
    """The parts of a content that is a list: (`text` or `thinking`, what it says)."""
    found = []
    for part in content:
        if isinstance(part, str):
            found.append(("text", part))
        elif isinstance(part, dict):
            kind = "thinking" if part.get("type") == "thinking" else "text"
            said = part.get(kind) or ""
            if isinstance(said, list):
                said = "".join(text for _, text in texts_in(said))
            found.append((kind, said if isinstance(said, str) else ""))
    return found


def read(data: bytes) -> Any:
    """JSON, also with halves of surrogate pairs, which the fast parser refuses; None if it is no JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None


def encode(value: Any) -> bytes:
    """JSON, also of halves of surrogate pairs, which the fast encoder refuses."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def _inner(usage: dict[str, Any], key: str) -> dict[str, Any]:
    inner = usage.get(key)
    return inner if isinstance(inner, dict) else {}
