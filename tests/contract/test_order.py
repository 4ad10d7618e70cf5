"""The order of events in a round with calls of the server and other items (contract point 8)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from antiphon.core.assembly import sink
from tests.contract.own_tools import begun, ended
from tests.contract.playing import LOOK, MODEL, PATCH, Stage, call, keyed, response, says, stage, types
from tests.support.gap_checker import check_run
from tests.support.stub_upstream import Handler, StubConn, StubRequest
from tests.support.ws_client import Event

DONE = says(("text", "done"))
TOOLS = [LOOK, PATCH]
DO = keyed("do")

START = ["output_item.added", "mcp_call.in_progress"]
ARGUMENTS = ["mcp_call_arguments.delta", "mcp_call_arguments.done"]
END = ["mcp_call.completed", "output_item.done"]


def of_first_round(events: list[Event], items: int) -> list[tuple[int, str]]:
    """(output index, type) of the events of the first `items` items, deltas in a row counted once."""
    found: list[tuple[int, str]] = []
    for event in events:
        index = event.get("output_index")
        step = (index, event["type"].removeprefix("response."))
        if isinstance(index, int) and index < items and step not in found[-1:]:
            found.append(step)
    return found


def pausing(before: list[bytes], go: asyncio.Event, after: list[bytes]) -> Handler:
    """An upstream that stops in the middle until it may go on."""

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in before:
            conn.sse(event)
        await go.wait()
        for event in after:
            conn.sse(event)
        conn.end()

    return handler


def cut_at(events: list[bytes], event_type: str, count: int = 1) -> tuple[list[bytes], list[bytes]]:
    """The events up to and with the `count`th of a type, and the rest."""
    places = [n for n, event in enumerate(events) if json.loads(event)["type"] == event_type]
    at = places[count - 1] + 1
    return events[:at], events[at:]


async def start(s: Stage, **fields: Any) -> None:
    await s.client.create(MODEL, tools=TOOLS, **fields)


async def until_type(s: Stage, event_type: str) -> list[Event]:
    return await s.client.recv_until(lambda e: e["type"] == event_type)


async def rest(s: Stage, before: list[Event]) -> list[Event]:
    events = [*before, *await s.client.collect_run()]
    check_run(events)
    return events


async def test_text_before_the_first_call_goes_out_as_it_comes() -> None:
    go = asyncio.Event()
    before, after = cut_at(says(("text", "now"), call("do", key="o-text")), "response.output_text.delta")
    async with stage(pausing(before, go, after), DONE, has=[DO]) as s:
        await start(s)
        seen = await until_type(s, "response.output_text.delta")
        go.set()
        events = await rest(s, seen)
    assert types(response(events)["output"]) == ["message", "mcp_call", "message"]


async def test_the_starts_of_the_first_run_overlap_and_the_ends_follow_in_output_order() -> None:
    key, other = "o-first", "o-second"
    first = says(call("do", key=key, after=[other]), call("do", key=other))
    async with stage(first, DONE, has=[DO]) as s:
        events = await s.run(tools=TOOLS)
    assert of_first_round(events, 2) == [
        *((0, kind) for kind in START + ARGUMENTS),
        *((1, kind) for kind in START + ARGUMENTS),
        *((0, kind) for kind in END),
        *((1, kind) for kind in END),
    ]


async def test_a_call_is_announced_before_it_is_made() -> None:
    key, gate = "o-announced", "o-announced-gate"
    async with stage(says(call("do", key=key, after=[gate])), DONE, has=[DO]) as s:
        await start(s)
        seen = await until_type(s, "response.mcp_call_arguments.done")
        async with asyncio.timeout(40):
            await begun[key].wait()
        assert "response.mcp_call.in_progress" in [e["type"] for e in seen]
        ended[gate].set()
        await rest(s, seen)


@pytest.mark.parametrize(
    "step",
    [("text", "after"), ("reasoning", "after"), call("look", at="it"), ("custom", "patch", "*** after")],
    ids=["text", "reasoning", "function_call", "custom_tool_call"],
)
async def test_what_comes_after_the_first_run_waits_for_its_results(step: Any) -> None:
    key, gate = f"o-after-{step[0]}", f"o-after-gate-{step[0]}"
    async with stage(says(call("do", key=key, after=[gate]), step), DONE, has=[DO]) as s:
        await start(s)
        async with asyncio.timeout(40):
            await begun[key].wait()
        seen = await until_type(s, "response.mcp_call_arguments.done")
        ended[gate].set()
        events = await rest(s, seen)
    order = of_first_round(events, 2)
    own = [(0, kind) for kind in START + ARGUMENTS + END]
    assert order[: len(own)] == own
    assert order[len(own)] == (1, "output_item.added")


async def test_a_later_call_of_the_server_behind_another_item_waits_with_its_start() -> None:
    steps = call("do", key="o-l0"), ("text", "between"), call("do", key="o-l1"), call("do", key="o-l2")
    async with stage(says(*steps), DONE, has=[DO]) as s:
        order = of_first_round(await s.run(tools=TOOLS), 4)
    whole = START + ARGUMENTS + END
    assert [kind for index, kind in order if index == 0] == whole
    assert order[: len(whole)] == [(0, kind) for kind in whole]
    assert order[-2 * len(whole) :] == [(index, kind) for index in (2, 3) for kind in whole]


async def test_a_custom_call_of_the_client_before_the_first_run_delays_its_start() -> None:
    key, gate = "o-custom", "o-custom-gate"
    steps = ("custom", "patch", "*** x"), call("do", key=key, after=[gate])
    async with stage(says(*steps), DONE, has=[DO]) as s:
        await start(s)
        async with asyncio.timeout(40):
            await begun[key].wait()
        seen = await until_type(s, "response.output_item.done")
        assert {e.get("output_index", 0) for e in seen} == {0}, "the call is made, but not shown yet"
        ended[gate].set()
        events = await rest(s, seen)
    assert [kind for index, kind in of_first_round(events, 2) if index == 1] == START + ARGUMENTS + END


async def test_calls_whose_start_is_delayed_are_shown_whole_one_after_the_other() -> None:
    steps = ("custom", "patch", "*** x"), call("do", key="o-whole-0"), call("do", key="o-whole-1")
    async with stage(says(*steps), DONE, has=[DO]) as s:
        order = of_first_round(await s.run(tools=TOOLS), 3)
    whole = START + ARGUMENTS + END
    assert order[-2 * len(whole) :] == [(index, kind) for index in (1, 2) for kind in whole]


async def test_a_function_call_of_the_client_before_the_first_run_delays_nothing() -> None:
    key, gate = "o-function", "o-function-gate"
    async with stage(says(call("look"), call("do", key=key, after=[gate])), DONE, has=[DO]) as s:
        await start(s)
        seen = await until_type(s, "response.mcp_call.in_progress")
        ended[gate].set()
        await rest(s, seen)


async def test_events_of_no_item_come_last() -> None:
    answer = says(call("do", key="o-audio"), ("text", "after"))
    audio = {"type": "response.audio.delta", "sequence_number": 0, "delta": "AAAA"}
    before, after = cut_at(answer, "response.output_item.done")
    async with stage([*before, json.dumps(audio).encode(), *after], DONE, has=[DO]) as s:
        events = await s.run(tools=TOOLS)
    kinds = types(events)
    place = kinds.index("audio.delta")
    text_done = max(n for n, event in enumerate(events) if event.get("output_index") == 1)
    assert text_done + 1 == place
    assert kinds[place + 1] == "output_item.added", "the next round follows"


async def test_too_much_behind_a_call_fails_the_run_and_shows_what_there_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sink, "MAX_HELD_EVENTS", 20)
    steps = [call("do", key="o-much"), *(("text", f"w{n} ") for n in range(40))]
    async with stage(pausing(says(*steps)[:-1], asyncio.Event(), []), has=[DO]) as s:
        events = await s.run(tools=TOOLS)
        async with asyncio.timeout(2):
            await s.stub.requests[0].closed
    error = response(events)["error"]
    assert (error["code"], error["message"]) == ("upstream_error", "The model said too much behind a tool call.")
    assert types(events).count("output_text.delta") >= 10
    assert types(events).count("failed") == 1
    assert not ended["o-much"].is_set()
