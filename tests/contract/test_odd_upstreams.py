"""Upstreams as they are, with tools of the server in the game: ids, indices and streams that mean nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.playing import LOOK, call, keyed, pairs, response, says, stage, types
from tests.session.play import response_id
from tests.support.stub_upstream import Handler, answering, play, whole

DONE = says(("text", "done"))
DO = keyed("do")
Event = dict[str, Any]


def changed(events: list[bytes], change: Callable[[Event], Event | None]) -> list[bytes]:
    """The events as `change` gives them; None leaves one out."""
    made = [change(json.loads(event)) for event in events]
    return [json.dumps(event).encode() for event in made if event is not None]


def constant_ids(event: Event) -> Event:
    if "item_id" in event:
        event["item_id"] = "item"
    for item in [event.get("item"), *event.get("response", {}).get("output", ())]:
        if item is not None:
            item["id"] = "item"
            if "call_id" in item:
                item["call_id"] = "call"
    return event


def without_indices(event: Event) -> Event:
    event.pop("output_index", None)
    return event


def index_zero(event: Event) -> Event:
    if "output_index" in event:
        event["output_index"] = 0
    return event


def without_call_ids(event: Event) -> Event:
    for item in [event.get("item"), *event.get("response", {}).get("output", ())]:
        if item is not None:
            item.pop("call_id", None)
    return event


def without_ids(event: Event) -> Event:
    event = without_call_ids(without_indices(event))
    event.pop("item_id", None)
    for item in [event.get("item"), *event.get("response", {}).get("output", ())]:
        if item is not None:
            item.pop("id", None)
    return event


def terminal_only(event: Event) -> Event | None:
    return event if "response" in event else None


def done_only(event: Event) -> Event | None:
    """Neither announcements nor texts, and no output at the end either."""
    if "response" in event:
        event["response"]["output"] = []
        return event
    return event if event["type"] == "response.output_item.done" else None


def done_only_without_ids(event: Event) -> Event | None:
    kept = done_only(event)
    return without_ids(kept) if kept is not None else None


ODD = [
    constant_ids,
    without_indices,
    index_zero,
    without_call_ids,
    without_ids,
    terminal_only,
    done_only,
    done_only_without_ids,
]


@pytest.mark.parametrize("odd", ODD)
async def test_every_round_is_understood_whatever_its_ids_and_indices_mean(odd: Any) -> None:
    name = odd.__name__
    rounds = [
        says(("reasoning", "hm"), call("do", "c0", key=f"{name}-{n}-0"), call("do", "c1", key=f"{name}-{n}-1"))
        for n in range(2)
    ]
    async with stage(*(changed(one, odd) for one in rounds), changed(DONE, odd), has=[DO]) as s:
        events = await s.run()
        output = response(events)["output"]
        assert types(output) == ["reasoning", "mcp_call", "mcp_call"] * 2 + ["message"]
        made = [item["output"] for item in output if item["type"] == "mcp_call"]
        assert made == [f"did {name}-{n}-{m}" for n in range(2) for m in range(2)]
        sent = s.sent(2)[1:]
        assert types(sent) == ["reasoning", *["function_call"] * 2, *["function_call_output"] * 2] * 2
        for start in (1, 6):  # within a round; across rounds an upstream may use its ids again
            calls, outputs = sent[start : start + 2], sent[start + 2 : start + 4]
            assert [item["call_id"] for item in calls] == [item["call_id"] for item in outputs]


@pytest.mark.parametrize("odd", ODD)
async def test_mixed_rounds_are_complete_whatever_ids_and_indices_mean(odd: Any) -> None:
    name = odd.__name__
    first = says(call("look", "c0"), call("do", "c1", key=f"m-{name}"), ("text", "t"), call("look", "c2"))
    async with stage(changed(first, odd), changed(DONE, odd), has=[DO]) as s:
        events = await s.run(tools=[LOOK])
        output = response(events)["output"]
        assert types(output) == ["function_call", "mcp_call", "message", "function_call"]
        assert output[1]["output"] == f"did m-{name}"
        answers = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": str(n)}
            for n, item in enumerate(output)
            if item["type"] == "function_call"
        ]
        await s.run(answers, previous_response_id=response_id(events), tools=[LOOK])
        if odd is not constant_ids:
            assert len(pairs(s.sent(1))) == 6


def whole_answer(events: list[bytes]) -> Handler:
    return answering(200, whole(events))


async def test_answers_that_are_not_streamed_work_in_every_round() -> None:
    rounds = [says(("text", "t"), call("do", "c", key=f"json-{n}"), ("text", "u")) for n in range(2)]
    async with stage(*map(whole_answer, rounds), whole_answer(DONE), has=[DO]) as s:
        events = await s.run()
        output = response(events)["output"]
        assert types(output) == ["message", "mcp_call", "message"] * 2 + ["message"]
        assert [item["output"] for item in output if item["type"] == "mcp_call"] == ["did json-0", "did json-1"]


async def test_a_call_that_is_announced_by_the_terminal_only_is_made() -> None:
    answer = says(("text", "t"), call("do", "c", key="terminal"))
    kept = [e for e in answer if b'"output_index":1' not in e or b"response.completed" in e]
    async with stage(kept, DONE, has=[DO]) as s:
        output = response(await s.run())["output"]
        assert types(output) == ["message", "mcp_call", "message"]
        assert output[1]["output"] == "did terminal"


async def test_a_call_without_arguments_is_a_call_with_none() -> None:
    def bare(event: Event) -> Event | None:
        if "arguments" in event["type"]:
            return None
        for item in [event.get("item"), *event.get("response", {}).get("output", ())]:
            if item is not None:
                item.pop("arguments", None)
        return event

    async with stage(changed(says(call("current_time", "c")), bare), DONE) as s:
        output = response(await s.run(tools=[{"type": "mcp", "server_label": "antiphon"}]))["output"]
        assert output[1]["error"] is None
        assert s.sent(1)[1]["arguments"] == ""


async def test_deltas_that_come_before_their_call_are_not_lost() -> None:
    answer = says(call("do", "c", key="early" * 20))
    added = next(n for n, e in enumerate(answer) if json.loads(e)["type"] == "response.output_item.added")
    moved = [*answer[:added], *answer[added + 1 : -2], answer[added], *answer[-2:]]
    async with stage(play(moved), DONE, has=[DO]) as s:
        assert response(await s.run())["output"][0]["output"] == f"did {'early' * 20}"
