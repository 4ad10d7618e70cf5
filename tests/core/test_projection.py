"""Reading a log back gives the output that its terminal event has, or would have had."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.core.assembly.outcome import cancelled, failed
from antiphon.core.projection import project
from tests.core.runs import drive
from tests.core.upstream_streams import Stream, encode, spoilt, streams, terminal


def output_of(log: list[bytes]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = orjson.loads(log[-1])["response"]["output"]
    return output


@settings(max_examples=60)
@given(spoilt(), st.integers(0, 30))
def test_a_finished_log_gives_the_output_of_its_terminal(raw: list[bytes], at: int) -> None:
    for events, end in ((raw, None), (raw[:at], cancelled("user:anna"))):
        _, log = drive(events, end)
        if b'"type":"response.failed"' not in log[-1]:
            assert project(log) == project(log[:-1]) == output_of(log)


@settings(max_examples=60)
@given(streams(interleaved=True), st.integers(0, 40))
def test_a_log_that_stops_anywhere_gives_what_a_failed_run_shows(stream: Stream, at: int) -> None:
    _, log = drive(map(encode, stream.events[:at]), failed("server_lost", "Gone."))
    assert project(log[:-1]) == output_of(log)


@settings(max_examples=40)
@given(streams(), st.data())
def test_half_items_are_incomplete_with_what_they_said_and_done_ones_as_they_are(
    stream: Stream, data: st.DataObject
) -> None:
    _, log = drive([*map(encode, stream.events), encode(terminal("completed"))])
    stop = data.draw(st.integers(0, len(log) - 1))
    finished = output_of(log)
    said = [orjson.loads(event) for event in log[:stop]]
    done = {e["output_index"] for e in said if e["type"] == "response.output_item.done"}
    announced = [e["output_index"] for e in said if e["type"] == "response.output_item.added"]
    projected = project(log[:stop])
    assert len(projected) == len(announced)
    for index, item in enumerate(projected):
        if index in done:
            assert item == finished[index]
        else:
            assert item["id"] == finished[index]["id"]
            assert item.get("status", "incomplete") == "incomplete"


def test_an_empty_log_gives_no_items() -> None:
    assert project([]) == []


def test_annotations_and_log_probabilities_of_half_a_part_are_kept() -> None:
    where = {"output_index": 0, "item_id": "m", "content_index": 0}
    note = {"type": "file_path", "file_id": "f", "index": 0}
    events = [
        {"type": "response.output_text.delta", **where, "delta": "a", "logprobs": [{"token": "a", "logprob": -1}]},
        {"type": "response.output_text.annotation.added", **where, "annotation": note},
    ]
    _, log = drive(events, failed("server_lost", "Gone."))
    part = project(log[:-1])[0]["content"][0]
    assert part["annotations"] == [note]
    assert part["logprobs"][0]["token"] == "a"
    assert project(log[:-1]) == output_of(log)
