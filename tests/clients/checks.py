"""What every client's result is held to."""

from __future__ import annotations

from typing import Any

from tests.support.gap_checker import CheckedRun, check_run
from tests.support.openai_union import Wire, validate_with_openai

WEATHER = "7 degrees and drizzle"


async def check_runs(result: dict[str, Any], wire: Wire = "websocket") -> list[CheckedRun]:
    """Each run the client saw is whole, and each of its events is one the SDK knows."""
    runs = [check_run(events) for events in result["runs"]]
    events = [event for run in result["runs"] for event in run]
    await validate_with_openai(events, wire)
    return runs


def check_refusal(events: list[dict[str, Any]], status: int, code: str, param: str | None) -> dict[str, Any]:
    """A create was answered by exactly one `error` in the shape of the socket."""
    assert [event["type"] for event in events] == ["error"]
    refusal = events[0]
    assert (refusal["status"], refusal["error"]["code"], refusal["error"]["param"]) == (status, code, param)
    assert "sequence_number" not in refusal
    return refusal
