"""The transcripts in `protocol/cases` are what a server and a client may say to each other."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from antiphon_protocol.events import LOG_EVENT_TYPES, TERMINAL_TYPES
from tests.support.protocol_text import cases
from tests.support.schemas import validate_own, validate_own_client, validate_own_schema

CASES = cases()
Frame = dict[str, Any]


def logged(name: str) -> dict[str | None, list[Frame]]:
    """Lane -> its events, as the server sent them."""
    lanes: dict[str | None, list[Frame]] = defaultdict(list)
    for step in CASES[name]["steps"]:
        if step["frame"]["type"] in LOG_EVENT_TYPES:
            lanes[step["frame"].get("stream_id")].append(step["frame"])
    return lanes


def test_the_wanted_stories_are_told() -> None:
    wanted = {
        "first_frame_auth",
        "plain_turn",
        "tool_round_trip",
        "warm_up",
        "unknown_parent",
        "attach_replay",
        "steer_successor",
    }
    assert wanted <= CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_case_has_a_title_and_steps_of_both_sides(name: str) -> None:
    assert CASES[name]["title"]
    assert {step["dir"] for step in CASES[name]["steps"]} == {"client", "server"}


@pytest.mark.parametrize("name", CASES)
def test_every_frame_is_valid(name: str) -> None:
    for step in CASES[name]["steps"]:
        (validate_own_client if step["dir"] == "client" else validate_own)(step["frame"])
        validate_own_schema(step["frame"])


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_a_run_go_up_by_one_and_end_with_its_terminal_event(name: str) -> None:
    for events in logged(name).values():
        for event, following in zip(events, [*events[1:], None], strict=True):
            if event["type"] in TERMINAL_TYPES:
                assert following is None or following["sequence_number"] == 0
            else:
                assert following is not None
                assert following["sequence_number"] == event["sequence_number"] + 1


@pytest.mark.parametrize("name", CASES)
def test_text_deltas_add_up_to_the_finished_text(name: str) -> None:
    for events in logged(name).values():
        text = ""
        for event in events:
            if event["type"] == "response.output_text.delta":
                text += event["delta"]
            elif event["type"] == "response.output_text.done":
                assert event["text"].endswith(text)
                text = ""


@pytest.mark.parametrize("name", CASES)
def test_every_command_has_one_reply_with_its_id(name: str) -> None:
    frames = [(step["dir"], step["frame"]) for step in CASES[name]["steps"]]
    asked = [frame["id"] for side, frame in frames if side == "client" and frame["type"].startswith("antiphon:")]
    replied = [frame["id"] for side, frame in frames if side == "server" and "id" in frame]
    assert sorted(asked) == sorted(replied)


def test_the_attached_client_gets_exactly_what_comes_after_its_cursor() -> None:
    events = logged("attach_replay")["att.1"]
    assert events[0]["sequence_number"] == 2
    assert events[-1]["type"] == "response.completed"


def test_the_continuation_of_a_tool_call_names_its_parent_and_its_call() -> None:
    creates = [
        step["frame"] for step in CASES["tool_round_trip"]["steps"] if step["frame"]["type"] == "response.create"
    ]
    first, *_ = (event["response"]["id"] for event in logged("tool_round_trip")["main"] if "response" in event)
    assert creates[1]["previous_response_id"] == first
    assert creates[1]["input"][0]["call_id"] == "call_1"
