"""What each transcript of `protocol/cases` means to a reader; client_js/test/unit/cases.test.ts reads it alike."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon_protocol.events import LOG_EVENT_TYPES
from tests.support.gap_checker import check_run
from tests.support.protocol_text import cases

CASES = cases()


def outcome(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs that were read, in the order they began, and the codes of what was refused."""
    runs: list[list[dict[str, Any]]] = []
    reading: dict[str | None, list[dict[str, Any]]] = {}
    refused = []
    for frame in (step["frame"] for step in steps if step["dir"] == "server"):
        if frame["type"] == "error":
            refused.append(frame["error"]["code"])
        elif frame["type"] == "antiphon:error":
            refused.append(frame["code"])
        elif frame["type"] in LOG_EVENT_TYPES:
            lane = frame.get("stream_id")
            if lane not in reading or frame["sequence_number"] == 0:
                reading[lane] = []
                runs.append(reading[lane])
            reading[lane].append(frame)
    return {"runs": [summary(events) for events in runs], "refused": refused}


def summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    """One run, from its events alone: its text from the deltas, its calls from what was finished."""
    first, last = events[0], events[-1]
    checked = check_run(events, start=first["sequence_number"])
    assert checked.terminal is not None
    response = checked.terminal
    return {
        "lane": first.get("stream_id"),
        "id": response["id"],
        "parent": response["previous_response_id"],
        "numbers": [first["sequence_number"], last["sequence_number"]],
        "status": response["status"],
        "text": checked.text,
        "calls": [[call["name"], call["arguments"]] for call in checked.calls],
    }


@pytest.mark.parametrize("name", CASES)
def test_a_reader_makes_of_a_transcript_what_its_outcome_says(name: str) -> None:
    assert outcome(CASES[name]["steps"]) == CASES[name]["outcome"]
