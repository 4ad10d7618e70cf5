"""Steering a run of another node, and what becomes of it (PROTOCOL 7.3)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.elsewhere.two_nodes import Nodes, two_nodes
from tests.http.calling import begin, http
from tests.session.play import connected, log_bytes, response_id, started, stub_settings, until
from tests.session.speaking import AFTER, BEFORE, INSIDE, WHOLE, Speaker
from tests.session.test_steer import TOOL, TWO_CALLS, answer, code_of, steer, turn
from tests.support.stub_upstream import StubUpstream
from tests.support.ws_client import TERMINALS, WsClient


@contextlib.asynccontextmanager
async def speaking(postgres_url: str, speaker: Speaker) -> AsyncIterator[tuple[Nodes, WsClient, WsClient]]:
    """Two nodes in front of the speaker; a client where the runs begin, and one on the other node."""
    async with (
        StubUpstream(speaker) as stub,
        two_nodes(postgres_url, **stub_settings(stub)) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        await other.hello()
        yield nodes, owner, other


async def begun(owner: WsClient, speaker: Speaker, **fields: Any) -> str:
    await owner.create("stub-model", "first", **fields)
    run = await started(owner)
    await until(lambda: bool(speaker.inputs), "the model call")
    return run


async def test_a_plain_clients_run_is_steered_by_nobody_on_another_node(postgres_url: str) -> None:
    speaker = Speaker(BEFORE)
    async with speaking(postgres_url, speaker) as (_, owner, other):
        run = await begun(owner, speaker)
        refused = await steer(other, run)
        assert (code_of(refused), refused["sequence_number"]) == ("steering_not_supported", 1)
        speaker.release()
        await owner.collect_run()


async def test_a_run_is_steered_from_another_node_and_both_nodes_follow_the_successor(postgres_url: str) -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with speaking(postgres_url, speaker) as (_, owner, other):
        await owner.hello()
        run = await begun(owner, speaker)
        await other.attach(run, stream_id="watch")
        accepted = await steer(other, run, "second", "watch")
        assert (accepted["type"], accepted["stream_id"]) == ("response.steer.accepted", "watch")
        end = (await owner.recv_until(lambda e: e["type"] in TERMINALS))[-1]
        assert end["response"]["incomplete_details"] == {"reason": "steered"}
        mine = await turn(owner)
        assert mine[0]["response"]["previous_response_id"] == run
        assert speaker.said_by_user() == ["first", "second"]

        target = await other.collect_attachment("watch")
        theirs = await other.collect_attachment("watch")
        assert target[-1]["reason"] == theirs[-1]["reason"] == "ended"
        begins = next(frame for frame in theirs if frame["type"] == "antiphon:run_attached")
        assert begins["response_id"] == response_id(mine)
        assert log_bytes(theirs) == log_bytes(mine)


async def test_a_steer_over_http_on_another_node_names_the_successor(postgres_url: str) -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with speaking(postgres_url, speaker) as (nodes, owner, _):
        await owner.hello()
        run = await begun(owner, speaker)
        async with http(nodes.there) as client:
            taken = (await client.post(f"/v1/responses/{run}/steer", json={"input": "second"})).json()
        assert taken["steer"]["previous_response_id"] == run
        await owner.recv_until(lambda e: e["type"] in TERMINALS)
        assert response_id(await turn(owner)) == taken["successor"]


async def test_a_steer_that_waits_for_outputs_is_told_so_on_the_node_it_came_from(postgres_url: str) -> None:
    speaker = Speaker(TWO_CALLS, WHOLE)
    async with speaking(postgres_url, speaker) as (_, owner, other):
        await owner.hello()
        run = await begun(owner, speaker, tools=[TOOL])
        accepted = await steer(other, run, "second")
        assert accepted["type"] == "response.steer.accepted"
        speaker.release()
        first = await owner.collect_run()
        told = await answer(other)
        assert (told["type"], told["steer"]["id"]) == ("response.steer.pending", accepted["steer"]["id"])
        calls = [item["call_id"] for item in first[-1]["response"]["output"] if item["type"] == "function_call"]
        assert [stub["call_id"] for stub in told["required_input"]] == calls
        assert told["sequence_number"] == first[-1]["sequence_number"]
        outputs = [{"type": "function_call_output", "call_id": call_id, "output": "4"} for call_id in calls]
        await owner.create("stub-model", outputs, previous_response_id=run)
        await owner.collect_run()
        assert speaker.said_by_user()[-1] == "second"


async def test_what_was_said_comes_back_to_the_node_it_came_from_if_the_run_is_cancelled(
    postgres_url: str,
) -> None:
    speaker = Speaker(INSIDE)
    async with speaking(postgres_url, speaker) as (_, owner, other):
        await owner.hello()
        run = await begun(owner, speaker)
        await owner.recv_until(lambda e: e["type"] == "response.output_text.delta")
        accepted = await steer(other, run, [{"role": "user", "content": "second"}])
        await other.command("antiphon:cancel", response_id=run)
        told = await answer(other)
        assert code_of(told) == "response_not_active"
        assert told["steer"] == {**accepted["steer"], "input": [{"role": "user", "content": "second"}]}
        await owner.collect_run()


async def test_a_run_that_ended_on_another_node_takes_no_steer(postgres_url: str) -> None:
    speaker = Speaker(AFTER, WHOLE)
    async with speaking(postgres_url, speaker) as (nodes, _, other):
        run = await begin(nodes.here, "first", "stub-model")
        await until(lambda: bool(speaker.inputs), "the model call")
        speaker.release()
        lane = (await other.attach(run))["stream_id"]
        await other.collect_attachment(lane)
        assert code_of(await steer(other, run)) == "response_already_completed"
