"""The state of a run whose log alone says how it ended."""

from __future__ import annotations

import orjson

from antiphon.core.run_state import RunState


def ended_state(state: RunState, terminal: bytes, now: float, kept_s: float) -> bytes:
    """The RunState row after a terminal event. now: Unix seconds. kept_s: how long it can still be attached to."""
    event = orjson.loads(terminal)
    response = event["response"]
    reason = response.get("error") or response.get("incomplete_details") or {}
    row = state.row() | {
        "state": response["status"],
        "revision": state.revision + 1,
        "head": event["sequence_number"],
        "updated_at": now,
        "expires_at": now + kept_s,
        "current_tool": None,
        "usage": response.get("usage"),
        "terminal": {"status": response["status"], "code": reason.get("code") or reason.get("reason"), "by": None},
    }
    return orjson.dumps(row)
