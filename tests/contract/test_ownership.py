"""Whose tool it is: the server's, a client's, the upstream's, nobody's (contract points 2 and 3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.assembly.server_call import error_object
from tests.contract.playing import LOOK, call, keyed, own, pairs, response, says, stage, types
from tests.session.play import response_id
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, in_turn, play
from tests.tools.running import notes_of, stdio

DONE = says(("text", "done"))
OWN = {"type": "mcp", "server_label": "antiphon"}
PROGRAM = {"type": "mcp", "server_label": "program"}
UNKNOWN = {"type": "from_the_future", "name": "look", "n": [1]}
NAMESPACE = {
    "type": "namespace",
    "name": "shell",
    "description": "d",
    "tools": [{"type": "function", "name": "run"}],
}


def outputs_of(events: list[Any], kind: str) -> list[dict[str, Any]]:
    return [item for item in response(events)["output"] if item["type"] == kind]


async def test_tools_of_clients_are_handed_to_them_and_not_executed() -> None:
    steps = call("look", at="it"), ("custom", "patch", "*** x")
    async with stage(says(*steps), DONE, has=[keyed("do")]) as s:
        events = await s.run(tools=[LOOK, {"type": "custom", "name": "patch"}])
        assert types(response(events)["output"]) == ["function_call", "custom_tool_call"]
        assert len(s.stub.requests) == 1


async def test_tools_nobody_knows_are_passed_on_as_they_are_and_their_items_come_back_untouched() -> None:
    item = {"type": "from_the_future_call", "id": "x1", "status": "completed", "what": {"deep": [None, 1]}}
    answer = says(("text", "t"))
    end = json.loads(answer[-1])
    end["response"]["output"].insert(0, item)
    async with stage([*answer[:2], json.dumps(end).encode()]) as s:
        events = await s.run(tools=[UNKNOWN])
        assert s.stub.requests[0].body["tools"] == [UNKNOWN]
        (shown,) = outputs_of(events, "from_the_future_call")
        assert {**shown, "id": "x1"} == item
        await s.run("on", previous_response_id=response_id(events))
        assert item in s.sent(1)


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ([LOOK, LOOK], "tools[1].name"),
        ([NAMESPACE, NAMESPACE], "tools[1].tools[0].name"),
        ([{**LOOK, "parameters": {"type": "array"}}], "tools[0].parameters.type"),
        ([{**LOOK, "parameters": {"type": "object", "properties": {"a": 1}}}], "tools[0].parameters.properties"),
        ([{**LOOK, "parameters": {"required": "a"}}], "tools[0].parameters.required"),
        ([{**LOOK, "parameters": []}], "tools[0].parameters"),
        (
            [{**NAMESPACE, "tools": [{"type": "function", "name": "run", "parameters": {"type": "string"}}]}],
            "tools[0].tools[0].parameters.type",
        ),
        ([{**NAMESPACE, "tools": [{"type": "function"}]}], "tools[0].tools[0].name"),
        ([PROGRAM], "tools"),
        ([OWN, OWN], "tools"),
    ],
)
async def test_tools_that_cannot_work_are_refused_before_anything_exists(tools: Any, param: str) -> None:
    async with stage(DONE) as s:
        error = await s.refusal(tools=tools)
        assert (error["status"], error["param"]) == (400, param)
        assert s.stub.requests == []


async def test_equal_names_in_different_namespaces_are_no_duplicates() -> None:
    async with stage(DONE) as s:
        other = {**NAMESPACE, "name": "other"}
        await s.run(tools=[NAMESPACE, other, {"type": "function", "name": "run"}])
        assert s.stub.requests[0].body["tools"][:2] == [NAMESPACE, other]


async def test_a_name_nobody_registered_goes_to_the_client_where_calls_are_returned() -> None:
    async with stage(says(call("nobody", "c")), DONE, has=[keyed("do")]) as s:
        events = await s.run()
        (open_call,) = outputs_of(events, "function_call")
        assert (open_call["name"], open_call["status"]) == ("nobody", "completed")
        answer = {"type": "function_call_output", "call_id": open_call["call_id"], "output": "?"}
        await s.run([answer], previous_response_id=response_id(events))
        assert len(pairs(s.sent(1))) == 2


@pytest.mark.parametrize("custom", [False, True])
async def test_a_name_nobody_registered_gets_an_error_at_once_where_calls_are_held(custom: bool) -> None:
    step = ("custom", "nobody", "x") if custom else call("nobody", "c")
    async with stage(says(step), DONE, has=[keyed("do")]) as s:
        events = await s.run(tools=[LOOK], antiphon={"client_tools": "hold"})
        kind = "custom_tool_call" if custom else "function_call"
        assert types(response(events)["output"]) == [kind, f"{kind}_output", "message"]
        assert response(events)["output"][1]["output"] == "error: there is no tool named 'nobody'"
        assert len(pairs(s.sent(1))) == 2


async def test_a_tool_of_the_server_never_takes_a_name_of_the_client() -> None:
    do = {"type": "function", "name": "do"}
    async with stage(
        says(call("do", "mine"), call("antiphon__do", "theirs", key="w-name")), has=[keyed("do")]
    ) as s:
        events = await s.run(tools=[do])
        names = [tool["name"] for tool in s.stub.requests[0].body["tools"]]
        assert names == ["do", "antiphon__do"]
        (mine,) = outputs_of(events, "function_call")
        (theirs,) = outputs_of(events, "mcp_call")
        assert mine["name"] == "do"
        assert (theirs["name"], theirs["output"]) == ("do", "did w-name")


async def test_tools_of_mcp_servers_are_listed_first_and_called() -> None:
    async with stage(says(call("do", key="w-list")), DONE, has=[keyed("do", always=False)]) as s:
        events = await s.run(tools=[OWN])
        assert types(response(events)["output"]) == ["mcp_list_tools", "mcp_call", "message"]
        listed = response(events)["output"][0]
        assert (listed["server_label"], listed["error"]) == ("antiphon", None)
        assert {tool["name"] for tool in listed["tools"]} == {"do", "current_time"}
        assert types(events)[2:6] == [
            "output_item.added",
            "mcp_list_tools.in_progress",
            "mcp_list_tools.completed",
            "output_item.done",
        ]
        assert events[2]["item"]["tools"] == []
        assert {tool["name"] for tool in s.stub.requests[0].body["tools"]} == {"do", "current_time"}
        # No model gets to read the list.
        assert types(s.sent(1)) == ["message", "function_call", "function_call_output"]


async def test_a_real_mcp_server_is_listed_called_and_let_go(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    rounds = says(call("echo", text="hi"), call("fail"), call("structured")), DONE
    async with stage(*rounds, has=[stdio(notes)]) as s:
        events = await s.run(tools=[{**PROGRAM, "require_approval": "never"}])
        made = outputs_of(events, "mcp_call")
        assert [(item["output"], item["error"]) for item in made] == [
            ("hi", None),
            (None, error_object("the cupboard is bare")),
            ('{"answer":42}', None),
        ]
        assert {item["server_label"] for item in made} == {"program"}
    assert notes_of(notes, "call") == ["echo", "fail", "structured"]


async def test_a_server_that_cannot_be_listed_is_an_item_with_an_error_and_the_run_goes_on(tmp_path: Path) -> None:
    choice = {"type": "mcp", "server_label": "program"}
    async with stage(DONE, has=[stdio(tmp_path / "notes", "--list", "die")]) as s:
        events = await s.run(tools=[PROGRAM, LOOK], tool_choice=choice)
        listed, said = response(events)["output"]
        assert (listed["type"], listed["tools"], said["type"]) == ("mcp_list_tools", [], "message")
        assert listed["error"]
        assert types(events)[3:5] == ["mcp_list_tools.in_progress", "mcp_list_tools.failed"]
        assert s.stub.requests[0].body["tools"] == [LOOK]
        assert s.stub.requests[0].body["tool_choice"] == "auto"
        await s.run(tools=[PROGRAM], tool_choice="required")
        assert not {"tools", "tool_choice"} & s.stub.requests[1].body.keys()


async def test_a_choice_of_a_servers_tool_is_a_choice_of_its_function() -> None:
    choice = {"type": "mcp", "server_label": "antiphon", "name": "do"}
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [choice, {"type": "function", "name": "look"}]}
    async with stage(DONE, has=[keyed("do")]) as s:
        await s.run(tools=[OWN], tool_choice=choice)
        await s.run(tools=[OWN, LOOK], tool_choice=allowed)
        function = {"type": "function", "name": "do"}
        assert s.stub.requests[0].body["tool_choice"] == function
        assert s.stub.requests[1].body["tool_choice"]["tools"] == [function, {"type": "function", "name": "look"}]


async def test_web_search_without_a_provider_is_the_upstreams_if_it_has_it_and_refused_if_not() -> None:
    async with stage(DONE) as s:
        await s.run(tools=[{"type": "web_search"}])
        assert s.stub.requests[0].body["tools"] == [{"type": "web_search"}]
    async with stage(DONE, upstream={"native_tools": ()}) as s:
        error = await s.refusal(tools=[{"type": "web_search"}])
        assert (error["status"], error["code"], error["param"]) == (400, "unsupported_tool", "tools[0].type")
        assert "web_search" in error["message"]
        assert s.stub.requests == []


async def test_web_search_with_a_provider_is_made_here_and_shown_as_such() -> None:
    async def search(request: StubRequest, conn: StubConn) -> None:
        found = {"title": "A", "url": "https://a.example", "snippet": request.body["query"]}
        conn.answer(200, {"results": [found]})

    async with StubUpstream(search) as provider:
        web = {"provider": "http", "url": provider.url}
        async with stage(says(call("web_search", query="cats")), DONE, web_search=web) as s:
            events = await s.run(tools=[{"type": "web_search"}])
            (item,) = outputs_of(events, "web_search_call")
            assert item["status"] == "completed"
            assert (item["action"]["type"], item["action"]["query"]) == ("search", "cats")
            family = [kind for kind in types(events) if kind.startswith("web_search_call")]
            assert family == [f"web_search_call.{name}" for name in ("in_progress", "searching", "completed")]
            assert "https://a.example" in s.sent(1)[-1]["output"]
            provider.handler = _refuse
            s.stub.handler = in_turn(play(says(call("web_search", query="dogs"))), play(DONE))
            (failed,) = outputs_of(await s.run(tools=[{"type": "web_search"}]), "web_search_call")
            assert failed["status"] == "failed"
            assert failed["action"]["query"] == "dogs"


async def _refuse(request: StubRequest, conn: StubConn) -> None:
    conn.answer(500, {"error": "no"})


async def test_without_tools_nothing_is_offered_and_nothing_of_tools_is_sent() -> None:
    async with stage(DONE) as s:
        await s.run()
        assert not {"tools", "tool_choice"} & s.stub.requests[0].body.keys()


async def test_a_tool_that_is_not_offered_unasked_stays_unknown() -> None:
    async with stage(says(call("do", key="w-unasked")), has=[own("do", always=False)]) as s:
        events = await s.run()
        assert types(response(events)["output"]) == ["function_call"]
