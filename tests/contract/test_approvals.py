"""Calls that a person has to approve: asked and answered in the next create, or held (contract points 6 and 7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.core.assembly.server_call import error_text
from tests.contract.own_tools import arguments_of, begun
from tests.contract.playing import LOOK, MODEL, Stage, call, keyed, own, pairs, response, says, stage, types
from tests.http.calling import until
from tests.session.play import response_id
from tests.support.gap_checker import check_run
from tests.support.stub_upstream import hang, play
from tests.support.ws_client import Event

DONE = says(("text", "done"))
DO = keyed("do", require_approval="always")
HOLD = {"client_tools": "hold"}


def requests_of(events: list[Event]) -> list[dict[str, Any]]:
    return [item for item in response(events)["output"] if item["type"] == "mcp_approval_request"]


def answer(request: dict[str, Any], approve: bool = True, **more: Any) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve, **more}


async def test_a_call_that_needs_approval_is_asked_for_and_not_made() -> None:
    async with stage(says(call("do", "c", key="a-asked")), DONE, has=[DO]) as s:
        events = await s.run()
        (request,) = requests_of(events)
        assert request == {
            "id": request["id"],
            "type": "mcp_approval_request",
            "arguments": '{"key": "a-asked"}',
            "name": "do",
            "server_label": "antiphon",
        }
        assert request["id"].startswith("mcpr_")
        assert response(events)["status"] == "completed"
        assert "a-asked" not in arguments_of
        assert not [kind for kind in types(events) if "call" in kind], "no arguments stream, no call begins"


async def test_an_approved_call_is_made_before_the_model_goes_on() -> None:
    async with stage(says(call("do", "c", key="a-yes")), DONE, has=[DO]) as s:
        first = await s.run()
        (request,) = requests_of(first)
        second = await s.run([answer(request)], previous_response_id=response_id(first))
        made, said = response(second)["output"]
        assert (made["type"], made["output"], made["status"]) == ("mcp_call", "did a-yes", "completed")
        assert (made["approval_request_id"], made["arguments"]) == (request["id"], '{"key": "a-yes"}')
        assert said["type"] == "message"
        assert types(s.sent(1)) == ["message", "function_call", "function_call_output"]
        assert s.sent(1)[2] == {"type": "function_call_output", "call_id": "c", "output": "did a-yes"}
        third = await s.run("on", previous_response_id=response_id(second))
        assert response(third)["status"] == "completed"
        assert pairs(s.sent(2)) == [("call", "c"), ("output", "c")]


async def test_a_denied_call_is_not_made_and_the_model_is_told_why() -> None:
    async with stage(says(call("do", "c", key="a-no")), DONE, has=[DO]) as s:
        (request,) = requests_of(first := await s.run())
        second = await s.run([answer(request, False, reason="too dear")], previous_response_id=response_id(first))
        made = response(second)["output"][0]
        assert (made["status"], made["output"]) == ("failed", None)
        assert error_text(made["error"]) == "The call was not approved: too dear"
        assert "a-no" not in arguments_of
        assert s.sent(1)[2]["output"] == "error: The call was not approved: too dear"


async def test_a_message_beside_an_approval_stands_behind_the_pair() -> None:
    async with stage(says(call("do", "c", key="a-beside")), DONE, has=[DO]) as s:
        (request,) = requests_of(first := await s.run())
        message = {"type": "message", "role": "user", "content": "and hurry"}
        await s.run([message, answer(request)], previous_response_id=response_id(first))
        assert types(s.sent(1)) == ["message", "function_call", "function_call_output", "message"]
        assert s.sent(1)[3] == message


async def test_approvals_calls_of_clients_and_calls_of_the_server_meet_in_one_round() -> None:
    steps = call("do", "c0", key="a-mix"), call("look", "c1"), call("crowd", "c2", key="a-mix", n=1, full=1)
    async with stage(says(*steps), DONE, has=[DO, own("crowd")]) as s:
        first = await s.run(tools=[LOOK])
        output = response(first)["output"]
        assert types(output) == ["mcp_approval_request", "function_call", "mcp_call"]
        seen = {"type": "function_call_output", "call_id": output[1]["call_id"], "output": "seen"}
        for part in ([seen], [answer(output[0])]):
            error = await s.refusal(input=part, previous_response_id=response_id(first), tools=[LOOK])
            assert error["code"] == "tool_output_missing"
        second = await s.run([seen, answer(output[0])], previous_response_id=response_id(first), tools=[LOOK])
        assert types(response(second)["output"]) == ["mcp_call", "message"]
        assert len(pairs(s.sent(1))) == 6
        outputs = {item["call_id"]: item["output"] for item in s.sent(1) if "output" in item}
        assert outputs == {"c0": "did a-mix", "c1": "seen", "c2": "1"}


async def test_an_approval_nobody_asked_for_is_refused() -> None:
    async with stage(DONE, has=[DO]) as s:
        first = await s.run()
        error = await s.refusal(input=[answer({"id": "mcpr_nobody"})], previous_response_id=response_id(first))
        assert (error["status"], error["code"]) == (400, "tool_output_unknown")


async def _cancel(s: Stage, run_id: str) -> None:
    await s.client.hello()
    await s.client.command("antiphon:cancel", response_id=run_id)
    await s.client.collect_run()


@pytest.mark.parametrize("when", ["in the call", "in the next round"])
async def test_a_run_cancelled_behind_an_approval_can_be_continued(when: str) -> None:
    key = f"a-cancel-{when}"
    tool = own("hang", require_approval="always") if when == "in the call" else DO
    async with stage(says(call(tool["name"], "c", key=key)), hang(), has=[tool]) as s:
        (request,) = requests_of(first := await s.run())
        await s.client.create(
            MODEL, [answer(request), {"role": "user", "content": "x"}], previous_response_id=response_id(first)
        )
        run_id = response_id([await s.client.recv_on()])
        async with asyncio.timeout(40):
            await begun[key].wait()
        if when != "in the call":
            await s.stub.request(1)
        await _cancel(s, run_id)
        s.stub.handler = play(DONE)
        await s.run("on", previous_response_id=run_id)
        sent = s.stub.requests[-1].body["input"]
        assert len(pairs(sent)) == 2
        assert types(sent) == ["message", "function_call", "function_call_output", "message", "message"]


async def held(s: Stage, **fields: Any) -> tuple[str, list[Event], dict[str, Any]]:
    """A run that waits for an approval: its id, what was shown, the request."""
    await s.client.create(MODEL, antiphon={**HOLD, **fields.pop("antiphon", {})}, **fields)
    seen = await s.client.recv_until(
        lambda e: e["type"] == "response.output_item.done" and e["item"]["type"] == "mcp_approval_request"
    )
    run_id = response_id(seen)
    await until(lambda: s.server.app.registry.get(run_id).state == "waiting_for_tool")
    return run_id, seen, seen[-1]["item"]


async def inject(s: Stage, run_id: str, item: dict[str, Any]) -> None:
    await s.client.send({"type": "response.inject", "response_id": run_id, "input": [item]})


async def rest(s: Stage, seen: list[Event]) -> list[Event]:
    events = [*seen, *await s.client.collect_run()]
    return [event for event in events if not event["type"].startswith("response.inject")]


@pytest.mark.parametrize("approve", [True, False])
async def test_a_held_approval_is_answered_in_the_living_response(approve: bool) -> None:
    key = f"a-held-{approve}"
    async with stage(says(call("do", "c", key=key)), DONE, has=[DO]) as s:
        run_id, seen, request = await held(s)
        (pending,) = s.server.app.registry.get(run_id).row()["pending_calls"]
        assert (pending["call_id"], pending["kind"], pending["name"]) == (request["id"], "approval", "do")
        await inject(s, run_id, answer(request, approve))
        output = response(await rest(s, seen))["output"]
        assert types(output) == ["mcp_approval_request", "mcp_call", "message"]
        assert output[1]["approval_request_id"] == request["id"]
        assert output[1]["output"] == (f"did {key}" if approve else None)
        assert (key in arguments_of) == approve
        assert pairs(s.sent(1)) == [("call", "c"), ("output", "c")]


async def test_a_held_approval_that_nobody_gives_in_time_is_a_denial() -> None:
    async with stage(says(call("do", "c", key="a-late")), DONE, has=[DO]) as s:
        await s.client.create(MODEL, antiphon={**HOLD, "deadline_s": 0.3})
        output = response(await s.client.collect_run())["output"]
        assert types(output) == ["mcp_approval_request", "mcp_call", "message"]
        assert output[1]["status"] == "failed"
        assert "a-late" not in arguments_of
        assert len(pairs(s.sent(1))) == 2


async def test_a_run_cancelled_in_an_approved_call_leaves_nothing_dangling() -> None:
    key = "a-held-cancel"
    tool = own("hang", require_approval="always")
    async with stage(says(call("hang", "c", key=key)), DONE, has=[tool]) as s:
        run_id, _, request = await held(s)
        await inject(s, run_id, answer(request))
        async with asyncio.timeout(40):
            await begun[key].wait()
        await _cancel(s, run_id)
        await s.run("on", previous_response_id=run_id)
        assert pairs(s.sent(1)) == []


async def test_a_held_set_of_approvals_and_calls_is_shown_in_the_order_of_the_calls() -> None:
    steps = call("do", "c0", key="a-set-0"), call("look", "c1"), call("do", "c2", key="a-set-1")
    async with stage(says(*steps), DONE, has=[DO]) as s:
        await s.client.create(MODEL, tools=[LOOK], antiphon=HOLD)
        seen = await s.client.recv_until(
            lambda e: e["type"] == "response.output_item.done" and e["output_index"] == 2
        )
        run_id = response_id(seen)
        first, look, second = [e["item"] for e in seen if e["type"] == "response.output_item.done"]
        seen_look = {"type": "function_call_output", "call_id": look["call_id"], "output": "seen"}
        for item in (answer(second, False), seen_look, answer(first)):
            await inject(s, run_id, item)
        events = await rest(s, seen)
        check_run(events)
        output = response(events)["output"]
        assert types(output[3:]) == ["mcp_call", "function_call_output", "mcp_call", "message"]
        assert [item["output"] for item in output[3:6]] == ["did a-set-0", "seen", None]
        outputs = [item["call_id"] for item in s.sent(1) if item["type"] == "function_call_output"]
        assert outputs == ["c0", "c1", "c2"]
        assert len(pairs(s.sent(1))) == 6
