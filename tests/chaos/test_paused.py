"""SIGSTOP of the owner for longer than its lease: awake again it owns nothing and says nothing as the owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.chaos.rounds import HOLD, MODEL, PAUSE_S, ROUNDS, Arena, arena, end_of, rest, serves, settled
from tests.chaos.witness import Witness
from tests.cluster.answering import until_taken
from tests.contract.playing import call, says
from tests.session.held import output, outputs
from tests.session.speaking import INSIDE, WHOLE, Speaker
from tests.support.cluster import ProcessNode, waits_durably
from tests.support.follower import Follower
from tests.support.stub_upstream import StubConn, StubRequest, in_turn, play
from tests.support.ws_client import Event, ws_client

pytestmark = pytest.mark.chaos


async def in_mid_delta(stage: Arena, owner: ProcessNode, other: ProcessNode) -> None:
    """The model says the rest to the sleeping node; nobody hears it."""
    speaker = Speaker(INSIDE, WHOLE)
    stage.plays(speaker)
    async with stage.client(owner) as client, ws_client(owner.ws_url) as loyal:
        run_id = await client.create(MODEL, "go")
        witness = await Witness.on(loyal, run_id)
        async with stage.client(other, run_id) as watcher:
            await watcher.follow(until=lambda event: event["type"] == "response.output_text.delta")
            await _sleep(stage, owner, witness, speaker)
            events = await settled(stage.cluster, watcher, client)
        assert await witness.told() in ("ended", "epoch_changed", "closed")
        witness.check(events)
    assert end_of(events) == "server_lost"
    assert len(stage.model.requests) == 1


async def _sleep(stage: Arena, owner: ProcessNode, witness: Witness, speaker: Speaker) -> None:
    owner.pause()
    witness.asleep()
    try:
        speaker.release()
        await rest(PAUSE_S)
    finally:
        owner.resume()


async def while_it_waits_for_a_tool(stage: Arena, owner: ProcessNode, other: ProcessNode) -> None:
    """Another node takes the run and its answer; the woken one asks the model nothing."""
    stage.plays(in_turn(play(says(("text", "t"), call("look", "c0"))), Speaker(WHOLE)))
    async with stage.client(owner) as client, ws_client(owner.ws_url) as loyal, ws_client(other.ws_url) as far:
        run_id = await client.create(MODEL, "go", **HOLD)
        await client.follow(until=lambda event: event["type"] == "response.output_item.done" and _is_call(event))
        call_id = client.log[-1]["item"]["call_id"]
        witness = await Witness.on(loyal, run_id)
        await waits_durably(stage.cluster.redis, run_id)
        owner.pause()
        witness.asleep()
        try:
            await until_taken(far, run_id, output(call_id, "from afar"))
            await rest(PAUSE_S / 3)
        finally:
            owner.resume()
        events = await settled(stage.cluster, client)
        assert await witness.told() in ("ended", "epoch_changed", "closed")
        witness.check(events)
    assert (end_of(events), outputs(events)) == ("completed", [(call_id, "from afar")])
    assert len(stage.model.requests) == 2


def _is_call(event: Event) -> bool:
    return bool(event["item"]["type"] == "function_call")


async def in_a_tool_with_side_effects(stage: Arena, owner: ProcessNode, other: ProcessNode) -> None:
    """The tool answers the sleeping node: it is called by nobody again, and its answer is not used."""
    answered = asyncio.Event()

    async def slow(request: StubRequest, conn: StubConn) -> None:
        await answered.wait()
        conn.answer(200, {"noted": True})

    stage.plays(in_turn(play(says(("text", "t"), call("note", "c0"))), Speaker(WHOLE)))
    before, stage.tool.handler = stage.tool.handler, slow
    try:
        async with stage.client(owner) as client, ws_client(owner.ws_url) as loyal:
            run_id = await client.create(MODEL, "go")
            witness = await Witness.on(loyal, run_id)
            await stage.tool.request(0)
            owner.pause()
            witness.asleep()
            try:
                answered.set()
                await rest(PAUSE_S)
            finally:
                owner.resume()
            events = await settled(stage.cluster, client)
            assert await witness.told() in ("ended", "epoch_changed", "closed")
            witness.check(events)
    finally:
        stage.tool.handler = before
    assert end_of(events) == "server_lost"
    assert (len(stage.tool.requests), len(stage.model.requests)) == (1, 1)


async def before_a_tool_with_side_effects(stage: Arena, owner: ProcessNode, other: ProcessNode) -> None:
    """Asleep between the model's call of a tool and the call itself: at most one call, whoever makes it."""
    reached, asleep = asyncio.Event(), asyncio.Event()

    async def first(request: StubRequest, conn: StubConn) -> None:
        """All but the end, which comes while the owner sleeps."""
        events = says(("text", "t"), call("note", "c0"))
        conn.head()
        for event in events[:-1]:
            conn.sse(event)
        reached.set()
        await asleep.wait()
        conn.sse(events[-1])
        conn.end()

    stage.plays(in_turn(first, Speaker(WHOLE)))
    async with stage.client(owner) as client:
        run_id = await client.create(MODEL, "go")
        await reached.wait()
        async with stage.client(other, run_id) as watcher:
            await watcher.follow(until=lambda event: event["type"] == "response.output_text.delta")
        owner.pause()
        try:
            asleep.set()
            await rest(PAUSE_S)
        finally:
            owner.resume()
        events = await settled(stage.cluster, client)
    assert end_of(events) == "server_lost"
    assert len(stage.tool.requests) == 0


Point = Callable[[Arena, ProcessNode, ProcessNode], Awaitable[None]]
POINTS: tuple[Point, ...] = (
    in_mid_delta,
    while_it_waits_for_a_tool,
    in_a_tool_with_side_effects,
    before_a_tool_with_side_effects,
)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__)
async def test_a_node_that_slept_longer_than_its_lease_wakes_up_as_a_reader(
    postgres_url: str, point: Point
) -> None:
    async with arena(postgres_url) as stage:
        for n in range(ROUNDS):
            owner, other = stage.pair(n)
            await point(stage, owner, other)
            await serves(stage.cluster)


async def test_a_node_that_slept_less_than_its_lease_goes_on_in_the_same_epoch(postgres_url: str) -> None:
    async with arena(postgres_url, bus={"lease_s": 5.0}) as stage:
        stage.plays(Speaker(INSIDE))
        speaker = stage.model.handler
        assert isinstance(speaker, Speaker)
        async with stage.client(stage.cluster.a) as client:
            run_id = await client.create(MODEL, "go")
            async with Follower(lambda: [stage.cluster.b.ws_url], run_id) as watcher:
                await watcher.follow(until=lambda event: event["type"] == "response.output_text.delta")
                stage.cluster.a.pause()
                try:
                    speaker.release()
                    await rest(1.0)
                finally:
                    stage.cluster.a.resume()
                events = await settled(stage.cluster, watcher, client)
        assert (end_of(events), watcher.forks, client.forks) == ("completed", [], [])
