"""A node goes away in order while it has hundreds of runs and sockets: another one goes on with them (J)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from typing import Any

import httpx2
import pytest

from tests.chaos.rounds import end_of
from tests.http.calling import until
from tests.session.play import words, write_script
from tests.support.cluster import ProcessNode, process_cluster
from tests.support.follower import Follower, read_whole, without_lane
from tests.support.ws_client import Event, WsClient, ws_client

pytestmark = pytest.mark.chaos

RUNS = int(os.environ.get("DRAIN_RUNS", "500"))
SOCKETS = int(os.environ.get("DRAIN_SOCKETS", "500"))
DRAIN_S = 20.0
LOOK = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
KINDS = 4


async def test_a_node_with_many_runs_and_sockets_is_drained_without_a_lost_event(postgres_url: str) -> None:
    settings: dict[str, Any] = {
        "timeouts": {"drain_s": DRAIN_S, "drain_pause_s": 0.5},
        "limits": {"running_per_connection": 64},
    }
    async with process_cluster(postgres_url, lease_s=5.0, **settings) as c, contextlib.AsyncExitStack() as stack:
        step = [words(4, rate=2), {"call": {"name": "current_time"}}]
        models = [
            write_script(c.folder, "rounds", *[step] * 8, [words(1)]),
            write_script(c.folder, "waits", [{"call": {"name": "look"}}], [words(2)]),
            write_script(c.folder, "talks", [words(16, rate=2)]),
            write_script(c.folder, "says", [words(6, rate=1)]),
        ]
        followers = []
        for _ in range(RUNS):
            follower = Follower(c.urls, patience_s=90)
            followers.append(await stack.enter_async_context(follower))
        for start in range(0, RUNS, 50):
            await asyncio.gather(
                *(_begin(followers[n], models[n % KINDS], n) for n in range(start, min(start + 50, RUNS)))
            )
        idle = [await stack.enter_async_context(ws_client(c.a.ws_url)) for _ in range(max(0, SOCKETS - RUNS))]
        reading = [asyncio.create_task(_to_the_end(follower, n)) for n, follower in enumerate(followers)]
        leaver = c.a
        watch = asyncio.create_task(_readiness(leaver))
        await asyncio.gather(*(client.hello() for client in idle))
        leaving = asyncio.create_task(_stop(leaver))
        assert (await watch) == 503, "readiness fails before anything else"
        assert await leaving == 0
        assert "Traceback" not in leaver.log
        events = await asyncio.gather(*reading)
        ends = Counter(end_of(log) for log in events)
        assert ends == {"completed": RUNS}, ends
        for follower in followers:
            follower.checked()
            assert follower.forks == [], "a handover is no fork"
        for n in range(0, RUNS, 25):
            run_id = followers[n].run_id
            assert run_id is not None
            assert await read_whole(c.b.ws_url, run_id) == [without_lane(event) for event in events[n]]
        _all_were_told(idle)


async def _begin(follower: Follower, model: str, n: int) -> None:
    fields: dict[str, Any] = {"tools": LOOK, "antiphon": {"client_tools": "hold"}} if n % KINDS == 1 else {}
    await follower.create(model, **fields)


async def _to_the_end(follower: Follower, n: int) -> list[Event]:
    """A client that answers its call only after it has come back."""
    if n % KINDS == 1:
        await follower.follow(until=lambda event: event["type"] == "response.output_item.done")
        call_id = follower.log[-1]["item"]["call_id"]
        while follower.connections < 2:
            await follower.step()
        await follower.answer(call_id, "seen")
    return await follower.follow()


async def _stop(node: ProcessNode) -> int:
    """SIGTERM; no client should try it from here on."""
    node.leaving = True
    return await node.stop()


async def _readiness(node: ProcessNode) -> int:
    """Poll it until it is no longer 200; what it says then."""
    async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
        answers: list[int] = []

        async def fails() -> bool:
            answers.append((await http.get(f"{node.url}/ready")).status_code)
            return answers[-1] != 200

        await until(fails, DRAIN_S)
        return answers[-1]


def _all_were_told(idle: list[WsClient]) -> None:
    """Who had nothing running got a goaway with a spread, then the code to come back with."""
    for client in idle:
        told = [frame for frame in client.received if frame["type"] == "antiphon:goaway"]
        assert told and told[0]["reason"] == "draining", client.received[-3:]
        assert client.socket.close_code == 4000
