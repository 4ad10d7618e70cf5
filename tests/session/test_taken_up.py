"""Runs whose process was killed: between two rounds, in a tool, while they wait for clients (PROTOCOL 9.3)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.assembly.server_call import error_text
from tests.contract.playing import LOOK, MODEL, call, pairs, response, says, types
from tests.http.calling import until
from tests.session.held import inject, output
from tests.session.play import attach_all, connected, log_bytes, response_id
from tests.session.taking_up import DONE, HOLD, MODES, shown, stage, state_of, whole
from tests.support.stub_upstream import hang, play


@MODES
async def test_a_run_killed_between_two_rounds_goes_on_and_its_tool_is_not_called_again(
    tmp_path: Path, mode: str
) -> None:
    note = call("note", "c", file=str(tmp_path / "notes"))
    async with stage(tmp_path, says(("text", "t"), note), hang(), says(note), DONE, mode=mode) as s:
        async with connected(s.server.ws_url) as client:
            run_id = response_id([await s.begin(client, max_tool_calls=1)])
            await s.stub.request(1)
            await s.kept(run_id, round=1, waiting=False)
            await s.server.kill()
            await client.wait_closed()
            before = shown(client)
        await s.server.start()
        events = await whole(s, run_id)
        end = response(events)
        assert (end["status"], types(end["output"])) == (
            "completed",
            ["message", "mcp_call", "mcp_call", "message"],
        )
        assert error_text(end["output"][2]["error"]) == "The limit of 1 tool calls is reached."
        assert log_bytes(events)[: len(before)] == log_bytes(before)
        assert s.calls == 1
        assert end["usage"]["total_tokens"] == 24
        assert s.stub.requests[2].body == s.stub.requests[1].body
        assert pairs(s.stub.requests[2].body["input"]) == [("call", "c"), ("output", "c")]


async def test_a_run_killed_while_a_side_effect_is_under_way_is_lost_and_the_tool_not_called_again(
    tmp_path: Path,
) -> None:
    note = call("note", "c", file=str(tmp_path / "notes"), hang=True)
    async with stage(tmp_path, says(("text", "t"), note), DONE) as s:
        async with connected(s.server.ws_url) as client:
            run_id = response_id([await s.begin(client)])
            await until(lambda: s.calls == 1)
            await s.restart()
            await client.wait_closed()
        events = await whole(s, run_id)
        assert response(events)["error"]["code"] == "server_lost"
        assert [item["status"] for item in response(events)["output"]] == ["completed", "incomplete"]
        assert (s.calls, len(s.stub.requests)) == (1, 1)


@MODES
async def test_a_run_killed_while_it_waits_for_clients_waits_on_and_ends_as_if_nothing_had_been(
    tmp_path: Path, mode: str
) -> None:
    note = call("note", "c0", file=str(tmp_path / "notes"))
    rounds = (
        says(("reasoning", "hm"), note),
        says(("text", "t"), call("look", "c1", at=1), call("look", "c2", at=2)),
    )
    async with stage(tmp_path, *rounds, DONE, mode=mode) as s:
        async with connected(s.server.ws_url) as client, connected(s.server.ws_url) as other:
            await other.hello()
            run_id = response_id([await s.begin(client, **HOLD)])
            await s.kept(run_id, round=2, waiting=True)
            first = await state_of(other, run_id)
            await s.server.kill()
            await client.wait_closed()
            before = shown(client)
        for kills in (1, 2):  # once more while it waits again
            await s.server.start()
            async with connected(s.server.ws_url) as client:
                await client.hello()
                again = await state_of(client, run_id)
                await s.kept(run_id, round=2, waiting=True, clean=False)
            if kills == 1:
                await s.server.kill()
        assert (again["epoch"] == first["epoch"]) == (mode == "strict")
        assert again["revision"] > first["revision"]
        pending = [(c["call_id"], c["name"], c["arguments_sha256"], c["deadline"]) for c in first["pending_calls"]]
        assert pending == [
            (c["call_id"], c["name"], c["arguments_sha256"], c["deadline"]) for c in again["pending_calls"]
        ]
        ids = [c["call_id"] for c in first["pending_calls"]]
        async with connected(s.server.ws_url) as client:
            await client.hello()
            attached = await client.attach(run_id, after="start")
            for n in (1, 0):  # the answers in another order than the calls, from two injects
                reply = await inject(client, run_id, output(ids[n], f"seen {n}"), stream_id=attached["stream_id"])
                assert reply["type"] == "response.inject.created"
            await client.collect_attachment(attached["stream_id"])
        events = await whole(s, run_id)
        end = response(events)
        assert log_bytes(events)[: len(before)] == log_bytes(before)
        assert types(end["output"]) == [
            *("reasoning", "mcp_call", "message", "function_call", "function_call"),
            *("function_call_output", "function_call_output", "message"),
        ]
        assert [item["output"] for item in end["output"][5:7]] == ["seen 0", "seen 1"]
        done = {e["output_index"]: e["item"] for e in events if e["type"] == "response.output_item.done"}
        assert end["output"] == [done[index] for index in sorted(done)]
        assert end["usage"]["total_tokens"] == 24
        assert s.calls == 1
        sent = s.stub.requests[2].body["input"]
        assert types(sent) == [
            *("message", "reasoning", "function_call", "function_call_output"),
            *("message", "function_call", "function_call", "function_call_output", "function_call_output"),
        ]
        assert [item["output"] for item in sent if "output" in item] == ["noted", "seen 0", "seen 1"]
        assert len(pairs(sent)) == 6


async def test_answers_given_before_the_kill_are_not_asked_for_again(tmp_path: Path) -> None:
    async with stage(tmp_path, says(call("look", "c0"), call("look", "c1")), DONE) as s:
        async with connected(s.server.ws_url) as client:
            run_id = response_id([await s.begin(client, **HOLD)])
            await s.kept(run_id, waiting=True)
            ids = [e["item"]["call_id"] for e in shown(client) if e["type"] == "response.output_item.done"]
            await inject(client, run_id, output(ids[1], "early"))
            await s.restart()
        async with connected(s.server.ws_url) as client:
            await client.hello()
            state = await state_of(client, run_id)
            assert [one["call_id"] for one in state["pending_calls"]] == [ids[0]]
            await client.attach(run_id, after="start", stream_id="a")
            refused = await inject(client, run_id, output(ids[1], "late"), stream_id="a")
            assert refused["error"]["code"] == "already_resolved"
            await inject(client, run_id, output(ids[0], "now"), stream_id="a")
            await client.collect_attachment("a")
        end = response(await whole(s, run_id))
        assert [item["output"] for item in end["output"][2:4]] == ["now", "early"]


TOKEN = {"antiphon": {"client_tools": "hold", "upstream_authorization": "Bearer mine"}, "tools": [LOOK]}
MCP = {
    "type": "mcp",
    "server_label": "theirs",
    "server_url": "https://nowhere.invalid/mcp",
    "authorization": "swordfish",
}
QUERY = {"type": "mcp", "server_label": "theirs", "server_url": "https://nowhere.invalid/mcp?key=swordfish"}


@pytest.mark.parametrize(
    "fields",
    [TOKEN, {**HOLD, "tools": [LOOK, MCP]}, {**HOLD, "tools": [LOOK, QUERY]}, {**HOLD, "store": False}],
    ids=["a caller's token", "credentials of an MCP server", "a query of its address", "not stored"],
)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_a_run_that_lives_from_what_is_nowhere_stored_is_lost(
    tmp_path: Path, fields: dict[str, Any], how: signal.Signals
) -> None:
    async with stage(tmp_path, says(call("look", "c")), DONE) as s:
        async with connected(s.server.ws_url) as client:
            run_id = response_id([await s.begin(client, **fields)])
            await client.recv_until(
                lambda e: e["type"] == "response.output_item.done" and e["item"]["type"] == "function_call"
            )
            if fields.get("store") is not False:
                await until(lambda: s.row(run_id, "id") is not None)
            s.server.signal(how)
            await s.server.wait()
            await client.wait_closed()
            if how == signal.SIGTERM:
                assert response(shown(client))["error"]["code"] == "server_lost"
        stored = b"".join(file.read_bytes() for file in tmp_path.glob("antiphon.db*"))  # noqa: ASYNC240 (small)
        assert b"swordfish" not in stored
        assert b"Bearer mine" not in stored
        await s.server.start()
        if fields.get("store") is False:
            async with connected(s.server.ws_url) as client:
                await client.hello()
                reply = await client.command("antiphon:attach", response_id=run_id)
                assert reply["code"] == "response_not_found"
        else:
            assert response(await whole(s, run_id))["error"]["code"] == "server_lost"
        assert len(s.stub.requests) == 1


async def test_a_run_that_kills_every_process_is_given_up_and_one_that_only_waits_is_not(tmp_path: Path) -> None:
    async def answer(request: Any, conn: Any) -> None:
        words = request.body["input"][0]["content"]
        first = len(request.body["input"]) == 1
        if words == "wait" and first:
            await play(says(call("look", "c")))(request, conn)
        elif words == "second" and first:
            await play(says(call("current_time", "c")))(request, conn)
        elif words == "wait":
            await play(DONE)(request, conn)
        else:
            await conn.held()

    own = {"type": "mcp", "server_label": "antiphon", "allowed_tools": ["current_time"]}
    runs: dict[str, str] = {}
    async with stage(tmp_path, answer) as s:
        async with connected(s.server.ws_url) as client:
            for words, fields in (("first", {}), ("second", {"tools": [own]}), ("wait", HOLD)):
                await client.create(MODEL, input=words, stream_id=words, **fields)
                runs[words] = response_id([await client.recv_on(words)])
            await s.kept(runs["second"], round=1)
            await s.kept(runs["wait"], waiting=True)
            await s.stub.request(3)
        for _ in range(5):
            await s.restart()
        assert [s.row(run_id, "terminal_number") for run_id in runs.values()] == [None, None, None]
        await s.restart()
        for words in ("first", "second"):
            assert response(await whole(s, runs[words]))["error"]["code"] == "server_lost"
        async with connected(s.server.ws_url) as client:
            await client.hello()
            state = await state_of(client, runs["wait"])
            await client.attach(runs["wait"], after="now", stream_id="a")
            await inject(client, runs["wait"], output(state["pending_calls"][0]["call_id"]), stream_id="a")
            await client.collect_attachment("a")
            events = await attach_all(client, runs["wait"], after="start")
        assert response(events)["status"] == "completed"


ASKING = {
    "type": "mcp",
    "server_label": "antiphon",
    "allowed_tools": ["note"],
    "require_approval": "always",
}


@pytest.mark.parametrize("hang_in_tool", [False, True], ids=["after the call", "in the call"])
async def test_an_approved_call_is_never_made_twice_and_what_stands_behind_it_goes_on(
    tmp_path: Path, hang_in_tool: bool
) -> None:
    note = call("note", "c", file=str(tmp_path / "notes"), **({"hang": True} if hang_in_tool else {}))
    async with stage(tmp_path, says(note), hang(), says(call("look", "c1")), DONE) as s:
        fields = {**HOLD, "tools": [LOOK, ASKING]}
        async with connected(s.server.ws_url) as client:
            asked = await client.run(MODEL, input="go", tools=[ASKING])
            request = response(asked)["output"][-1]
            yes = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
            again = {"role": "user", "content": "and then?"}
            parent = response_id(asked)
            await client.create(MODEL, input=[yes, again], previous_response_id=parent, **fields)
            run_id = response_id([await client.recv_on()])
            await until(lambda: s.calls == 1)
            if not hang_in_tool:
                await s.stub.request(1)
                await s.kept(run_id, round=0)
            await s.restart()
            await client.wait_closed()
        if hang_in_tool:
            assert response(await whole(s, run_id))["error"]["code"] == "server_lost"
            assert (s.calls, len(s.stub.requests)) == (1, 1)
            return
        await s.kept(run_id, waiting=True)
        s.server.signal(signal.SIGTERM)
        assert await s.server.wait() == 0
        await s.server.start()
        async with connected(s.server.ws_url) as client:
            await client.hello()
            state = await state_of(client, run_id)
            await client.attach(run_id, after="now", stream_id="a")
            await inject(client, run_id, output(state["pending_calls"][0]["call_id"]), stream_id="a")
            await client.collect_attachment("a")
        end = response(await whole(s, run_id))
        assert types(end["output"]) == [
            *("mcp_list_tools", "mcp_call", "function_call", "function_call_output", "message"),
        ]
        assert s.calls == 1
        sent = s.stub.requests[3].body["input"]
        assert types(sent) == [
            *("message", "function_call", "function_call_output", "message"),
            *("function_call", "function_call_output"),
        ]
        assert len(pairs(sent)) == 4
