"""A client on one node, the run on another: the same bytes from number 0 (PROTOCOL 10.3; R-01, R-09, U-13)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from antiphon.runs.elsewhere.tailer import Tailer
from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    response_id,
    started,
    words,
    write_script,
)
from tests.support.cluster import cluster
from tests.support.follower import Follower, read_whole, without_lane
from tests.support.gap_checker import check_run
from tests.support.http_client import SseBody, read_sse
from tests.support.redis import Engine, engines
from tests.support.ws_client import ws_client

ROUNDS = 200


@pytest.mark.parametrize("engine", engines())
async def test_an_attach_on_the_other_node_right_after_the_create_begins_at_number_0_in_every_round(
    postgres_url: str, engine: Engine
) -> None:
    async with (
        cluster(postgres_url, engine=engine) as c,
        ws_client(c.a.ws_url) as owner,
        ws_client(c.b.ws_url) as other,
    ):
        await other.hello()
        for n in range(ROUNDS):
            await owner.create(input=f"a b c {n}", store=n % 2 == 0)
            created = await owner.recv_on()
            watching = asyncio.create_task(attach_all(other, created["response"]["id"]))
            live = [created, *await owner.collect_run()]
            assert log_bytes(await watching) == log_bytes(live)


@pytest.mark.parametrize("mode", ["relaxed", "strict"])
async def test_viewers_on_every_node_who_come_at_random_see_the_same_bytes(postgres_url: str, mode: str) -> None:
    async with cluster(postgres_url, nodes=3, journal={"mode": mode, "tail_bytes": 4096}) as c:
        model = write_script(c.folder, "paced", [words(100, rate=150)])
        dice = random.Random(7)
        async with connected(c.a.ws_url) as owner, asyncio.TaskGroup() as tasks:
            lanes = [f"r{n}" for n in range(10)]
            for lane in lanes:
                await owner.create(model, stream_id=lane)
            ids = {lane: await started(owner, lane) for lane in lanes}
            watched = [
                (lane, tasks.create_task(_watch(node.ws_url, ids[lane], dice.uniform(0, 0.7))))
                for lane in lanes
                for node in c.nodes
            ]
            live = {lane: numbered(await owner.collect_run(lane, 30)) for lane in lanes}
        for lane, task in watched:
            assert task.result()[1:] == log_bytes(live[lane])
            assert task.result() == await read_whole(c.b.ws_url, ids[lane])


async def _watch(url: str, run_id: str, after_s: float) -> list[str]:
    await asyncio.sleep(after_s)
    return await read_whole(url, run_id)


async def test_a_cursor_of_one_node_goes_on_at_the_other(postgres_url: str) -> None:
    async with cluster(postgres_url) as c:
        model = write_script(c.folder, "paced", [words(60, rate=15)])
        dice = random.Random(3)
        async with Follower(lambda: [dice.choice(c.nodes).ws_url]) as wanderer:
            run_id = await wanderer.create(model)
            while not wanderer.ended:
                goal = wanderer.last + 8
                await wanderer.follow(until=lambda event, goal=goal: event["sequence_number"] >= goal)
                if wanderer.client is not None and not wanderer.ended:
                    await wanderer.client.abort()
            assert wanderer.connections > 5
            assert wanderer.checked().text.endswith("w59 ")
            assert wanderer.forks == []
            seen = [without_lane(event) for event in wanderer.log]
        for node in c.nodes:
            assert await read_whole(node.ws_url, run_id) == seen


async def test_an_attach_during_which_a_new_epoch_begins_is_told_so_and_not_given_a_hole(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(postgres_url) as c, ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as other:
        await other.hello()
        await owner.create(write_script(c.folder, "endless", [words(5), {"delay_s": 60}]))
        seen = await owner.recv_until(lambda e: e.get("delta") == "w4 ")
        run_id, last = response_id(seen), seen[-1]["sequence_number"]
        lane = (await other.attach(run_id))["stream_id"]
        (*_, shown) = await other.recv_until(lambda e: e.get("delta") == "w4 ", stream_id=lane)
        mirror = c.b.app.engine.remote.get(run_id)
        assert mirror is not None and shown["sequence_number"] == last
        epoch = mirror.log.epochs.current

        async def said(_: str) -> None:
            """The owner does not answer; meanwhile this node hears of another one that goes on before the last
            event. (The owner lives: what it writes would say otherwise at once, so nothing is read any more.)"""
            monkeypatch.setattr(Tailer, "_sync", nothing)
            monkeypatch.setattr(Tailer, "_from_journal", nothing)
            mirror.log.fork(last, mirror.log.epochs.forked("f" * 16, last))

        async def nothing(*_: Any) -> None:
            """The mirror stays as it is."""

        monkeypatch.setattr(c.b.app.engine.company, "said", said)
        answer = await other.command("antiphon:attach", response_id=run_id, after=last, epoch=epoch)
        assert (answer["type"], answer.get("code")) == ("antiphon:error", "epoch_changed"), answer.raw
        assert answer["fork"] == last


async def test_an_attach_with_now_gives_only_what_comes_and_an_ended_run_its_response(postgres_url: str) -> None:
    async with cluster(postgres_url) as c, connected(c.a.ws_url) as owner, connected(c.b.ws_url) as other:
        await other.hello()
        model = write_script(c.folder, "held", [words(3), {"delay_s": 30}])
        await owner.create(model)
        seen = await owner.recv_until(lambda e: e.get("delta") == "w2 ")
        attached = await other.attach(response_id(seen), after="now")
        assert (attached["mode"], attached["head"]) == ("live", seen[-1]["sequence_number"])
        assert attached["state"]["state"] == "running"
        await other.command("antiphon:cancel", response_id=response_id(seen))
        rest = numbered(await other.collect_attachment(attached["stream_id"]))
        live = [*seen, *await owner.collect_run()]
        assert log_bytes(rest) == log_bytes(live)[attached["head"] + 1 :]
        head = live[-1]["sequence_number"]
        over = await other.attach(response_id(seen), after=head)
        assert (over["mode"], over["response"]) == ("ended", live[-1]["response"])
        future = await other.command("antiphon:attach", response_id=response_id(seen), after=head + 1)
        assert (future["code"], future["head"]) == ("cursor_in_future", head)


async def test_a_slow_viewer_on_another_node_is_parked_and_catches_up_from_the_log(postgres_url: str) -> None:
    limits = {"outbox_bytes": 20_000}
    async with cluster(postgres_url, limits=limits, journal={"tail_bytes": 4096}) as c:
        model = write_script(c.folder, "much", [words(400, rate=800, text="w{n} " + "x" * 2000)])
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as slow:
            await slow.hello()
            await owner.create(model)
            run_id = await started(owner)
            lane = (await slow.attach(run_id))["stream_id"]
            slow.stop_reading()
            live = await owner.collect_run(wait_s=30)
            slow.resume_reading()
            late = numbered(await slow.collect_attachment(lane, 30))
            check_run(late)
            assert log_bytes(late)[1:] == log_bytes(live)


async def test_sse_on_the_other_node_has_the_same_events_with_cursors(postgres_url: str) -> None:
    async with cluster(postgres_url) as c, connected(c.a.ws_url) as owner:
        model = write_script(c.folder, "paced", [words(40, rate=80)])
        await owner.create(model)
        run_id = await started(owner)
        from_b = asyncio.create_task(_sse(f"{c.b.url}/v1/responses/{run_id}"))
        live = await owner.collect_run()
        body = await from_b
        assert body.done
        assert [event.data for event in body.events][1:] == log_bytes(live)
        cursor = body.events[10].id
        assert cursor is not None
        rest = await _sse(f"{c.a.url}/v1/responses/{run_id}", {"last-event-id": cursor})
        assert [event.data for event in rest.events] == [event.data for event in body.events[11:]]


async def _sse(url: str, headers: dict[str, str] | None = None) -> SseBody:
    return await read_sse("GET", url, params={"stream": "true"}, headers=headers or {})
