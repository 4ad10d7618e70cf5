"""What clients of the living node are told when the other is paused or dies (field issues U-15, D-06, O-05)."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.cluster.answering import until_taken
from tests.session.held import calling, hold, inject, next_call, output, outputs
from tests.session.play import connected, log_bytes, numbered
from tests.support.cluster import process_cluster, waits_durably
from tests.support.follower import Follower, read_whole
from tests.support.redis import redis_server
from tests.support.ws_client import Event, ws_client

TOOL_ROUNDS = 100
LEASE_S = 1.0


async def test_a_client_of_another_node_answers_100_tool_rounds_and_one_given_while_the_owner_is_paused(
    postgres_url: str,
) -> None:
    # A lease that outlives the pause: the owner is slow, not dead.
    async with process_cluster(postgres_url, lease_s=5.0, loop={"max_rounds": 200}) as c:
        model = calling(c.folder, *[1] * (TOOL_ROUNDS + 1))
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as far:
            await far.hello()
            run = await hold(owner, model)
            lane = (await far.attach(run.id))["stream_id"]
            call_ids = []
            for n in range(TOOL_ROUNDS):
                call_ids.append(await next_call(far, lane))
                reply = await inject(far, run.id, output(call_ids[-1], str(n)), stream_id=lane)
                assert reply["type"] == "response.inject.created", reply.raw
            call_ids.append(await next_call(far, lane))
            c.a.pause()
            answer = asyncio.create_task(inject(far, run.id, output(call_ids[-1], "while paused"), stream_id=lane))
            try:
                await asyncio.wait([answer], timeout=1.0)
            finally:
                c.a.resume()
            assert (await answer)["type"] == "response.inject.created"
            again = await inject(far, run.id, output(call_ids[-1], "while paused"), stream_id=lane)
            assert again["duplicate"] is True
            live = run.events + await owner.collect_run(wait_s=40)
        said = [*map(str, range(TOOL_ROUNDS)), "while paused"]
        assert outputs(live) == list(zip(call_ids, said, strict=True))
        assert await read_whole(c.b.ws_url, run.id) == log_bytes(live)


async def test_who_answers_a_run_whose_owner_has_just_died_is_not_left_waiting(postgres_url: str) -> None:
    async with process_cluster(postgres_url, lease_s=LEASE_S) as c:
        model = calling(c.folder, 1)
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as other:
            await other.hello()
            run = await hold(owner, model)
            await waits_durably(c.redis, run.id)
            await c.a.kill()
            began = time.monotonic()
            first = await inject(other, run.id, output(run.call_ids[0], "again and again"))
            assert time.monotonic() - began < LEASE_S + 15, "told as soon as the owner is known to be dead"
            if first["type"] == "response.inject.failed":
                assert first["error"]["code"] == "owner_unavailable", first.raw
                assert first["input"] == [output(run.call_ids[0], "again and again")]
            await until_taken(other, run.id, output(run.call_ids[0], "again and again"))
            async with Follower(c.urls, run.id) as follower:
                events = await follower.follow()
            assert outputs(events) == [(run.call_ids[0], "again and again")]


async def test_nobody_of_a_dead_node_stays_among_the_participants(postgres_url: str) -> None:
    async with process_cluster(postgres_url, nodes=2, lease_s=LEASE_S) as c:
        model = calling(c.folder, 1)
        async with connected(c.a.ws_url) as owner, ws_client(c.b.ws_url) as guest:
            mine = (await owner.hello())["connection_id"]
            theirs = (await guest.hello())["connection_id"]
            run = await hold(owner, model)
            attached = await guest.attach(run.id, after="now")
            assert {row["connection"] for row in attached["state"]["participants"]} == {mine, theirs}
            reply = await guest.command("antiphon:presence", response_id=run.id, state="typing")
            assert reply["type"] == "antiphon:ok"
            await owner.recv_until(lambda e: _people(e).get(theirs) == "typing")
            await c.b.kill()
            await owner.recv_until(lambda e: set(_people(e)) == {mine})
            await inject(owner, run.id, output(run.call_ids[0]))
            await owner.collect_run()


def _people(event: Event) -> dict[str, str]:
    """Connection -> state of each participant, as a push tells it."""
    if event["type"] != "antiphon:run":
        return {}
    return {row["connection"]: row["state"] for row in event["state"]["participants"]}


async def test_presence_goes_both_ways_between_nodes(postgres_url: str) -> None:
    async with process_cluster(postgres_url) as c:
        async with connected(c.a.ws_url) as owner, connected(c.b.ws_url) as guest:
            mine = (await owner.hello())["connection_id"]
            await guest.hello()
            run = await hold(owner, calling(c.folder, 1))
            await guest.attach(run.id, after="now")
            await owner.command("antiphon:presence", response_id=run.id, state="executing", label="looking")
            await guest.recv_until(lambda e: _people(e).get(mine) == "executing")
            await guest.command("antiphon:detach", response_id=run.id)
            await owner.recv_until(lambda e: set(_people(e)) == {mine})


async def test_an_unstored_run_of_a_dead_node_ends_truthfully_for_those_who_follow_it(postgres_url: str) -> None:
    with redis_server("valkey") as redis:
        async with process_cluster(postgres_url, redis=redis, lease_s=LEASE_S) as c:
            model = calling(c.folder, 1)
            async with connected(c.a.ws_url) as owner, connected(c.b.ws_url) as other:
                await other.hello()
                run = await hold(owner, model, store=False)
                lane = (await other.attach(run.id))["stream_id"]
                await other.recv_until(lambda e: e["type"] == "response.output_item.done", stream_id=lane)
                await c.a.kill()
                frames = await other.collect_attachment(lane)
            terminal = numbered(frames)[-1]
            assert terminal["response"]["error"]["code"] == "server_lost"
            whole = await read_whole(c.b.ws_url, run.id)
            assert whole[-1] == log_bytes([terminal])[0]


@pytest.mark.parametrize("lease_s", [1.0])
async def test_a_run_is_adopted_within_two_seconds_of_the_end_of_its_owners_lease(
    postgres_url: str, lease_s: float
) -> None:
    async with process_cluster(postgres_url, lease_s=lease_s) as c:
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as other:
            await other.hello()
            run = await hold(owner, calling(c.folder, 1))
            await waits_durably(c.redis, run.id)
            first = (await other.attach(run.id, after="now", stream_id="w"))["epoch"]
            await c.a.kill()
            killed = time.monotonic()
            pushed = await other.recv_until(
                lambda e: (
                    e["type"] == "antiphon:run"
                    and e["state"]["epoch"] != first
                    and e["state"]["state"] == "waiting_for_tool"
                )
            )
            took = time.monotonic() - killed
            assert pushed[-1]["state"]["pending_calls"][0]["call_id"] == run.call_ids[0]
            # The machine may be busy: `bench` has the figure.
            assert took < lease_s + 20
