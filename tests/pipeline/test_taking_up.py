"""A run stays what it was when another process goes on with it, whatever became of its agent meanwhile."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.agents import agent_of, serving
from tests.session.held import output, taken
from tests.session.play import connected
from tests.support.stub_upstream import calls
from tests.support.ws_client import TERMINALS, Event, WsClient

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
AGENT = {"name": "a", "model": "small", "instructions": "told", "client_tools": "hold", "tools": []}


async def left_waiting(folder: Path) -> tuple[str, str]:
    """Begin a run of the agent that waits for a client, stop its server; gives the run and the call."""
    async with (
        serving(handler=calls(("look", "{}")), auth=False, data_dir=folder, agent=[AGENT]) as (_, server),
        connected(server.ws_url) as client,
    ):
        await client.hello()
        await client.send({"type": "response.create", "model": "agent:a", "input": "x", "tools": [LOOK]})
        told = await client.recv_until(
            lambda e: e["type"] == "antiphon:run" and e["state"]["state"] == "waiting_for_tool"
        )
        await server.server.abort()
    return told[-1]["state"]["response_id"], told[-1]["state"]["pending_calls"][0]["call_id"]


async def answered(client: WsClient, run_id: str, call_id: str) -> Event:
    """Answer the call; the terminal event."""
    await client.hello()
    lane = (await client.attach(run_id, after="now"))["stream_id"]
    await taken(client, run_id, output(call_id), stream_id=lane)
    events = await client.collect_attachment(lane)
    return next(event for event in events if event["type"] in TERMINALS)


async def test_the_agent_of_a_waiting_run_outlives_the_process_and_its_own_end(tmp_path: Path) -> None:
    run_id, call_id = await left_waiting(tmp_path)
    async with (
        serving(auth=False, data_dir=tmp_path) as (stub, server),
        connected(server.ws_url) as client,
    ):
        assert agent_of(server, run_id) == ("a", "system")
        assert server.app.accounts.admission.is_live(run_id)
        end = await answered(client, run_id, call_id)
        assert (end["response"]["status"], end["response"]["model"]) == ("completed", "small")
        assert (stub.requests[0].body["instructions"], stub.requests[0].body["model"]) == ("told", "small")
        assert not server.app.accounts.admission.is_live(run_id)


async def test_a_model_that_was_closed_meanwhile_is_not_called_for_a_run_that_goes_on(tmp_path: Path) -> None:
    run_id, call_id = await left_waiting(tmp_path)
    closed = [{"id": "default", "models": []}]
    async with (
        serving(auth=False, data_dir=tmp_path, tenant=closed) as (stub, server),
        connected(server.ws_url) as client,
    ):
        assert (await answered(client, run_id, call_id))["response"]["status"] == "failed"
        assert stub.requests == []
