"""SIGSTOP of the owner for longer than its lease: awake again it owns nothing and says nothing as the owner."""

from __future__ import annotations

import asyncio

import pytest

from tests.chaos.rounds import HOLD, MODEL, PAUSE_S, ROUNDS, Arena, arena, end_of, rest, serves, settled
from tests.contract.playing import call, says
from tests.http.calling import until
from tests.session.held import inject, output, outputs
from tests.session.play import numbered
from tests.session.speaking import INSIDE, WHOLE, Speaker
from tests.support.cluster import ProcessNode, known_to_wait
from tests.support.follower import Follower, without_lane
from tests.support.stub_upstream import StubConn, StubRequest, in_turn, play
from tests.support.ws_client import Event, WsClient, ws_client

pytestmark = pytest.mark.chaos


class Witness:
    """A client of the paused node: what it is shown from the waking on must be the log that the others have."""

    def __init__(self, client: WsClient, run_id: str, lane: str) -> None:
        self._client = client
        self._run_id = run_id
        self._lane = lane
        self._before = 0

    @classmethod
    async def on(cls, client: WsClient, run_id: str) -> Witness:
        await client.hello()
        return cls(client, run_id, (await client.attach(run_id))["stream_id"])

    def asleep(self) -> None:
        """Its node is stopped: what comes later was sent after the waking."""
        self._before = len(self._client.received)

    async def told(self) -> str:
        """Wait until it is detached or its socket is closed: the reason, or `closed`."""

        def over() -> bool:
            return self._client._ended.is_set() or any(
                frame["type"] == "antiphon:detached" and frame["stream_id"] == self._lane
                for frame in self._client.received
            )

        await until(over)
        ends = [frame for frame in self._client.received if frame["type"] == "antiphon:detached"]
        return str(ends[-1]["reason"]) if ends else "closed"

    def check(self, log: list[Event]) -> None:
        """What the woken node still sent of this run is what the run's owner wrote."""
        true = {event["sequence_number"]: without_lane(event) for event in log}
        late = [frame for frame in self._client.received[self._before :] if frame.get("stream_id") == self._lane]
        for event in numbered(late):
            if "sequence_number" in event and not event["type"].startswith("response.inject."):
                assert without_lane(event) == true.get(event["sequence_number"]), (
                    f"said by the woken node: {event}"
                )


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
        await far.hello()
        await known_to_wait(far, run_id)
        owner.pause()
        witness.asleep()
        try:

            async def taken() -> bool:
                answer = await inject(far, run_id, output(call_id, "from afar"))
                return bool(answer["type"] == "response.inject.created")

            await until(taken)
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


POINTS = (
    in_mid_delta,
    while_it_waits_for_a_tool,
    in_a_tool_with_side_effects,
    before_a_tool_with_side_effects,
)


@pytest.mark.parametrize("point", POINTS, ids=[point.__name__ for point in POINTS])
async def test_a_node_that_slept_longer_than_its_lease_wakes_up_as_a_reader(
    postgres_url: str, point: object
) -> None:
    async with arena(postgres_url) as stage:
        for n in range(ROUNDS):
            owner, other = stage.pair(n)
            await point(stage, owner, other)  # type: ignore[operator]
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
