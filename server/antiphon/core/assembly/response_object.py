"""The Response object: what was asked, echoed, encoded once; what changes is put in front of it."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.core.assembly.outcome import Outcome
from antiphon.core.model_body import visible_tools

_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "auto",
    "temperature": 1.0,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "store": True,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Fields echoed as asked, with what is said when they were not asked for."""


_ECHOED_IF_ASKED = ("access_programs", "image", "prompt", "prompt_cache_options", "prompt_cache_retention")
"""Fields that responses need not have."""


class ResponseObject:
    """The response of one run. Encoding costs the output and a few fields; the echo is made once."""

    def __init__(self, response_id: str, created_at: int, request: dict[str, Any]) -> None:
        self.id = response_id
        self.created_at = created_at
        self.completed_at: int | None = None
        """Unix seconds; set when the response completed."""
        echoed = {
            key: request[key] if request.get(key) is not None else default for key, default in _ECHOED.items()
        }
        echoed |= {key: request[key] for key in _ECHOED_IF_ASKED if request.get(key) is not None}
        reasoning = request.get("reasoning")
        echoed["model"] = request["model"]
        echoed["tools"] = visible_tools(request.get("tools"))
        echoed["metadata"] = request.get("metadata") or {}
        echoed["background"] = bool(request.get("background"))
        echoed["conversation"] = _conversation(request.get("conversation"))
        echoed["reasoning"] = {
            "effort": None,
            "summary": None,
            **(reasoning if isinstance(reasoning, dict) else {}),
        }
        echoed["text"] = _text(request.get("text"))
        self._echo = orjson.dumps(echoed)[1:]

    def encode(self, status: str, output: bytes, outcome: Outcome | None = None) -> bytes:
        """The whole object. output: the encoded list of items."""
        error = outcome.error if outcome else None
        reason = outcome.reason if outcome else None
        moving = {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "status": status,
            "completed_at": self.completed_at if status == "completed" else None,
            "error": error,
            "incomplete_details": {"reason": reason} if reason else None,
            "usage": outcome.usage if outcome else None,
            "output": orjson.Fragment(output),
        }
        return orjson.dumps(moving)[:-1] + b"," + self._echo


def _conversation(given: Any) -> dict[str, Any] | None:
    """Of the two forms of the request, the one that responses have."""
    named = given.get("id") if isinstance(given, dict) else given
    return {"id": named} if named is not None else None


def _text(given: Any) -> dict[str, Any]:
    text = dict(given) if isinstance(given, dict) else {}
    if not text.get("format"):
        text["format"] = {"type": "text"}
    return text
