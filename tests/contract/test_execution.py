"""Calls of the server's own tools: bounded, in order, and never the end of a run (contract points 7, 10, 15)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.assembly.server_call import error_text
from tests.contract.own_tools import most
from tests.contract.playing import LOOK, PATCH, call, keyed, own, pairs, response, says, stage, types
from tests.session.play import response_id

DONE = says(("text", "done"))
DO = keyed("do")


def made(events: list[Any]) -> list[dict[str, Any]]:
    return [item for item in response(events)["output"] if item["type"] == "mcp_call"]


async def test_results_stand_in_the_order_of_the_calls_whatever_ends_first() -> None:
    steps = [
        call("do", "c0", key="x-0", after=["x-1"]),
        call("do", "c1", key="x-1", after=["x-2"]),
        call("do", "c2", key="x-2"),
    ]
    async with stage(says(*steps), DONE, has=[DO]) as s:
        events = await s.run()
        assert [item["output"] for item in made(events)] == ["did x-0", "did x-1", "did x-2"]
        assert [item["call_id"] for item in s.sent(1)[1:]] == ["c0", "c1", "c2"] * 2
        assert types(s.sent(1)[1:]) == ["function_call"] * 3 + ["function_call_output"] * 3


async def test_not_more_calls_run_at_once_than_the_fan_out() -> None:
    steps = [call("crowd", key="fan", n=n, full=2) for n in range(6)]
    async with stage(says(*steps), DONE, has=[own("crowd")], tools={"fan_out": 2}) as s:
        assert [item["output"] for item in made(await s.run())] == [str(n) for n in range(6)]
    assert most["fan"] == 2


@pytest.mark.parametrize(
    ("tool", "step", "error"),
    [
        (own("refuse"), call("refuse"), "The cupboard is bare."),
        (own("crash"), call("crash"), "The tool failed (RuntimeError)."),
        (own("big"), call("big"), "The output is larger than 1048576 bytes, the limit of this tool."),
        (
            own("hang", timeout_s=0.2),
            call("hang", key="x-timeout"),
            "The tool did not answer within 0.2 s.",
        ),
        (DO, call("do", key=7), "The arguments do not fit the schema at $.key: 7 is not of type 'string'"),
        (DO, ("call", "do", '{"key": '), "The arguments are not a JSON object: "),
        (DO, ("call", "do", "[1]"), "The arguments are not a JSON object: "),
    ],
    ids=["refuses", "crashes", "50 MB", "hangs", "misfit", "no JSON", "no object"],
)
async def test_whatever_goes_wrong_in_a_tool_is_read_by_the_model_and_the_run_goes_on(
    tool: dict[str, Any], step: Any, error: str
) -> None:
    async with stage(says(step), DONE, has=[tool]) as s:
        events = await s.run()
        (item,) = made(events)
        assert (item["status"], item["output"]) == ("failed", None)
        assert error_text(item["error"]).startswith(error)
        assert item["arguments"] == step[2]
        assert types(events).count("mcp_call.failed") == 1
        assert types(events).count("mcp_call.completed") == 0
        assert response(events)["status"] == "completed"
        assert s.sent(1)[-1]["output"] == f"error: {error_text(item['error'])}"
        assert "swordfish" not in json.dumps([*events, s.sent(1)])
        assert len(pairs(s.sent(1))) == 2


async def test_one_failing_call_takes_no_other_with_it() -> None:
    steps = [call("do", key="x-beside"), call("crash"), call("do", key="x-behind")]
    async with stage(says(*steps), DONE, has=[DO, own("crash")]) as s:
        assert [item["status"] for item in made(await s.run())] == ["completed", "failed", "completed"]


async def test_a_call_of_the_server_is_no_function_call_to_clients_and_one_to_the_model() -> None:
    async with stage(says(call("do", "c", key="x-kind")), DONE, has=[DO]) as s:
        events = await s.run()
        assert "function_call" not in {e["item"]["type"] for e in events if "item" in e}
        assert not [kind for kind in types(events) if kind.startswith("function_call")]
        (item,) = made(events)
        assert item["id"].startswith("mcp_")
        assert (item["server_label"], item["name"], item["status"]) == ("antiphon", "do", "completed")
        assert (item["error"], item["approval_request_id"]) == (None, None)
        assert types(s.sent(1)[1:]) == ["function_call", "function_call_output"]
        (offered,) = [tool for tool in s.stub.requests[0].body["tools"] if tool["name"] == "do"]
        assert (offered["type"], offered["parameters"]) == ("function", DO["parameters"])
        assert response(events)["tools"] == []


async def test_arguments_of_a_call_of_the_server_stream_as_its_own_events() -> None:
    async with stage(says(call("do", key="x-args" * 9)), DONE, has=[DO]) as s:
        events = await s.run()
    deltas = [e["delta"] for e in events if e["type"] == "response.mcp_call_arguments.delta"]
    assert len(deltas) > 1
    assert "".join(deltas) == made(events)[0]["arguments"]


async def test_what_calls_say_is_not_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    secret = "swordfish"
    steps = [call("do", key=f"x-{secret}"), ("custom", "patch", f"the {secret}"), call("look", word=secret)]
    async with stage(says(*steps), DONE, has=[DO]) as s:
        events = await s.run(f"say {secret}", tools=[LOOK, PATCH])
        calls = [item for item in response(events)["output"] if item["type"] != "mcp_call"]
        outputs = [
            {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": secret} for item in calls
        ]
        await s.run(outputs, previous_response_id=response_id(events), tools=[LOOK, PATCH])
    logged = capsys.readouterr()
    lines = [line for line in logged.out.splitlines() if "client_call" in line and "custom_tool_call" in line]
    assert len(lines) == 1
    assert f"chars={len('the swordfish')}" in lines[0]
    assert secret not in logged.out + logged.err
