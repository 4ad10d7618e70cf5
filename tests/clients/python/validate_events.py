"""Reads events as JSON lines and holds each to openai-python's typed union, strictly.

Arguments: `websocket` or `sse`, which union, and the file with the events. Prints `{"count": N, "faults": [...]}`.
"""

from __future__ import annotations

import json
import sys
from typing import Any, get_args

from openai.types.responses import ResponseStreamEvent
from openai.types.responses.responses_server_event import ResponsesServerEvent
from pydantic import TypeAdapter, ValidationError

UNIONS: dict[str, Any] = {"websocket": ResponsesServerEvent, "sse": ResponseStreamEvent}


def adapters(union: Any) -> dict[str, TypeAdapter[Any]]:
    """One adapter for each `type`, so that a fault is reported against the one model it belongs to."""
    members = get_args(get_args(union)[0])
    return {get_args(model.model_fields["type"].annotation)[0]: TypeAdapter(model) for model in members}


def fault(event: dict[str, Any], known: dict[str, TypeAdapter[Any]]) -> list[str]:
    adapter = known.get(event.get("type", ""))
    if adapter is None:
        return [f"type {event.get('type')!r} is not in the union"]
    try:
        adapter.validate_python(event, strict=True)
    except ValidationError as error:
        return [f"{'.'.join(map(str, e['loc']))}: {e['msg']} (got {e['input']!r:.120})" for e in error.errors()]
    return []


def main() -> None:
    known = adapters(UNIONS[sys.argv[1]])
    with open(sys.argv[2], encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    found = [(number, event.get("type"), fault(event, known)) for number, event in enumerate(events)]
    faults = [{"line": n, "type": kind, "errors": errors[:20]} for n, kind, errors in found if errors]
    print(json.dumps({"count": len(events), "faults": faults}))


main()
