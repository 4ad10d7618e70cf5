"""A model that goes round in a loop: the 4th identical turn warns, the 5th and 6th force, the 7th halts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.core.loop_detection import OTHER_WAY, WARNING
from tests.contract.playing import LOOK, MODEL, Stage, call, keyed, pairs, response, says, stage, types
from tests.session.play import connected, stub_settings
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubUpstream, in_turn, play

SAME = "I looked at it once more and found nothing new."
AGAIN = says(call("do", key="weather-in-oslo"))
WARNED = {"role": "developer", "content": [{"type": "input_text", "text": WARNING}], "type": "message"}
ACTIONS = [("warn", 4), ("force", 5), ("force", 6), ("halt", 7)]


def detected(server: RunningServer, kind: str = "call") -> list[tuple[str, int]]:
    """What the feed says of loops, in order."""
    entries = [e for e in server.app.lifecycle.since("default", 0) or [] if e.event == "run.loop_detected"]
    assert all(
        entry.data["kind"] == kind and entry.data.keys() == {"repeats", "action", "kind"} for entry in entries
    )
    return [(entry.data["action"], entry.data["repeats"]) for entry in entries]


def reason(events: Any) -> str | None:
    details = response(events)["incomplete_details"]
    return details["reason"] if details else None


async def chain(it: Stage, count: int, **fields: Any) -> list[str | None]:
    """A conversation of so many responses; why each one did not complete."""
    ends: list[str | None] = []
    for _ in range(count):
        events = await it.run(**fields)
        fields["previous_response_id"] = response(events)["id"]
        ends.append(reason(events))
    return ends


async def test_a_run_that_calls_the_same_tool_is_warned_forced_and_halted() -> None:
    async with stage(AGAIN, has=[keyed("do")]) as it:
        events = await it.run()
        assert detected(it.server) == ACTIONS
        bodies = [request.body for request in it.stub.requests]
    assert events[-1]["type"] == "response.incomplete"
    assert reason(events) == "loop_detected"
    assert len(bodies) == 7
    assert [WARNED in body["input"] for body in bodies] == [False] * 4 + [True] + [False] * 2
    assert [body.get("tool_choice", "auto") for body in bodies] == ["auto"] * 5 + ["none"] * 2
    assert types(response(events)["output"]) == ["mcp_call"] * 7
    assert [item["status"] for item in response(events)["output"]] == ["completed"] * 6 + ["incomplete"]


async def test_a_model_that_heeds_the_warning_goes_on_undisturbed() -> None:
    async with stage(*[AGAIN] * 4, says(("text", "I give up: the tool has no answer.")), has=[keyed("do")]) as it:
        events = await it.run()
        assert detected(it.server) == ACTIONS[:1]
        assert WARNING not in str(events)
    assert events[-1]["type"] == "response.completed"


async def test_texts_that_repeat_over_a_conversation_change_the_instructions_and_halt_the_7th_response() -> None:
    async with stage(says(("text", SAME))) as it:
        assert await chain(it, 7, instructions="Be brief.") == [None] * 6 + ["loop_detected"]
        assert detected(it.server, "text") == ACTIONS
        bodies = [request.body for request in it.stub.requests]
    assert [body["instructions"] for body in bodies] == ["Be brief."] * 5 + [f"Be brief.\n\n{OTHER_WAY}"] * 2
    assert [WARNED in body["input"] for body in bodies] == [False] * 4 + [True] + [False] * 2


async def test_what_was_injected_is_in_no_response_and_in_no_later_history() -> None:
    async with stage(*[says(("text", SAME))] * 6, says(("text", "Something new at last, and a long one."))) as it:
        fields: dict[str, Any] = {"instructions": "Be brief."}
        for _ in range(7):
            events = await it.run(**fields)
            fields["previous_response_id"] = response(events)["id"]
            assert response(events)["instructions"] == "Be brief."
            assert WARNING not in str(events) and OTHER_WAY not in str(events)
        await it.run(**fields)
        assert [WARNED in it.sent(index) for index in (5, 6, 7)] == [False] * 3
        assert it.stub.requests[7].body["instructions"] == "Be brief."


async def test_a_client_that_answers_the_same_call_again_and_again_is_halted_too() -> None:
    async with stage(says(call("look", "look", where="behind the big house"))) as it:
        fields: dict[str, Any] = {"tools": [LOOK]}
        ends = []
        for _ in range(7):
            events = await it.run(**fields)
            open_call = response(events)["output"][-1]
            output = {"type": "function_call_output", "call_id": open_call["call_id"], "output": "nothing"}
            fields |= {"previous_response_id": response(events)["id"], "input": [output]}
            ends.append(reason(events))
        assert ends == [None] * 6 + ["loop_detected"]
        assert [request.body.get("tool_choice") for request in it.stub.requests][5:] == ["none", "none"]
        pairs(it.sent(6))


async def test_a_halted_conversation_can_be_continued_and_is_free_again_when_the_model_does_something_else() -> (
    None
):
    other = says(("text", "All right, here is a different answer."))
    async with stage(*[says(("text", SAME))] * 7, other) as it:
        assert await chain(it, 8) == [None] * 6 + ["loop_detected", None]
        assert it.stub.requests[7].body["instructions"] == OTHER_WAY


async def test_branches_of_one_response_are_not_a_loop() -> None:
    async with stage(says(("text", SAME))) as it:
        root = response(await it.run())["id"]
        ends = [reason(await it.run(previous_response_id=root)) for _ in range(8)]
        assert (ends, detected(it.server)) == ([None] * 8, [])


async def test_other_conversations_and_short_answers_are_not_a_loop() -> None:
    async with stage(says(("text", SAME))) as it:
        for _ in range(8):
            await it.run()
        assert detected(it.server) == []
    async with stage(says(("text", "Yes, all is well."))) as it:
        assert await chain(it, 8) == [None] * 8


async def test_held_calls_that_repeat_are_halted_and_nobody_is_asked_the_last_time() -> None:
    async with stage(says(call("look", "look", where="behind the big house"))) as it:
        await it.client.hello()
        await it.client.create(MODEL, input="go", tools=[LOOK], antiphon={"client_tools": "hold"})
        for _ in range(6):
            got = await it.client.recv_until(
                lambda event: (
                    event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call"
                )
            )
            output = {"type": "function_call_output", "call_id": got[-1]["item"]["call_id"], "output": "nothing"}
            created = next(e for e in it.client.received if e["type"] == "response.created")
            await it.client.send(
                {"type": "response.inject", "response_id": created["response"]["id"], "input": [output]}
            )
        events = await it.client.collect_run()
        assert reason(events) == "loop_detected"
        assert len(it.stub.requests) == 7


async def test_numbers_are_configuration_and_detection_can_be_off() -> None:
    numbers = {"detection": {"warn_at": 2, "force_at": 2, "halt_at": 3}}
    async with stage(AGAIN, has=[keyed("do")], loop=numbers) as it:
        assert reason(await it.run()) == "loop_detected"
        assert detected(it.server) == [("force", 2), ("halt", 3)]
    async with stage(AGAIN, has=[keyed("do")], loop={"detection": {"enabled": False}}) as it:
        assert reason(await it.run()) == "max_tool_rounds"
        assert detected(it.server) == []


@pytest.mark.parametrize("turns_before", [3])
async def test_a_server_that_starts_again_reads_the_last_turns_from_the_store(
    tmp_path: Path, turns_before: int
) -> None:
    async with StubUpstream(in_turn(play(says(("text", SAME))))) as stub:
        fields: dict[str, Any] = {}
        for turns in (turns_before, 1):
            async with (
                running_server(tmp_path, **stub_settings(stub)) as server,
                connected(server.ws_url) as client,
            ):
                for _ in range(turns):
                    events = await client.run(MODEL, **fields)
                    fields["previous_response_id"] = response(events)["id"]
                found = detected(server, "text")
        assert found == [("warn", 4)]
