"""What every client script here shares: where the server is, a tool of each kind, one JSON result."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

BASE_URL = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ANTIPHON_URL", "http://127.0.0.1:8787/v1")
API_KEY = os.environ.get("ANTIPHON_API_KEY", "any")
WAIT_S = 20.0
TERMINALS = ("response.completed", "response.failed", "response.incomplete")
WEATHER_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "strict": False,
    "parameters": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"city": {"type": "string"}},
    },
}
CLOCK_TOOL = {
    "type": "mcp",
    "server_label": "antiphon",
    "allowed_tools": ["current_time"],
    "require_approval": "never",
}
WEATHER = "7 degrees and drizzle"


def report(**facts: Any) -> None:
    """Print the result. Events of SDK types become plain JSON, with only the fields that came over the wire."""
    print(json.dumps(facts, default=lambda value: value.to_dict(mode="json")))


def the_call(output: list[Any]) -> Any:
    """The one function call among the output items."""
    calls = [item for item in output if item.type == "function_call"]
    assert len(calls) == 1, f"expected one call, got {output}"
    assert calls[0].name == "get_weather", calls[0]
    assert isinstance(json.loads(calls[0].arguments), dict), calls[0].arguments
    return calls[0]


def output_of(call: Any) -> dict[str, Any]:
    """The answer to a call."""
    return {"type": "function_call_output", "call_id": call.call_id, "output": WEATHER}
