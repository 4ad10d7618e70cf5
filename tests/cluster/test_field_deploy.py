"""A node goes away in order, or something inside breaks, while another one is there (field issues D-01 to D-10).

D-06 is in `tests/chaos/test_killed.py`; five hundred runs are drained in `tests/chaos/test_drain.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from tests.http.calling import until
from tests.session.held import TOOLS, calling, hold, inject, output, outputs, taken
from tests.session.play import connected, log_bytes, numbered, started, stub_settings, words, write_script
from tests.support.cluster import Cluster, LocalNode, cluster
from tests.support.follower import Follower, read_whole
from tests.support.gap_checker import check_run
from tests.support.stub_upstream import StubUpstream, text
from tests.support.ws_client import Event, SocketEnded, ws_client

CLIENTS = 300
SPREAD_S = 2.0
LONG_S = 10.0
"""A lease that no busy machine lets run out."""


async def test_sockets_of_every_kind_are_told_and_closed_with_the_code_and_what_they_followed_goes_on(
    postgres_url: str,
) -> None:
    """D-01, D-03: idle, talking, waiting, following a run of the other node, and one that reads nothing."""
    async with (
        cluster(postgres_url, lease_s=LONG_S, limits={"outbox_bytes": 65_536}) as c,
        ws_client(c.a.ws_url) as plain,
        connected(c.a.ws_url) as idle,
        connected(c.a.ws_url) as talking,
        connected(c.a.ws_url) as waiting,
        connected(c.a.ws_url) as following,
        ws_client(c.a.ws_url, max_queue=1) as stalled,
        ws_client(c.b.ws_url) as elsewhere,
        connected(c.b.ws_url) as back,
    ):
        for client in (idle, talking, waiting, following, stalled, back):
            await client.hello()
        paced = write_script(c.folder, "paced", [words(40, rate=40)])
        flood = write_script(c.folder, "flood", [words(60, rate=20, text="x" * 65_536)])
        await talking.create(paced)
        await elsewhere.create(flood)
        run = await hold(waiting, calling(c.folder, 1))
        talk, far = await started(talking), await started(elsewhere)
        await stalled.attach(far)
        stalled.stop_reading()
        lane = (await following.attach(far))["stream_id"]
        await following.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id=lane)
        async with asyncio.timeout(2.0 + 8.0):
            await c.a.stop()
        stalled.resume_reading()
        assert await plain.wait_closed() == (1012, "server restart")
        for client in (idle, talking, waiting, following):
            assert await client.wait_closed() == (4000, "server restart")
            (told,) = [event for event in client.received if event["type"] == "antiphon:goaway"]
            assert (told["reason"], told["spread_ms"]) == ("draining", 5000)
        events = [event for event in numbered(talking.received) if "sequence_number" in event]
        assert check_run(events).text.endswith("w39 "), "a turn that ran was finished"
        assert await read_whole(c.b.ws_url, talk) == log_bytes(events)

        async def is_here() -> bool:
            return c.b.app.engine.directory.own(run.id) is not None

        await until(is_here)
        lane = (await back.attach(run.id, after="now"))["stream_id"]
        await taken(back, run.id, output(run.call_ids[0]), stream_id=lane)
        assert outputs(await back.collect_run(lane)) == [(run.call_ids[0], "seen")]
        await elsewhere.collect_run(wait_s=40)
        check_run(elsewhere.received)


async def test_no_create_is_lost_while_a_node_drains_and_readiness_fails_first(postgres_url: str) -> None:
    """D-09: what is refused is refused aloud, and is taken once by the other node."""
    timeouts = {"drain_pause_s": 0.5, "drain_s": 30.0}
    async with (
        StubUpstream(text(3)) as stub,
        cluster(postgres_url, lease_s=LONG_S, timeouts=timeouts, **stub_settings(stub)) as c,
        httpx2.AsyncClient(timeout=10, trust_env=False) as http,
        contextlib.AsyncExitStack() as stack,
    ):
        leaver, refusals = c.a, []
        leaving = asyncio.Event()
        clients = [
            await stack.enter_async_context(
                Follower(lambda: [c.a.ws_url, c.b.ws_url] if c.a.alive else [c.b.ws_url])
            )
            for _ in range(16)
        ]
        asking = [asyncio.create_task(_create_often(client, leaving)) for client in clients]
        await until(lambda: len(stub.requests) > 20)
        url = leaver.url
        stopping = asyncio.create_task(leaver.stop())
        await until(lambda: _is_not_ready(http, url))
        async with ws_client(url.replace("http", "ws", 1) + "/v1/responses") as late:
            assert check_run(await late.run("stub-model", "still taken")).text == "w0 w1 w2 "
        await stopping
        leaving.set()
        runs = [run for made in await asyncio.gather(*asking) for run in made]
        assert len(set(runs)) == len(runs)
        assert len(stub.requests) == len(runs) + 1, "each create is one run"
        for client in clients:
            refusals += client.refusals
        assert set(refusals) <= {"server_draining"}
        for run in runs[:: max(len(runs) // 20, 1)]:
            assert "response.completed" in (await read_whole(c.b.ws_url, run))[-1]


async def _create_often(client: Follower, leaving: asyncio.Event) -> list[str]:
    """Create runs one after the other until the node has left, and one more; their ids."""
    made = []
    while True:
        last = leaving.is_set()
        client.run_id, client.log, client.epoch = None, [], None
        made.append(await client.create("stub-model", "once"))
        await client.follow()
        if last:
            return made


async def _is_not_ready(http: httpx2.AsyncClient, url: str) -> bool:
    return (await http.get(f"{url}/ready")).status_code == 503


class Polite(Follower):
    """A client that comes back at a random moment of the spread it was told (PROTOCOL 10.7).

    returns: when it tried to connect again after it was told to go, in seconds of the loop.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.returns: list[float] = []
        self._spread_s = 0.0

    def _note(self, frame: Event) -> None:
        super()._note(frame)
        if frame["type"] == "antiphon:goaway":
            self._spread_s = frame["spread_ms"] / 1000

    async def _leave(self) -> None:
        await super()._leave()
        if self._spread_s and not self.ended:
            spread_s, self._spread_s = self._spread_s, 0.0
            await asyncio.sleep(random.random() * spread_s)
            self.returns.append(asyncio.get_running_loop().time())


async def test_a_rolling_restart_with_300_clients_loses_no_event_and_brings_them_back_spread(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-05: both nodes are restarted, one after the other, while ten runs go on."""
    monkeypatch.setattr("antiphon.session.connection._SPREAD_MS", SPREAD_S * 1000)
    async with cluster(postgres_url, lease_s=LONG_S) as c, contextlib.AsyncExitStack() as stack:
        clients = [_client_near(c, n) for n in range(CLIENTS)]
        for client in clients:
            stack.push_async_callback(client.close)
        owners = clients[:10]
        for owner in owners:
            await owner.create(calling(c.folder, 1, 1, 1), tools=TOOLS, antiphon={"client_tools": "hold"})
        for n, client in enumerate(clients):
            client.run_id = owners[n % 10].run_id
        reading = [asyncio.create_task(client.follow()) for client in clients]
        for count, node in enumerate(c.nodes, 1):
            await _all_have(clients, count)
            stopping = asyncio.create_task(node.stop())
            await _answer(c, owners, count - 1)
            await stopping
            await node.start()
        await _all_have(clients, 3)
        await _answer(c, owners, 2)
        for client, log in zip(clients, await asyncio.gather(*reading), strict=True):
            client.checked()
            assert client.forks == [] and log[-1]["response"]["status"] == "completed"
        returns = sorted(moment for client in clients for moment in client.returns)
        assert len(returns) >= CLIENTS, "one half went at the first restart, all of them at the second"
        crowd = max(sum(at <= other < at + SPREAD_S / 10 for other in returns) for at in returns)
        assert crowd < len(returns) / 4


def _client_near(c: Cluster[LocalNode], n: int) -> Polite:
    """A client that prefers one of the nodes, and tries the other while that is away."""
    near = c.nodes[n % 2]
    return Polite(lambda: _urls(c.nodes, near), patience_s=60)


def _calls(client: Follower) -> list[str]:
    items = [event["item"] for event in client.log if event["type"] == "response.output_item.done"]
    return [item["call_id"] for item in items if item["type"] == "function_call"]


async def _all_have(clients: list[Polite], calls: int) -> None:
    """Wait until every client was shown so many calls, on whatever node it is."""
    await until(lambda: all(len(_calls(client)) == calls for client in clients), 60)


async def _answer(c: Cluster[LocalNode], owners: list[Polite], n: int) -> None:
    """Answer the n-th call of each run on whatever node takes it, as a client that is told to come again does."""
    for owner in owners:
        call_id = _calls(owner)[n]

        async def taken_by(node: LocalNode, owner: Polite = owner, call_id: str = call_id) -> bool:
            async with ws_client(node.ws_url) as client:
                assert owner.run_id is not None
                reply = await inject(client, owner.run_id, output(call_id, result_id="r"))
                return bool(reply["type"] == "response.inject.created")

        async def is_taken(taken_by: Callable[[LocalNode], Awaitable[bool]] = taken_by) -> bool:
            for node in c.nodes:
                with contextlib.suppress(InvalidStatus, OSError, SocketEnded, AssertionError):
                    if node.alive and await taken_by(node):
                        return True
            return False

        await until(is_taken, 20)


def _urls(nodes: list[LocalNode], near: LocalNode) -> list[str]:
    return [node.ws_url for node in sorted(nodes, key=lambda node: node is not near) if node.alive]


async def test_runs_and_their_mirrors_survive_garbage_collections(postgres_url: str) -> None:
    """D-10: nothing that works for a run is held by its own task alone."""
    async with cluster(postgres_url, lease_s=LONG_S) as c, ws_client(c.a.ws_url) as owner:
        model = write_script(c.folder, "paced", [words(20, rate=20)])
        lanes = [f"r{n}" for n in range(16)]
        for lane in lanes:
            await owner.create(model, stream_id=lane)
        run_ids = [await started(owner, lane) for lane in lanes]
        async with asyncio.TaskGroup() as tasks:
            reading = [tasks.create_task(read_whole(c.b.ws_url, run_id)) for run_id in run_ids]
            while not all(task.done() for task in reading):
                gc.collect()
                await asyncio.sleep(0.01)
        for lane, task in zip(lanes, reading, strict=True):
            assert task.result()[1:] == log_bytes(await owner.collect_run(lane))


@pytest.mark.parametrize(
    ("on", "where"),
    [
        ("b", "engine.journal.find"),
        ("b", "engine.journal.events"),
        ("b", "engine.journal.read_hint"),
        ("b", "engine.bus.ask"),
        ("a", "engine.journal._flusher._before"),
        ("a", "engine.journal._flusher._answered"),
        ("a", "engine.bus.on_message"),
    ],
)
async def test_a_fault_inside_a_node_is_no_silence(
    postgres_url: str, on: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-10: whatever breaks once between two nodes, the run ends, and who follows it elsewhere sees the whole."""
    async with cluster(postgres_url, lease_s=LONG_S) as c, ws_client(c.a.ws_url) as owner:
        model = write_script(c.folder, "paced", [words(30, rate=60)])
        await owner.create(model)
        run_id = await started(owner)
        async with Follower(lambda: [c.b.ws_url], run_id) as follower:
            await follower.follow(until=lambda event: event["type"] == "response.output_text.delta")
            broken = _break_once(monkeypatch, (c.a if on == "a" else c.b).app, where)
            async with ws_client(c.b.ws_url) as other:
                await other.hello()
                await other.command("antiphon:attach", response_id=run_id)
            await follower.follow()
            follower.checked()
            live = await owner.collect_run()
            assert live[-1]["response"]["status"] == "completed"
            assert log_bytes(follower.log)[1:] == log_bytes(live)
            await until(broken.is_set)


def _break_once(monkeypatch: pytest.MonkeyPatch, app: Any, where: str) -> asyncio.Event:
    """The next call of this raises what nobody expects; set when it did."""
    *path, name = where.split(".")
    holder = app
    for part in path:
        holder = getattr(holder, part)
    real = getattr(holder, name)
    broken = asyncio.Event()

    def once(*args: Any, **fields: Any) -> Any:
        if not broken.is_set():
            broken.set()
            raise RuntimeError("broken on purpose")
        return real(*args, **fields)

    monkeypatch.setattr(holder, name, once)
    return broken
