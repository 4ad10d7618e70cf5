"""A conversation whose runs begin on another node (PROTOCOL 10.8)."""

from __future__ import annotations

from tests.elsewhere.two_nodes import two_nodes
from tests.http.calling import get
from tests.session.play import connected, log_bytes, response_id, stub_settings, until, words, write_script
from tests.session.speaking import BEFORE, WHOLE, Speaker
from tests.session.test_steer import steer, turn
from tests.support.stub_upstream import StubUpstream
from tests.support.ws_client import TERMINALS, Event, WsClient


def pushed(client: WsClient, run: str) -> list[Event]:
    """What the client was told of a run that came with a conversation."""
    return [f for f in client.received if f["type"] == "antiphon:run_attached" and f["response_id"] == run]


async def push_of(client: WsClient, run: str) -> Event:
    await until(lambda: bool(pushed(client, run)), "the push")
    (push,) = pushed(client, run)
    return push


async def test_runs_that_begin_on_another_node_come_with_the_conversation_whole_and_once(
    postgres_url: str,
) -> None:
    async with (
        two_nodes(postgres_url) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        model = write_script(nodes.folder, "short", [words(40, rate=25)])
        first = await owner.run(model)
        conversation = nodes.here.app.registry.get(response_id(first)).conversation_id
        await other.hello()
        attached = await other.command("antiphon:attach", conversation_id=conversation)
        assert [row["response_id"] for row in attached["runs"]] == [response_id(first)]
        for _ in range(2):
            second = await owner.run(model, previous_response_id=response_id(first))
            run = response_id(second)
            frames = await other.collect_attachment((await push_of(other, run))["stream_id"])
            assert log_bytes(frames) == log_bytes(second)


async def test_a_run_in_progress_on_another_node_is_among_those_of_the_conversation(postgres_url: str) -> None:
    async with (
        two_nodes(postgres_url) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        await owner.create(write_script(nodes.folder, "short", [words(100, rate=100)]))
        seen = await owner.recv_until(lambda e: e["type"] == "response.output_text.delta")
        run = response_id(seen)
        conversation = nodes.here.app.registry.get(run).conversation_id
        await other.hello()
        attached = await other.command("antiphon:attach", conversation_id=conversation)
        assert [(row["response_id"], row["state"]) for row in attached["runs"]] == [(run, "running")]
        listed = (await get(nodes.there, f"/v1/conversations/{conversation}/runs")).json()["data"]
        assert [(row["response_id"], row["state"]) for row in listed] == [(run, "running")]
        assert (await get(nodes.there, f"/v1/responses/{run}/input_items")).status_code == 200
        frames = await other.collect_attachment((await push_of(other, run))["stream_id"])
        assert log_bytes(frames) == log_bytes(seen + await owner.collect_run())


async def test_the_successor_of_a_steered_run_comes_once_and_on_the_lane_of_its_target(postgres_url: str) -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with (
        StubUpstream(speaker) as stub,
        two_nodes(postgres_url, **stub_settings(stub)) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        await owner.create("stub-model", "first")
        run = response_id([await owner.recv(), await owner.recv()])
        await until(lambda: bool(speaker.inputs), "the model call")
        await other.hello()
        conversation = nodes.here.app.registry.get(run).conversation_id
        await other.command("antiphon:attach", conversation_id=conversation)
        lane = (await push_of(other, run))["stream_id"]
        await steer(owner, run, "second")
        await owner.recv_until(lambda e: e["type"] in TERMINALS)
        follows = await turn(owner)
        await other.collect_attachment(lane)
        frames = await other.collect_attachment(lane)
        assert log_bytes(frames) == log_bytes(follows)
        assert [push["stream_id"] for push in pushed(other, response_id(follows))] == [lane]
