"""Rounds: what follows each of them, and what the whole response says (contract points 1, 4, 5, 9, 12)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.assembly.server_call import error_text
from tests.contract.own_tools import arguments_of
from tests.contract.playing import (
    LOOK,
    MODEL,
    USAGE,
    call,
    keyed,
    pairs,
    response,
    says,
    stage,
    types,
    without_usage,
)
from tests.http.calling import get
from tests.session.held import output, taken
from tests.session.play import log_bytes, reference, response_id
from tests.support.stub_upstream import play

DONE = says(("text", "done"))
DO = keyed("do")
MAX = 2**53 - 1


def mcp_calls(events: list[Any]) -> list[dict[str, Any]]:
    return [item for item in response(events)["output"] if item["type"] == "mcp_call"]


async def test_the_history_is_found_again_and_instructions_are_not_inherited() -> None:
    async with stage(says(("text", "one")), says(("text", "two"))) as s:
        first = await s.run("first", instructions="be brief")
        await s.run("second", previous_response_id=response_id(first))
        assert "instructions" not in s.stub.requests[1].body
        assert [item.get("role") for item in s.sent(1)] == ["user", "assistant", "user"]


async def test_an_unknown_parent_is_refused_and_nothing_is_sent_upstream() -> None:
    async with stage(DONE) as s:
        error = await s.refusal(previous_response_id="resp_" + "0" * 32)
        assert (error["status"], error["code"]) == (404, "previous_response_not_found")
        await s.client.create(MODEL, previous_response_id="resp_" + "0" * 32)
        refused = await s.client.recv_error()
        assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
        assert s.stub.requests == []


async def test_rounds_go_on_in_one_response_with_numbers_indices_and_ids_that_continue() -> None:
    rounds = [says(("reasoning", "hm"), ("text", "wait"), call("do", "same", key=f"rounds-{n}")) for n in range(3)]
    async with stage(*rounds, DONE, has=[DO]) as s:
        events = await s.run()
        output = response(events)["output"]
        assert types(output) == ["reasoning", "message", "mcp_call"] * 3 + ["message"]
        assert len({item["id"] for item in output}) == len(output)
        added = [e["output_index"] for e in events if e["type"] == "response.output_item.added"]
        assert added == list(range(10))
        assert types(events).count("created") == 1
        assert [item["output"] for item in mcp_calls(events)] == [f"did rounds-{n}" for n in range(3)]
        # Everything a round said and got stands in the next call's input, in the upstream's words.
        assert types(s.sent(3)) == [
            "message",
            *["reasoning", "message", "function_call", "function_call_output"] * 3,
        ]
        assert [item["output"] for item in s.sent(3) if "output" in item] == [f"did rounds-{n}" for n in range(3)]
        assert log_bytes(await reference(s.server.ws_url, response_id(events))) == log_bytes(events)


async def test_calls_of_the_last_allowed_round_are_made_and_recorded_and_the_end_is_incomplete() -> None:
    async with stage(says(call("do", key="last")), has=[DO], loop={"max_rounds": 3}) as s:
        events = await s.run()
        end = response(events)
        assert events[-1]["type"] == "response.incomplete"
        assert (end["status"], end["incomplete_details"]) == ("incomplete", {"reason": "max_tool_rounds"})
        assert len(s.stub.requests) == 3
        assert [item["output"] for item in mcp_calls(events)] == ["did last"] * 3
        s.stub.handler = play(DONE)
        await s.run("on", previous_response_id=end["id"])
        assert len(pairs(s.sent(3))) == 6


async def test_ten_rounds_are_the_default() -> None:
    async with stage(says(call("do", key="ten")), has=[DO]) as s:
        assert response(await s.run())["incomplete_details"] == {"reason": "max_tool_rounds"}
        assert len(s.stub.requests) == 10


@pytest.mark.parametrize("order", [("do", "look"), ("look", "do")])
async def test_in_a_mixed_round_the_servers_calls_are_made_and_nothing_is_left_dangling(order: list[str]) -> None:
    calls = {"do": call("do", "call_do", key="mixed"), "look": call("look", "call_look", at="it")}
    async with stage(says(*(calls[name] for name in order)), DONE, has=[DO]) as s:
        first = await s.run(tools=[LOOK])
        end = response(first)
        assert end["status"] == "completed"
        assert sorted(types(end["output"])) == ["function_call", "mcp_call"]
        assert mcp_calls(first)[0]["output"] == "did mixed"
        (mine,) = [item for item in end["output"] if item["type"] == "function_call"]
        answer = {"type": "function_call_output", "call_id": mine["call_id"], "output": "seen"}
        second = await s.run([answer], previous_response_id=end["id"], tools=[LOOK])
        assert response(second)["status"] == "completed"
        assert dict(pairs(s.sent(1))).keys() == {"call", "output"}
        outputs = {item["call_id"]: item["output"] for item in s.sent(1) if "output" in item}
        assert outputs == {"call_do": "did mixed", "call_look": "seen"}


@pytest.mark.parametrize(
    ("choice", "next_choice"),
    [
        ("required", "auto"),
        ("auto", "auto"),
        ("none", "none"),
        ({"type": "function", "name": "look"}, "auto"),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        ),
    ],
    ids=["required", "auto", "none", "forced", "allowed_tools"],
)
async def test_a_forced_choice_is_forced_once_and_allowed_tools_stay(choice: Any, next_choice: Any) -> None:
    rounds = [says(call("do", key="choice"))] * 2
    async with stage(*rounds, DONE, has=[DO]) as s:
        events = await s.run(tools=[LOOK], tool_choice=choice)
        assert [request.body["tool_choice"] for request in s.stub.requests] == [choice, next_choice, next_choice]
        assert response(events)["tool_choice"] == choice


async def test_the_terminal_has_the_last_rounds_status_the_model_as_asked_and_one_created_at() -> None:
    last = says(("text", "half"), incomplete="max_output_tokens")
    async with stage(says(call("do", key="status")), last, has=[DO]) as s:
        events = await s.run()
        end = response(events)
        assert (end["status"], end["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert end["model"] == MODEL
        assert {e["response"]["created_at"] for e in events if "response" in e} == {end["created_at"]}


def failing(*steps: Any) -> list[bytes]:
    error = {"code": "busy", "message": "Too much to do."}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    return [*says(*steps)[:-1], json.dumps(failed).encode()]


@pytest.mark.parametrize("kind", ["incomplete", "failed"])
async def test_a_round_that_did_not_complete_executes_nothing(kind: str) -> None:
    key = f"nothing-{kind}"
    steps = call("do", "c", key=key), ("text", "and")
    first = says(*steps, incomplete="max_output_tokens") if kind == "incomplete" else failing(*steps)
    async with stage(first, DONE, has=[DO]) as s:
        events = await s.run()
        assert response(events)["status"] == kind
        assert [item["status"] for item in mcp_calls(events)] == ["incomplete"]
        assert len(s.stub.requests) == 1
        assert key not in arguments_of
        if kind == "incomplete":
            await s.run("on", previous_response_id=response_id(events))
            assert pairs(s.sent(1)) == []


async def test_usage_is_summed_over_the_rounds() -> None:
    usage = {"input_tokens": 10, "output_tokens": 7, "reasoning_tokens": 2}
    async with stage(says(call("do", key="usage"), usage=usage), says(("text", "x")), has=[DO]) as s:
        end = response(await s.run())
        assert end["usage"] == {
            "input_tokens": 13,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 12,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 25,
        }


async def test_usage_is_null_if_nobody_counted_and_partial_if_somebody_did() -> None:
    silent = without_usage(says(call("do", key="null")))
    async with stage(silent, without_usage(DONE), silent, DONE, has=[DO]) as s:
        assert response(await s.run())["usage"] is None
        assert response(await s.run())["usage"]["total_tokens"] == sum(USAGE.values())


async def test_usage_stops_at_what_javascript_can_count() -> None:
    usage = {"input_tokens": MAX - 1, "output_tokens": 1}
    async with stage(says(call("do", key="max"), usage=usage), says(("text", "x"), usage=usage), has=[DO]) as s:
        end = response(await s.run())
        assert (end["usage"]["input_tokens"], end["usage"]["output_tokens"]) == (MAX, 2)
        assert end["usage"]["total_tokens"] == MAX


async def test_at_most_max_tool_calls_of_the_servers_are_made() -> None:
    rounds = [says(call("do", key="limit-0"), call("do", key="limit-1")), says(call("do", key="limit-2"))]
    async with stage(*rounds, DONE, has=[DO]) as s:
        made = mcp_calls(await s.run(max_tool_calls=1))
        assert [item["output"] for item in made] == ["did limit-0", None, None]
        assert [error_text(item["error"]) for item in made[1:]] == ["The limit of 1 tool calls is reached."] * 2
        assert len(pairs(s.sent(2))) == 6


async def test_persisted_before_the_terminal_a_client_goes_on_elsewhere_at_once() -> None:
    async with stage(says(call("do", key="elsewhere")), DONE, has=[DO]) as s:
        end = response(await s.run())
        stored = await get(s.server, f"/v1/responses/{end['id']}")
        assert stored.json() == end
        await s.run("on", previous_response_id=end["id"])
        assert len(pairs(s.sent(2))) == 2


async def test_a_held_round_counts_and_answers_on_the_last_one_are_recorded() -> None:
    rounds = says(call("do", "c0", key="held-last")), says(call("look", "c1"))
    async with stage(*rounds, DONE, has=[DO], loop={"max_rounds": 2}) as s:
        await s.client.create(MODEL, tools=[LOOK], antiphon={"client_tools": "hold"})
        seen = await s.client.recv_until(
            lambda e: e["type"] == "response.output_item.done" and e["item"]["type"] == "function_call"
        )
        run_id, call_id = response_id(seen), seen[-1]["item"]["call_id"]
        await taken(s.client, run_id, output(call_id, "seen"))
        end = response(await s.client.collect_run())
        assert (end["status"], end["incomplete_details"]) == ("incomplete", {"reason": "max_tool_rounds"})
        assert types(end["output"]) == ["mcp_call", "function_call", "function_call_output"]
        assert len(s.stub.requests) == 2
        await s.run("on", previous_response_id=run_id, tools=[LOOK])
        assert pairs(s.sent(2)) == [("call", "c0"), ("output", "c0"), ("call", "c1"), ("output", "c1")]
