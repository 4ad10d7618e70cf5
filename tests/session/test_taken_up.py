"""Runs that outlive their process: between two rounds, in a tool, while they wait for clients (PROTOCOL 9.3)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.contract.playing import LOOK, MODEL, call, pairs, response, says, types
from tests.http.calling import until
from tests.session.held import calling, hold, inject, output, refused, taken, waits
from tests.session.play import attach_all, connected, log_bytes, numbered, reference, response_id
from tests.support.http_client import read_sse
from tests.support.server import ServerProcess, running_server
from tests.support.stub_upstream import StubUpstream, hang, in_turn, play
from tests.support.ws_client import Event, WsClient

ROOT = Path(__file__).parents[2]
DONE = says(("text", "done"))
HOLD = {"tools": [LOOK], "antiphon": {"client_tools": "hold"}}
MODES = pytest.mark.parametrize("mode", ["relaxed", "strict"])

CONFIG = """
[journal]
mode = "{mode}"
[timeouts]
drain_s = 5
[tools]
list_timeout_s = 1
mcp_allowed_hosts = ["nowhere.invalid"]
[[upstream]]
name = "stub"
url = "{url}"
models = ["stub-model"]
caller_key = true
[[tool]]
name = "note"
kind = "python"
entry = "tests.contract.own_tools:note"
always = true
parameters = {{ type = "object" }}
"""


@dataclass
class Stage:
    """A server that can be killed, in front of a scripted upstream. notes: what its tool wrote."""

    stub: StubUpstream
    server: ServerProcess
    notes: Path

    @property
    def calls(self) -> int:
        """How often the tool was called, over all processes."""
        return len(self.notes.read_text().splitlines()) if self.notes.exists() else 0

    async def restart(self) -> None:
        await self.server.kill()
        await self.server.start()

    async def begin(self, client: WsClient, **fields: Any) -> Event:
        """Create a run; its `response.created`."""
        await client.create(MODEL, input="go", **fields)
        return await client.recv_on()

    def row(self, run_id: str, column: str) -> Any:
        with contextlib.closing(sqlite3.connect(self.server.data_dir / "antiphon.db")) as connection:
            query = f"SELECT {column} FROM responses LEFT JOIN checkpoints ON id = run_id WHERE id = ?"
            found = connection.execute(query, (run_id,)).fetchone()
            return found[0] if found is not None else None

    async def kept(self, run_id: str, **wanted: Any) -> None:
        """Wait for a checkpoint that says this."""

        def there() -> bool:
            payload = self.row(run_id, "payload")
            return payload is not None and wanted.items() <= json.loads(payload).items()

        await until(there)


@contextlib.asynccontextmanager
async def stage(folder: Path, *answers: Any, mode: str = "relaxed") -> AsyncIterator[Stage]:
    handlers = [one if callable(one) else play(one) for one in answers]
    async with StubUpstream(in_turn(*handlers)) as stub:
        (folder / "antiphon.toml").write_text(CONFIG.format(mode=mode, url=stub.url))
        env = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        async with ServerProcess(folder, env) as server:
            yield Stage(stub, server, folder / "notes")


async def whole(s: Stage, run_id: str) -> list[Event]:
    """The log from its start to its end."""
    return await reference(s.server.ws_url, run_id)


async def state_of(client: WsClient, run_id: str, **fields: Any) -> dict[str, Any]:
    """What the run's state says, as soon as the server has taken it up."""

    async def look() -> bool:
        attached = await client.command("antiphon:attach", response_id=run_id, after="now", stream_id="look")
        found.append(attached)
        await client.command("antiphon:detach", response_id=run_id)
        return bool(attached["state"]["state"] == "waiting_for_tool")

    found: list[Event] = []
    await until(look)
    return {"epoch": found[-1]["epoch"], **found[-1]["state"]}


def shown(client: WsClient) -> list[Event]:
    return [event for event in numbered(client.received) if "sequence_number" in event]


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
        assert end["output"][2]["error"] == "The limit of 1 tool calls is reached."
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


@MODES
async def test_a_server_that_stops_in_order_does_not_wait_for_waiting_runs_and_their_cursors_go_on(
    tmp_path: Path, mode: str
) -> None:
    async with stage(tmp_path, says(("text", "t"), call("look", "c")), DONE, mode=mode) as s:
        async with connected(s.server.ws_url) as client, connected(s.server.ws_url) as other:
            await other.hello()
            run_id = response_id([await s.begin(client, **HOLD)])
            await s.kept(run_id, waiting=True)
            first = await state_of(other, run_id)
            begun = asyncio.get_running_loop().time()
            s.server.signal(signal.SIGTERM)
            assert await s.server.wait() == 0
            assert asyncio.get_running_loop().time() - begun < 4, "waiting runs cost no drain"
            await client.wait_closed()
            before = shown(client)
        assert "response.failed" not in types(before)
        assert json.loads(s.row(run_id, "payload"))["clean"] is True
        await s.server.start()
        await s.kept(run_id, clean=False)
        async with connected(s.server.ws_url) as client:
            await client.hello()
            again = await state_of(client, run_id)
            assert again["epoch"] == first["epoch"]
            await client.attach(run_id, after=before[-1]["sequence_number"], epoch=first["epoch"], stream_id="a")
            await inject(client, run_id, output(again["pending_calls"][0]["call_id"]), stream_id="a")
            rest = [e for e in await client.collect_attachment("a") if "sequence_number" in e]
        after = [e for e in numbered(rest) if not e["type"].startswith("response.inject")]
        assert response(after)["status"] == "completed"
        assert log_bytes(await whole(s, run_id)) == log_bytes([*before, *after])


TOKEN = {"antiphon": {"client_tools": "hold", "upstream_authorization": "Bearer mine"}, "tools": [LOOK]}
MCP = {
    "type": "mcp",
    "server_label": "theirs",
    "server_url": "https://nowhere.invalid/mcp",
    "authorization": "swordfish",
}


@pytest.mark.parametrize(
    "fields",
    [TOKEN, {**HOLD, "tools": [LOOK, MCP]}, {**HOLD, "store": False}],
    ids=["a caller's token", "credentials of an MCP server", "not stored"],
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


async def test_an_answer_that_comes_while_the_server_goes_away_is_handed_back_to_be_given_again(
    tmp_path: Path,
) -> None:
    model = calling(tmp_path, 1)
    async with running_server(tmp_path) as server, connected(server.ws_url) as client:
        run = await hold(client, model)
        await waits(server, run)
        await server.app.engine.supervisor.stop_all()
        error = await refused(client, run.id, output(run.call_ids[0]))
        assert (error["code"], error.get("winner")) == ("server_draining", None)
    async with running_server(tmp_path) as server, connected(server.ws_url) as client:
        await client.hello()
        await client.attach(run.id, after="now", stream_id="a")
        await taken(client, run.id, output(run.call_ids[0]), stream_id="a")
        await client.collect_attachment("a")
        assert response(await reference(server.ws_url, run.id))["status"] == "completed"


async def test_over_http_too_a_server_that_stops_in_order_lets_go_of_waiting_runs_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path, says(call("look", "c")), says(call("look", "c")), DONE) as s:
        url = f"{s.server.url}/v1/responses"
        body = {"model": MODEL, "input": "go", **HOLD}
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            whole_answer = asyncio.create_task(http.post(url, json=body))
            stream = asyncio.create_task(read_sse("POST", url, json={**body, "stream": True}))
            await s.stub.request(1)
            await until(lambda: _count(s, "checkpoints") == 2)
            begun = asyncio.get_running_loop().time()
            s.server.signal(signal.SIGTERM)
            answer, events = (await whole_answer).json(), await stream
            assert await s.server.wait() == 0
            assert asyncio.get_running_loop().time() - begun < 4
        assert (answer["status"], types(answer["output"])) == ("in_progress", ["function_call"])
        assert not events.done, "no end marker: the response has not ended"
        assert events.payloads[-1]["type"] == "response.output_item.done"
        await s.server.start()
        async with connected(s.server.ws_url) as client:
            await client.hello()
            assert (await state_of(client, answer["id"]))["pending_calls"]


def _count(s: Stage, table: str) -> int:
    with contextlib.closing(sqlite3.connect(s.server.data_dir / "antiphon.db")) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


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
