"""Client-owned calls in return mode (PROTOCOL 5.6; field issues T-01, T-03, T-05)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.session.play import checked, connected, response_id, started, stub_settings, words, write_script
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, calls, in_turn, text
from tests.support.ws_client import Event, WsClient

TOOLS = [
    {"type": "function", "name": "f", "parameters": {"type": "object"}},
    {"type": "custom", "name": "shell"},
]
TWO_CALLS = [words(1), {"call": {"name": "f"}}, {"call": {"name": "f"}}]
DONE = [words(2)]


def output(call_id: str, said: str = "ok", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": said}


def call_ids(events: list[Event]) -> list[str]:
    return [call["call_id"] for call in checked(events).calls]


async def refused(client: WsClient, model: str, parent: str, *outputs: dict[str, Any], **fields: Any) -> Event:
    await client.create(model, list(outputs), previous_response_id=parent, **fields)
    return await client.recv_error(fields.get("stream_id"))


@pytest.mark.parametrize("store", [True, False])
async def test_a_partial_answer_is_refused_by_name_and_a_stored_parent_stays_usable(store: bool) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "two", TWO_CALLS, DONE)
        events = await client.run(model, tools=TOOLS, store=store)
        parent, (first, second) = response_id(events), call_ids(events)
        error = await refused(client, model, parent, output(first))
        assert (error["status"], error["error"]["code"]) == (400, "tool_output_missing")
        assert second in error["error"]["message"]
        assert first not in error["error"]["message"]
        error = await refused(client, model, parent)
        if not store:
            assert error["error"]["code"] == "previous_response_not_found"
            return
        assert first in error["error"]["message"] and second in error["error"]["message"]
        both = await client.run(model, [output(second), output(first)], previous_response_id=parent)
        assert checked(both).text == "w0 w1 "


async def test_outputs_and_new_items_may_stand_in_one_input() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "two", TWO_CALLS, DONE)
        events = await client.run(model, tools=TOOLS)
        first, second = call_ids(events)
        marker = output(second, "interrupted by the user")
        said = {"type": "message", "role": "user", "content": "never mind"}
        answer = await client.run(
            "antiphon/echo", [output(first), marker, said], previous_response_id=response_id(events)
        )
        assert checked(answer).text == "never mind"


async def test_plain_text_after_an_interrupted_call_is_refused_until_the_call_has_an_output() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "two", TWO_CALLS, DONE)
        events = await client.run(model, tools=TOOLS)
        parent, ids = response_id(events), call_ids(events)
        await client.create("antiphon/echo", "hello?", previous_response_id=parent)
        assert (await client.recv_error())["error"]["code"] == "tool_output_missing"
        items = [*(output(i, "cancelled") for i in ids), {"role": "user", "content": "hello!"}]
        assert checked(await client.run("antiphon/echo", items, previous_response_id=parent)).text == "hello!"


async def test_outputs_nobody_waits_for_are_refused_and_leave_no_trace() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "two", TWO_CALLS, DONE)
        other = call_ids(await client.run(model, tools=TOOLS, stream_id="other"))
        events = await client.run(model, tools=TOOLS)
        parent, (first, second) = response_id(events), call_ids(events)
        item_id = checked(events).calls[0]["id"]
        for wrong in ("call_invented", item_id, other[0], parent):
            error = await refused(client, model, parent, output(first), output(second), output(wrong))
            assert error["error"]["code"] == "tool_output_unknown"
            assert wrong in error["error"]["message"]
        twice = await refused(client, model, parent, output(first), output(second), output(first))
        assert twice["error"]["code"] == "tool_output_duplicate"
        assert first in twice["error"]["message"]
        answer = await client.run(model, [output(first), output(second)], previous_response_id=parent)
        again = await refused(client, model, response_id(answer), output(first))
        assert again["error"]["code"] == "tool_output_duplicate"
        assert (await client.run(input="on", previous_response_id=response_id(answer)))[-1]["response"]["status"]


async def test_an_output_without_a_parent_is_refused_and_a_whole_history_is_taken() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.create(input=[output("call_x")])
        assert (await client.recv_error())["error"]["code"] == "tool_output_unknown"
        call = {"type": "function_call", "call_id": "call_x", "name": "f", "arguments": "{}"}
        await client.create(input=[call])
        assert (await client.recv_error())["error"]["code"] == "tool_output_missing"
        history = [
            {"role": "user", "content": "go"},
            call,
            output("call_x"),
            {"role": "user", "content": "thanks"},
        ]
        assert checked(await client.run(input=history)).text == "thanks"


async def test_constant_ids_of_an_upstream_are_told_apart_over_ten_calls() -> None:
    one = calls(("f", '{"n": 1}', "x"), ids="resp_always")
    async with (
        StubUpstream(in_turn(*[one] * 10, text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run("stub-model", tools=TOOLS)
        seen: list[str] = []
        for turn in range(10):
            (call_id,) = call_ids(events)
            seen.append(call_id)
            answer = [output(call_id, f"result {turn}")]
            events = await client.run("stub-model", answer, tools=TOOLS, previous_response_id=response_id(events))
            sent = [item for item in stub.requests[-1].body["input"] if item["type"] == "function_call_output"]
            assert [(item["call_id"], item["output"]) for item in sent] == [
                ("x", f"result {n}") for n in range(turn + 1)
            ]
        assert len(set(seen)) == 10
        assert events[-1]["response"]["output"][0]["type"] == "message"


async def test_two_parallel_calls_under_one_id_get_their_own_outputs() -> None:
    async with (
        StubUpstream(in_turn(calls(("f", '{"n": 1}', "x"), ("f", '{"n": 2}', "x")), text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run("stub-model", tools=TOOLS)
        first, second = call_ids(events)
        assert first != second
        answers = [output(second, "for two"), output(first, "for one")]
        await client.run("stub-model", answers, previous_response_id=response_id(events))
        sent = [item for item in stub.requests[-1].body["input"] if item["type"] == "function_call_output"]
        assert {item["output"] for item in sent} == {"for one", "for two"}


async def test_a_custom_tool_is_called_and_answered_like_a_function() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        steps = [{"custom": {"name": "shell", "input": "ls -l\n日本"}}, {"call": {"name": "f"}}]
        model = write_script(server.data_dir, "custom", steps, DONE)
        events = await client.run(model, tools=TOOLS)
        custom, function = checked(events).calls
        assert (custom["type"], custom["input"]) == ("custom_tool_call", "ls -l\n日本")
        error = await refused(client, model, response_id(events), output(function["call_id"]))
        assert custom["call_id"] in error["error"]["message"]
        answers = [output(custom["call_id"], "a.txt", "custom_tool_call_output"), output(function["call_id"])]
        assert checked(await client.run(model, answers, previous_response_id=response_id(events))).text


async def test_a_cancel_drops_calls_and_refuses_late_answers() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "held", [*TWO_CALLS, {"delay_s": 30}], DONE)
        await client.create(model, tools=TOOLS)
        run_id = await started(client)
        seen = await client.recv_until(
            lambda e: e["type"] == "response.output_item.done" and e["output_index"] == 2
        )
        await client.send({"type": "response.cancel", "response_id": run_id})
        await client.collect_run()
        ids = [
            e["item"]["call_id"] for e in seen if e["type"] == "response.output_item.done" and e["output_index"]
        ]
        error = await refused(client, model, run_id, *map(output, ids))
        assert error["error"]["code"] in ("tool_output_unknown", "tool_output_duplicate")
        assert checked(await client.run(input="go on", previous_response_id=run_id)).text == "go on"
