"""SIGKILL of the owner at every point of a run: another node goes on with it or ends it truthfully (DESIGN 3)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import psycopg
import pytest

from tests.chaos.rounds import (
    HOLD,
    MODEL,
    ROUNDS,
    Arena,
    arena,
    end_of,
    serves,
    settled,
)
from tests.cluster.answering import until_taken
from tests.contract.playing import call, says
from tests.http.calling import until
from tests.session.held import inject, output, outputs
from tests.session.speaking import BEFORE, INSIDE, WHOLE, Speaker
from tests.support import postgres
from tests.support.cluster import ProcessNode
from tests.support.follower import Follower
from tests.support.stub_upstream import StubConn, StubRequest, hang, in_turn, play
from tests.support.ws_client import Event, ws_client

pytestmark = pytest.mark.chaos
DICE = random.Random(20261130)


async def before_it_was_heard_of(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """The node dies with the create in its hands; the client asks again under the same key."""
    stage.plays(Speaker(WHOLE))
    async with stage.client(owner) as client:
        asking = asyncio.create_task(client.create(MODEL, "go"))
        await asyncio.wait([asking], timeout=DICE.uniform(0, 0.03))
        await owner.kill()
        await asking
        assert end_of(await settled(stage.cluster, client)) in ("completed", "server_lost")


async def before_the_first_event(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """Nothing of the answer was shown: the model is asked again."""
    stage.plays(Speaker(BEFORE, WHOLE))
    async with stage.client(owner) as client:
        run_id = await client.create(MODEL, "go")
        async with stage.client(other, run_id) as watcher:
            await watcher.follow(until=lambda event: event["type"] == "response.in_progress")
            await stage.model.request(0)
            await owner.kill()
            assert end_of(await settled(stage.cluster, client, watcher)) == "completed"
    assert len(stage.model.requests) == 2


async def in_mid_delta(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """Half an answer was shown: no second one is put behind it, or what was shown is taken back aloud."""
    stage.plays(Speaker(INSIDE, WHOLE))
    async with stage.client(owner) as client:
        run_id = await client.create(MODEL, "go")
        async with stage.client(other, run_id) as watcher:
            for one in (client, watcher) if n % 2 else (client,):
                await one.follow(until=lambda event: event["type"] == "response.output_text.delta")
            await owner.kill()
            end = end_of(await settled(stage.cluster, client, watcher))
    taken_back = bool(client.forks)
    assert (end, len(stage.model.requests)) == (("completed", 2) if taken_back else ("server_lost", 1))
    assert not (taken_back and n % 2), "what the watcher had was durable"


async def while_it_waits_for_a_tool(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """It waits on elsewhere, with the answer it had, and takes the one that comes there."""
    stage.plays(in_turn(play(says(("text", "t"), call("look", "c0"), call("look", "c1"))), Speaker(WHOLE)))
    async with stage.client(owner) as client:
        run_id = await client.create(MODEL, "go", **HOLD)
        await client.follow(until=lambda event: len(_calls(client.log)) == 2)
        calls = _calls(client.log)
        async with ws_client(owner.ws_url) as near:
            reply = await inject(near, run_id, output(calls[0], "before"))
            assert reply["type"] == "response.inject.created", reply.raw
            await owner.kill()
        async with ws_client(other.ws_url) as far:
            await until_taken(far, run_id, output(calls[1], "after"))
        events = await settled(stage.cluster, client)
    assert (end_of(events), outputs(events)) == ("completed", [(calls[0], "before"), (calls[1], "after")])
    assert len(stage.model.requests) == 2


async def between_a_result_and_the_model(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """The tool had its effect: it has no second one. If its result was kept, the model is asked with it."""
    stage.plays(in_turn(play(says(("text", "t"), call("note", "c0"))), hang(), Speaker(WHOLE)))
    async with stage.client(owner) as client:
        run_id = await client.create(MODEL, "go")
        async with stage.client(other, run_id) as watcher:
            await stage.model.request(1)
            if n % 2 == 0:
                await watcher.follow(until=_is_result)
            await owner.kill()
            end = end_of(await settled(stage.cluster, client, watcher))
    assert len(stage.tool.requests) == 1
    if n % 2 == 0 or end == "completed":
        assert end == "completed"
        assert stage.model.requests[2].body["input"] == stage.model.requests[1].body["input"]
    else:
        assert (end, len(stage.model.requests)) == ("server_lost", 2)


def _is_result(event: Event) -> bool:
    return bool(event["type"] == "response.output_item.done" and event["item"]["type"] == "mcp_call")


async def while_a_side_effect_is_under_way(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """Nobody knows what became of it: it is not done again, and the run says so."""
    stage.plays(in_turn(play(says(("text", "t"), call("note", "c0"))), Speaker(WHOLE)))
    answer, stage.tool.handler = stage.tool.handler, hang()
    try:
        async with stage.client(owner) as client:
            await client.create(MODEL, "go")
            await stage.tool.request(0)
            await owner.kill()
            assert end_of(await settled(stage.cluster, client)) == "server_lost"
    finally:
        stage.tool.handler = answer
    assert (len(stage.tool.requests), len(stage.model.requests)) == (1, 1)


async def before_the_terminal_is_written(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """The row is locked under the owner's last write, so that the kill comes before anybody knows how it ended."""
    speaker = Speaker(INSIDE)
    stage.plays(speaker)
    async with stage.client(owner) as client:
        run_id = await client.create(MODEL, "go")
        async with stage.client(other, run_id) as watcher:
            await client.follow(until=lambda event: event["type"] == "response.output_text.delta")
            url = stage.cluster.postgres_url
            async with await psycopg.AsyncConnection.connect(url) as lock:
                await lock.execute("SELECT 1 FROM responses WHERE id = %s FOR UPDATE", (run_id,))
                speaker.release()
                await until(lambda: _blocked(url) > 0)
                await owner.kill()
            end = end_of(await settled(stage.cluster, client, watcher))
            assert end in ("server_lost", "completed")


def _blocked(url: str) -> int:
    """How many statements wait for a lock in this database."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(postgres.execute(url, asked)[0][0])


async def at_any_moment(stage: Arena, owner: ProcessNode, other: ProcessNode, n: int) -> None:
    """Thirty runs of all kinds, cut wherever they happen to be."""
    stage.plays(_any_kind)
    async with stage.client(owner) as one:
        clients = [stage.client(owner if k % 2 else other) for k in range(30)]
        tasks = [asyncio.create_task(_whole(client, f"{k % 3}")) for k, client in enumerate(clients)]
        await one.create(MODEL, "0")
        await asyncio.sleep(DICE.uniform(0.05, 0.5))
        await owner.kill()
        await asyncio.gather(*tasks)
        for client in clients:
            assert end_of(await settled(stage.cluster, client)) in ("completed", "server_lost")
            await client.close()
    calls = [request.headers["x-antiphon-run-id"] for request in stage.tool.requests]
    assert len(calls) == len(set(calls)), "a tool was called twice"


async def _whole(client: Follower, kind: str) -> None:
    await client.create(MODEL, kind)
    await client.follow()


async def _any_kind(request: StubRequest, conn: StubConn) -> None:
    """0: text at once. 1: text for a while. 2: a tool first."""
    items = request.body["input"]
    kind, first = items[0]["content"], len(items) == 1
    if kind == "2" and first:
        await play(says(("text", "t"), call("note", "c0")))(request, conn)
    else:
        events = says(*[("text", f"w{n} ") for n in range(20)])
        await play(events, rate=100 if kind == "1" else 0)(request, conn)


def _calls(events: Sequence[Event]) -> list[str]:
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return [item["call_id"] for item in done if item["type"] == "function_call"]


Point = Callable[[Arena, ProcessNode, ProcessNode, int], Awaitable[None]]
POINTS: tuple[Point, ...] = (
    before_it_was_heard_of,
    before_the_first_event,
    in_mid_delta,
    while_it_waits_for_a_tool,
    between_a_result_and_the_model,
    while_a_side_effect_is_under_way,
    before_the_terminal_is_written,
    at_any_moment,
)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__)
async def test_a_run_whose_owner_is_killed_loses_and_repeats_nothing(postgres_url: str, point: Point) -> None:
    async with arena(postgres_url) as stage:
        for n in range(ROUNDS):
            owner, other = stage.pair(n)
            await point(stage, owner, other, n)
            await serves(stage.cluster)
