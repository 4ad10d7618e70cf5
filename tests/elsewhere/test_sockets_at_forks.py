"""What sockets of another node are told when the run they follow forks or is waited for (PROTOCOL 6.4.6, 13)."""

from __future__ import annotations

import asyncio

import pytest

from tests.elsewhere.two_nodes import Nodes, two_nodes
from tests.http.calling import begin, http
from tests.session.held import TOOLS, calling, output, taken
from tests.session.play import connected, response_id, until, words, write_script
from tests.support.http_client import open_sse
from tests.support.ws_client import WsClient, ws_client

LONG = words(3000, rate=100)


async def run_here(nodes: Nodes) -> tuple[str, dict[str, str]]:
    """A long run with an idempotency key; its id, and the create that finds it from any node."""
    given = {"model": write_script(nodes.folder, "long", [LONG]), "input": "x", "idempotency_key": "k"}
    return await begin(nodes.here, **given), given


def fork(nodes: Nodes, run: str) -> None:
    """What the mirror of the other node learns when the run was taken over with its first events only."""
    mirror = nodes.there.app.engine.remote.get(run)
    assert mirror is not None
    mirror.log.fork(2, mirror.log.epochs.forked("e2", 2))


async def joined(nodes: Nodes, client: WsClient, given: dict[str, str]) -> None:
    """The same create once more: its turn is the run of the other node."""
    await client.create(**given)
    seen = await client.recv_until(lambda e: e["type"] == "response.output_text.delta")
    assert nodes.there.app.engine.directory.own(response_id(seen)) is None


@pytest.mark.parametrize(("hello", "code"), [(False, 1012), (True, 4000)])
async def test_the_socket_of_a_turn_whose_log_forked_is_closed_so_that_its_client_comes_back(
    postgres_url: str, hello: bool, code: int
) -> None:
    async with two_nodes(postgres_url) as nodes, ws_client(nodes.there.ws_url) as client:
        run, given = await run_here(nodes)
        if hello:
            await client.hello()
        await joined(nodes, client, given)
        fork(nodes, run)
        assert (await client.wait_closed())[0] == code
        async with http(nodes.there) as again:
            await again.post(f"/v1/responses/{run}/cancel")


async def test_an_attachment_past_a_fork_is_detached_and_the_socket_stays(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, connected(nodes.there.ws_url) as client:
        run, _ = await run_here(nodes)
        await client.hello()
        await client.attach(run, stream_id="watch")
        await client.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id="watch")
        fork(nodes, run)
        frames = await client.collect_attachment("watch")
        assert (frames[-1]["type"], frames[-1]["reason"]) == ("antiphon:detached", "epoch_changed")
        assert (await client.command("antiphon:cancel", response_id=run))["result"] == "accepted"


async def test_an_event_stream_past_a_fork_ends_without_the_end_marker(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes:
        run, _ = await run_here(nodes)
        async with open_sse("GET", f"{nodes.there.url}/v1/responses/{run}?stream=true") as stream:
            kinds = []
            async for event in stream:
                kinds.append(event.event)
                if event.event == "response.output_text.delta" and "response.output_text.delta" not in kinds[:-1]:
                    fork(nodes, run)
            assert not stream.done and "response.completed" not in kinds
        async with http(nodes.there) as client:
            await client.post(f"/v1/responses/{run}/cancel")


async def test_a_create_that_waits_is_answered_also_if_its_run_goes_to_another_node_meanwhile(
    postgres_url: str,
) -> None:
    async with two_nodes(postgres_url) as nodes, connected(nodes.there.ws_url) as worker:
        model = calling(nodes.folder, 1)
        await worker.hello()
        given = {"model": model, "input": "x", "tools": TOOLS, "antiphon": {"client_tools": "hold"}}
        async with http(nodes.here) as client:
            waiting = asyncio.create_task(client.post("/v1/responses", json=given))
            registry = nodes.here.app.registry
            await until(lambda: any(state.state == "waiting_for_tool" for state in registry), "the run to wait")
            state = next(iter(registry))
            nodes.here.app.engine.adopter.resting = True
            await nodes.here.app.engine.ownership.hand_over()
            own = nodes.there.app.engine.directory.own
            await until(lambda: own(state.response_id) is not None, "the other node to take the run")
            await taken(worker, state.response_id, output(state.pending_calls[0]["call_id"]))
            answer = await waiting
        assert (answer.status_code, answer.json()["id"]) == (200, state.response_id)
        assert answer.json()["status"] == "completed"
