"""Attach: from anywhere, at any time, the same bytes (PROTOCOL 10.3, 10.4; R-07, R-09)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import random
from collections.abc import AsyncIterator

import pytest

from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    reference,
    response_id,
    started,
    text_of,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import Event, WsClient, ws_client

RUNS = 200
WORDS = 100
ROUNDS = 200


async def watch_at_random(
    server: RunningServer, model: str, owner: WsClient, watcher: WsClient, lane: str
) -> None:
    """Create on one socket, attach on another at a random number, twice; compare with the owner's record."""
    dice = random.Random(lane)
    await owner.create(model, stream_id=lane)
    live: list[Event] = []
    until = dice.randrange(1, WORDS)
    while len(live) < until:
        live.append(await owner.recv_on(lane, 30))
    run_id = response_id(live)
    after = dice.choice(["start", -1, 0, dice.randrange(until), until - 1])
    fields = {} if after == "start" else {"after": max(after, 0)}
    first = 0 if after == "start" else max(after, 0) + 1
    late = await attach_all(watcher, run_id, 30, **fields)
    live += await owner.collect_run(lane, 30)
    check_run(live)
    assert log_bytes(late) == log_bytes(live)[first:], f"{lane}: attached after {after} at {until}"


@contextlib.asynccontextmanager
async def pairs_of_clients(server: RunningServer, count: int) -> AsyncIterator[list[tuple[WsClient, WsClient]]]:
    """Pairs of connections: one creates, one attaches."""
    async with contextlib.AsyncExitStack() as stack:
        pairs = []
        for _ in range(count):
            owner = await stack.enter_async_context(ws_client(server.ws_url))
            watcher = await stack.enter_async_context(ws_client(server.ws_url))
            await watcher.hello()
            pairs.append((owner, watcher))
        yield pairs


@pytest.mark.parametrize("mode", ["relaxed", "strict"])
async def test_200_runs_attached_to_at_random_points_are_the_same_byte_for_byte(mode: str) -> None:
    async with running_server(journal={"mode": mode, "tail_bytes": 4096}) as server:
        model = write_script(server.data_dir, "paced", [words(WORDS, rate=200)])
        async with pairs_of_clients(server, 25) as pairs:
            for start in range(0, RUNS, 100):
                async with asyncio.TaskGroup() as tasks:
                    for n in range(start, min(start + 100, RUNS)):
                        owner, watcher = pairs[n % len(pairs)]
                        tasks.create_task(watch_at_random(server, model, owner, watcher, f"r{n % 200}"))


async def test_an_attach_right_after_the_create_begins_at_number_0_in_every_round() -> None:
    async with running_server() as server, ws_client(server.ws_url) as owner, ws_client(server.ws_url) as other:
        await other.hello()
        for n in range(ROUNDS):
            await owner.create(input=f"a b c {n}", store=n % 2 == 0)
            created = await owner.recv_on()
            watching = asyncio.create_task(attach_all(other, created["response"]["id"]))
            live = [created, *await owner.collect_run()]
            assert log_bytes(await watching) == log_bytes(live)


async def test_a_reader_that_merges_by_number_and_item_sees_the_text_once() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        model = write_script(server.data_dir, "paced", [words(40, rate=100)])
        await owner.create(model)
        seen = [await owner.recv_on() for _ in range(20)]
        await other.hello()
        replay = await attach_all(other, response_id(seen))
        texts: dict[str, str] = {}
        last = -1
        for event in sorted([*seen, *replay], key=lambda e: e["sequence_number"]):
            if event["sequence_number"] > last and event["type"] == "response.output_text.delta":
                texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
            last = max(last, event["sequence_number"])
        live = seen + await owner.collect_run()
        assert list(texts.values()) == [text_of(live)]


async def test_the_order_is_acknowledgement_replay_caught_up_live_terminal_detached() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        model = write_script(server.data_dir, "paced", [words(30, rate=30)])
        await owner.create(model)
        seen = [await owner.recv_on() for _ in range(10)]
        await other.hello()
        attached = await other.attach(response_id(seen), after=3)
        assert (attached["mode"], attached["recovered"]) == ("replay", True)
        frames = await other.collect_attachment("att.1")
        assert frames[-1]["reason"] == "ended"
        caught = [index for index, frame in enumerate(frames) if frame["type"] == "antiphon:caught_up"]
        assert len(caught) == 1
        replayed = numbered(frames[: caught[0]])
        assert [event["sequence_number"] for event in replayed] == list(range(4, frames[caught[0]]["head"] + 1))
        assert frames[caught[0]]["head"] >= attached["head"] >= 9
        assert numbered(frames[caught[0] :])[-1]["type"] == "response.completed"
        first_own = next(i for i, f in enumerate(other.received) if f.get("response_id") == response_id(seen))
        assert other.received[first_own]["type"] == "antiphon:attached"


async def test_every_mode_is_announced_as_it_is() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        await other.hello()
        model = write_script(server.data_dir, "held", [words(3), {"delay_s": 30}])
        ended = await owner.run(input="done")
        done, head = response_id(ended), ended[-1]["sequence_number"]
        for after, mode in (("start", "replay"), (0, "replay"), (head, "ended"), ("now", "ended")):
            attached = await other.attach(done, after=after)
            assert (attached["mode"], attached["head"], attached["recovered"]) == (mode, head, True)
            assert (attached.get("response") == ended[-1]["response"]) == (mode == "ended")
            frames = await other.collect_attachment(attached["stream_id"])
            wanted = log_bytes(ended)[0 if after == "start" else 1 :] if mode == "replay" else []
            assert log_bytes(frames) == wanted
            assert [f["type"] for f in frames if f["type"].startswith("antiphon:")] == [
                "antiphon:caught_up",
                "antiphon:detached",
            ]
        await owner.create(model)
        seen = await owner.recv_until(lambda e: e.get("delta") == "w2 ")
        running = response_id(seen)
        attached = await other.attach(running, after="now")
        assert (attached["mode"], attached["head"]) == ("live", seen[-1]["sequence_number"])
        await other.command("antiphon:cancel", response_id=running)
        rest = numbered(await other.collect_attachment(attached["stream_id"]))
        assert rest[0]["sequence_number"] == attached["head"] + 1
        assert [e["sequence_number"] for e in rest] == list(
            itertools.islice(itertools.count(attached["head"] + 1), len(rest))
        )


async def test_cursors_that_cannot_be_served_are_refused_and_make_no_attachment() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        ended = await client.run(input="done")
        run_id, head = response_id(ended), ended[-1]["sequence_number"]
        future = await client.command("antiphon:attach", response_id=run_id, after=head + 1)
        assert (future["code"], future["head"]) == ("cursor_in_future", head)
        assert future["epoch"] == (await client.attach(run_id, after=head))["epoch"]
        unknown = await client.command("antiphon:attach", response_id="resp_unknown")
        assert unknown["code"] == "response_not_found"
        gone = await client.command("antiphon:detach", response_id=run_id)
        assert gone["code"] == "not_attached"


async def test_an_unknown_epoch_gets_a_snapshot_that_makes_the_reader_whole() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        await other.hello()
        model = write_script(server.data_dir, "paced", [words(40, rate=40)])
        await owner.create(model)
        seen = await owner.recv_until(lambda e: e.get("delta") == "w5 ")
        attached = await other.attach(response_id(seen), after=4, epoch="0000000000000000")
        assert (attached["mode"], attached["recovered"], attached["reason"]) == (
            "snapshot",
            False,
            "cursor_expired",
        )
        snapshot = attached["response"]["output"][0]["content"][0]["text"]
        rest = numbered(await other.collect_attachment(attached["stream_id"]))
        assert rest[0]["sequence_number"] == attached["head"] + 1
        live = seen + await owner.collect_run()
        assert snapshot + text_of(rest) == text_of(live)
        assert log_bytes(await reference(server.ws_url, response_id(seen))) == log_bytes(live)


async def test_ids_give_no_access_to_another_tenant() -> None:
    def key(name: str, **fields: str) -> dict[str, str]:
        return {"sha256": hashlib.sha256(name.encode()).hexdigest(), "name": name, **fields}

    keys = (key("a1", tenant="a"), key("a2", tenant="a"), key("b1", tenant="b", role="operator"))
    async with (
        running_server(auth="required", key=keys, tenant=({"id": "a"}, {"id": "b"})) as server,
        connected(server.ws_url, api_key="a1") as owner,
        connected(server.ws_url, api_key="a2") as colleague,
        connected(server.ws_url, api_key="b1") as stranger,
    ):
        model = write_script(server.data_dir, "held", [words(1), {"delay_s": 30}])
        await owner.create(model, stream_id="open")
        shared = await started(owner, "open")
        await owner.create(model, stream_id="mine", antiphon={"visibility": "private"})
        private = await started(owner, "mine")
        for client, hidden in ((stranger, [shared, private]), (colleague, [private])):
            await client.hello()
            for run_id in hidden:
                for name in ("antiphon:attach", "antiphon:cancel"):
                    refused = await client.command(name, response_id=run_id)
                    unknown = await client.command(name, response_id="resp_" + "0" * 32)
                    assert refused["code"] == unknown["code"] == "response_not_found"
                await client.create("antiphon/echo", previous_response_id=run_id, stream_id="x")
                error = await client.recv_error("x")
                assert error["error"]["code"] == "previous_response_not_found"
        assert (await colleague.attach(shared))["mode"] == "replay"
        for run_id in (shared, private):
            await owner.send({"type": "response.cancel", "response_id": run_id})
        await owner.collect_run("open")
        await owner.collect_run("mine")
