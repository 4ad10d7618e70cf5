"""Clients that leave: which runs go on, and which are cancelled after a while (PROTOCOL 8.5)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from antiphon.runs.run import Run
from tests.http.calling import MODEL, body, ended, get, http, script, stub_server, until
from tests.session.held import TOOLS
from tests.support import stub_upstream as stub
from tests.support.http_client import open_sse
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

ENDLESS = stub.text(100_000, rate=50)


async def leave(server: RunningServer, *, stream: bool, **fields: Any) -> str:
    """Create over HTTP, wait until the run is under way (as a stream: until its model answers), leave; the id."""
    sent = body(model=MODEL, stream=stream, **fields)
    if stream:
        async with open_sse("POST", f"{server.url}/v1/responses", json=sent) as events:
            seen = aiter(events)
            response_id = str((await anext(seen)).json()["response"]["id"])
            while (await anext(seen)).json()["type"] != "response.output_item.added":
                continue
            return response_id
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    payload = json.dumps(sent).encode()
    head = b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    writer.write(head + b"content-length: %d\r\n\r\n%b" % (len(payload), payload))
    await until(lambda: len(server.app.registry) > 0)
    (state,) = list(server.app.registry)
    await until(lambda: server.app.engine.supervisor._directory._runs[state.response_id].listeners > 0)
    writer.transport.abort()
    return state.response_id


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
async def test_a_plain_create_whose_client_leaves_is_cancelled_after_its_time(stream: bool) -> None:
    async with stub_server(ENDLESS, timeouts={"http_abandon_s": 0.1}) as (upstream, server):
        response_id = await leave(server, stream=stream)
        request = await upstream.request(0)
        await asyncio.wait_for(request.closed, 30)
        response = await ended(server, response_id)
    assert response["status"] == "cancelled" and response["incomplete_details"] == {"reason": "cancelled"}


async def test_somebody_who_attaches_in_time_keeps_the_run_alive() -> None:
    async with stub_server(ENDLESS, timeouts={"http_abandon_s": 0.7}) as (upstream, server):
        async with ws_client(server.ws_url) as socket:
            await socket.hello()
            response_id = await leave(server, stream=True)
            attached = await socket.attach(response_id, stream_id="w")
            assert attached["state"]["state"] == "running"
            after_abandon = asyncio.get_running_loop().time() + 1.0
            await socket.recv_until(
                lambda _: asyncio.get_running_loop().time() > after_abandon, stream_id="w", wait_s=5
            )
            assert (await get(server, f"/v1/responses/{response_id}")).json()["status"] == "in_progress"
            await socket.command("antiphon:detach", response_id=response_id)
            await asyncio.wait_for((await upstream.request(0)).closed, 30)


@pytest.mark.parametrize("wish", ["continue", 3600])
async def test_a_create_that_says_so_goes_on_without_its_client(wish: Any) -> None:
    handler = stub.text(40, rate=100)
    async with stub_server(handler, timeouts={"http_abandon_s": 0.02}) as (_, server):
        response_id = await leave(server, stream=True, antiphon={"on_disconnect": wish})
        assert (await ended(server, response_id))["status"] == "completed"


async def alone(server: RunningServer, response_id: str) -> Run:
    """The run, once it waits for its calls and nobody listens to it any more."""
    run = next(run for run in server.app.engine.directory.live_runs() if run.id == response_id)
    await until(lambda: run.listeners == 0 and run.state.state == "waiting_for_tool")
    return run


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
async def test_a_create_that_holds_its_calls_waits_on_without_its_client(stream: bool) -> None:
    handler = stub.in_turn(stub.calls(("look", "{}")), stub.text(1))
    hold = {"tools": TOOLS, "antiphon": {"client_tools": "hold"}}
    async with stub_server(handler, timeouts={"http_abandon_s": 0.0}) as (_, server):
        response_id = await leave(server, stream=stream, **hold)
        run = await alone(server, response_id)
        assert run.abandon_timer is None
        [call] = run.state.pending_calls
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "4"}
        async with http(server) as client:
            answer = await client.post(f"/v1/responses/{response_id}/inject", json={"input": [output]})
        assert answer.status_code == 200
        assert (await ended(server, response_id))["status"] == "completed"


async def test_seconds_count_for_a_create_that_holds_its_calls_too() -> None:
    fields = {"tools": TOOLS, "antiphon": {"client_tools": "hold", "on_disconnect": 0.3}}
    async with stub_server(stub.calls(("look", "{}"))) as (_, server):
        response_id = await leave(server, stream=True, **fields)
        (state,) = list(server.app.registry)
        await until(lambda: state.terminal is not None)
        assert (await ended(server, response_id))["status"] == "cancelled"


async def test_seconds_count_for_sockets_too_and_none_is_for_ever() -> None:
    async with stub_server(ENDLESS) as (upstream, server):
        async with ws_client(server.ws_url) as socket:
            await socket.create(model=MODEL, antiphon={"on_disconnect": 0.1}, stream_id="a")
            await socket.create(model=MODEL, stream_id="b")
            first, second = await socket.recv_on("a"), await socket.recv_on("b")
        states = {state.response_id: state for state in server.app.registry}
        await until(lambda: states[first["response"]["id"]].terminal is not None)
        assert (await ended(server, first["response"]["id"]))["status"] == "cancelled"
        assert (await get(server, f"/v1/responses/{second['response']['id']}")).json()["status"] == "in_progress"
        terminal = states[first["response"]["id"]].terminal
        assert terminal == {"status": "cancelled", "code": "cancelled", "by": "system:abandoned"}


async def test_no_seconds_at_all_is_a_cancel_at_once() -> None:
    async with stub_server(ENDLESS) as (upstream, server):
        response_id = await leave(server, stream=True, antiphon={"on_disconnect": 0})
        await asyncio.wait_for((await upstream.request(0)).closed, 30)
        assert (await ended(server, response_id))["status"] == "cancelled"


async def test_a_run_that_ended_in_time_is_not_touched_by_the_clock() -> None:
    async with running_server(timeouts={"http_abandon_s": 5}) as server:
        model = script(server, "short", "[[turns]]\n[[turns.steps]]\ntext='w '\nrate=100\nrepeat=5")
        async with open_sse("POST", f"{server.url}/v1/responses", json=body(model=model, stream=True)) as events:
            response_id = (await anext(aiter(events))).json()["response"]["id"]
        run = server.app.engine.supervisor._directory._runs[response_id]
        response = await ended(server, response_id)
        await until(lambda: server.app.engine.supervisor.running == 0)
        assert run.abandon_timer is None
        assert (await get(server, f"/v1/responses/{response_id}")).json() == response
    assert response["status"] == "completed"


async def test_a_reader_that_takes_nothing_is_let_go_and_the_run_goes_on() -> None:
    async with running_server(timeouts={"stalled_socket_s": 0.3}) as server:
        text = "[[turns]]\n[[turns.steps]]\ntext='" + "x" * 20_000 + "'\nrepeat=300\nrate=2000\nchunk='all'"
        model = script(server, "wide", text)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), limit=1024)
        payload = json.dumps(body(model=model, stream=True, antiphon={"on_disconnect": "continue"})).encode()
        head = b"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        writer.write(head + b"content-length: %d\r\n\r\n%b" % (len(payload), payload))
        await until(lambda: len(server.app.registry) > 0)
        (state,) = list(server.app.registry)
        run = server.app.engine.supervisor._directory._runs[state.response_id]
        await until(lambda: run.listeners > 0)
        await until(lambda: run.listeners == 0, 20)
        await until(lambda: state.terminal is not None, 20)
        assert state.state == "completed"
        writer.transport.abort()
