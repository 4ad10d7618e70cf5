"""Coming back to a run over another node (PROTOCOL 5.8, 6.4, 10.4).

Field issues R-01, R-03, R-05, R-07, R-13, U-13; R-09 is in `test_attach.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import httpx2
import pytest

from tests.cluster.links import in_front_of, linked, through
from tests.cluster.test_lifecycle_feed import dashboard
from tests.http.calling import until
from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    response_id,
    stub_settings,
    text_of,
    words,
    write_script,
)
from tests.session.speaking import WHOLE, Speaker
from tests.support.cluster import cluster, process_cluster
from tests.support.follower import Follower, read_whole
from tests.support.gap_checker import check_run
from tests.support.relay import UP
from tests.support.stub_upstream import StubUpstream
from tests.support.ws_client import Event, WsClient, ws_client

RUNS = 4
ATTACHES = 25
"""Of each run; 100 in all."""


async def test_a_hundred_attaches_at_random_over_a_slow_link_to_redis_each_get_the_whole_run(
    postgres_url: str,
) -> None:
    """R-01: what is subscribed to late, or read while it grows, has neither a hole nor a repeat."""
    dice = random.Random(1)
    async with linked(postgres_url) as c, contextlib.AsyncExitStack() as stack:
        model = write_script(c.folder, "paced", [words(200, rate=200 / RUNS)])
        c.to_redis[1].delay(0.3, [UP])
        owner = await stack.enter_async_context(ws_client(c.a.ws_url))
        viewers = [await stack.enter_async_context(ws_client(c.b.ws_url)) for _ in range(ATTACHES)]
        for viewer in viewers:
            await viewer.hello()
        lanes = [f"r{n}" for n in range(RUNS)]
        for n, lane in enumerate(lanes):
            await owner.create(model, stream_id=lane, store=n % 2 == 0)
        live = {lane: [await owner.recv_on(lane)] for lane in lanes}
        late = {
            lane: [
                asyncio.create_task(_attach_late(viewer, response_id(live[lane]), dice.uniform(0, 1.0)))
                for viewer in viewers
            ]
            for lane in lanes
        }
        for lane in lanes:
            live[lane] += await owner.collect_run(lane, 20)
            check_run(live[lane])
            for log in await asyncio.gather(*late[lane]):
                assert log == log_bytes(live[lane])


async def _attach_late(viewer: WsClient, run_id: str, after_s: float) -> list[str]:
    await asyncio.sleep(after_s)
    return log_bytes(await attach_all(viewer, run_id, 20))


async def test_a_cursor_older_than_what_is_kept_gets_a_snapshot_that_makes_whole_on_the_other_node(
    postgres_url: str,
) -> None:
    """R-03: a hundred events are kept of three hundred."""
    async with (
        cluster(postgres_url, bus={"live_log_bytes": 20_000}, lease_s=10.0) as c,
        connected(c.a.ws_url) as owner,
        connected(c.b.ws_url) as late,
    ):
        model = write_script(c.folder, "long", [words(300, rate=300), {"delay_s": 1.5}, words(20, rate=50)])
        await owner.create(model, store=False)
        seen = await owner.recv_until(lambda event: event.get("delta") == "w299 ")
        await late.hello()
        await _stands_at(late, response_id(seen), seen[-1]["sequence_number"])
        attached = await late.attach(response_id(seen), after=10)
        assert (attached["mode"], attached["recovered"]) == ("snapshot", False)
        assert attached["reason"] == "cursor_expired"
        url = f"{c.b.url}/v1/responses/{response_id(seen)}"
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            gone = await http.get(url, params={"stream": "true", "starting_after": "10"})
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "cursor_expired")
        assert gone.json()["response"]["output"][0]["content"][0]["text"] == text_of(seen)
        rest = numbered(await late.collect_attachment(attached["stream_id"]))
        live = seen + await owner.collect_run()
        numbers = [event["sequence_number"] for event in rest]
        assert numbers == list(range(attached["head"] + 1, live[-1]["sequence_number"] + 1))
        (message,) = attached["response"]["output"]
        assert message["content"][0]["text"] + text_of(rest) == text_of(live)
        assert message["id"] == live[-1]["response"]["output"][0]["id"]


async def _stands_at(client: WsClient, run_id: str, number: int) -> None:
    """Wait until the node of this client knows of an event."""

    async def knows() -> bool:
        attached = await client.attach(run_id, after="now")
        await client.command("antiphon:detach", response_id=run_id)
        return bool(attached["head"] >= number)

    await until(knows)


async def test_a_log_past_its_retention_gives_the_ended_response_on_every_node(postgres_url: str) -> None:
    settings: dict[str, Any] = {"journal": {"retention_s": 0}, "bus": {"linger_s": 0.2}}
    async with cluster(postgres_url, **settings) as c, connected(c.a.ws_url) as owner:
        live = await owner.run(input="old")
        run_id = response_id(live)
        await until(lambda: not c.redis.command("KEYS", f"antiphon:v1:run:*{run_id}*"))
        await c.a.app.engine.janitor.clean()
        for node in c.nodes:
            async with connected(node.ws_url) as late:
                await late.hello()
                attached = await late.attach(run_id, after=1)
                assert (attached["mode"], attached["response"]) == ("snapshot", live[-1]["response"])
                assert numbered(await late.collect_attachment(attached["stream_id"])) == []


async def test_after_a_node_died_the_conversation_goes_on_and_no_number_is_taken_for_an_old_one(
    postgres_url: str,
) -> None:
    """R-05: a client that has read far sees every later run of the conversation from its number 0."""
    async with process_cluster(postgres_url, lease_s=1.0) as c:
        long = write_script(c.folder, "long", [words(300, rate=600), {"delay_s": 60}])  # not all in one flush
        async with Follower(lambda: [c.a.ws_url]) as first:
            parent = await first.create(input="begin")
            await first.follow()
        async with Follower(c.urls) as client:
            lost = await client.create(long, previous_response_id=parent)
            await client.follow(until=lambda event: event["sequence_number"] >= 300)
            await c.a.kill()
            events = await client.follow()
            assert events[-1]["response"]["error"]["code"] == "server_lost"
            client.checked()
            assert client.forks or events[-1]["sequence_number"] > 300
        await c.a.start()
        for node in (c.a, c.b):
            async with Follower(lambda node=node: [node.ws_url]) as client:  # type: ignore[misc]
                parent = await client.create(input="on", previous_response_id=parent)
                events = await client.follow()
                client.checked()
                assert (events[0]["sequence_number"], events[-1]["type"]) == (0, "response.completed")
                assert parent != lost


async def test_a_reader_that_merges_what_two_nodes_gave_it_sees_the_text_once(postgres_url: str) -> None:
    """R-07: numbers and item ids are the same on every node."""
    async with cluster(postgres_url) as c, connected(c.a.ws_url) as owner, connected(c.b.ws_url) as other:
        model = write_script(c.folder, "paced", [words(60, rate=100)])
        await owner.create(model)
        seen = [await owner.recv_on() for _ in range(30)]
        await other.hello()
        replay = await attach_all(other, response_id(seen))
        live = seen + await owner.collect_run()
        assert _merged([*seen, *replay, *live]) == {live[-1]["response"]["output"][0]["id"]: text_of(live)}


def _merged(events: list[Event]) -> dict[str, str]:
    """The text of each item, as a client that applies each number once has it."""
    texts: dict[str, str] = {}
    last = -1
    for event in sorted(events, key=lambda event: event["sequence_number"]):
        if event["sequence_number"] > last and event["type"] == "response.output_text.delta":
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
        last = max(last, event["sequence_number"])
    return texts


@pytest.mark.parametrize("store", [True, False])
async def test_a_create_whose_answer_was_lost_is_repeated_on_the_other_node_and_runs_once(
    postgres_url: str, store: bool
) -> None:
    """R-13: the socket is reset as soon as the frame went out, or while the model already talks."""
    async with (
        StubUpstream(Speaker(WHOLE)) as stub,
        cluster(postgres_url, **stub_settings(stub)) as c,
        in_front_of(c.a) as relay,
        connected(c.b.ws_url) as back,
    ):
        for n in range(10):
            fields: dict[str, Any] = {"idempotency_key": f"key-{n}", "store": store}
            async with ws_client(through(relay)) as lost:
                sent = relay.paths[UP].forwarded_bytes
                await lost.create("stub-model", "once", **fields)
                await relay.wait_forwarded(sent + 1, UP)
                if n % 2:
                    await stub.request(n)
                relay.reset()
                await lost.wait_closed()
            events = await back.run("stub-model", "once", **fields)
            check_run(events)
            assert len(stub.requests) == n + 1
            assert await read_whole(c.a.ws_url, response_id(events)) == log_bytes(events)


@pytest.mark.parametrize("slow", ["store", "log"])
async def test_whoever_comes_at_a_notice_finds_what_it_tells_of(
    postgres_url: str, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U-13: writes to PostgreSQL, or of logs to Redis, are slower than the notices of the feed."""
    async with linked(postgres_url) as c, ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as other:
        if slow == "store":
            c.to_postgres[0].delay(0.1, [UP])
        else:
            _write_late(monkeypatch, c.a.app.engine.journal)
        await other.hello()
        async with (
            dashboard(c.redis) as heard,
            httpx2.AsyncClient(base_url=c.b.url, timeout=10, trust_env=False) as http,
        ):
            for n in range(3):
                await owner.create(input=f"number {n}")
                run_id = await _told(heard, "run.created", n)
                late = await attach_all(other, run_id)
                assert await _told(heard, "run.completed", n) == run_id
                answer = await http.get(f"/v1/responses/{run_id}")
                assert (answer.status_code, answer.json()["status"]) == (200, "completed")
                assert log_bytes(late) == log_bytes(await owner.collect_run())
        c.to_postgres[0].delay(0)


def _write_late(monkeypatch: pytest.MonkeyPatch, journal: Any) -> None:
    flusher = journal._flusher
    flush = flusher._flush

    async def late() -> None:
        await asyncio.sleep(0.2)
        await flush()

    monkeypatch.setattr(flusher, "_flush", late)


async def _told(heard: list[dict[str, Any]], event: str, n: int) -> str:
    """The run of the n-th notice of a kind."""

    def these() -> list[str]:
        return [str(entry["run"]["response_id"]) for entry in heard if entry["event"] == event]

    await until(lambda: len(these()) > n)
    return these()[n]
