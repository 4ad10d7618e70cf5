"""What every round of chaos is made of: a cluster, a scripted model, a tool with side effects, and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.support.cluster import Cluster, LocalNode, ProcessNode, cluster, process_cluster
from tests.support.follower import Follower, read_whole, without_lane
from tests.support.redis import RedisServer
from tests.support.stub_upstream import Handler, StubUpstream
from tests.support.ws_client import Event, ws_client

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "3"))
"""Rounds of each scenario: 3 in `make test`, 50 in `make test-chaos`."""

LEASE_S = 1.0
PAUSE_S = float(os.environ.get("CHAOS_PAUSE_S", str(3 * LEASE_S)))
"""So long a process is stopped: enough for others to take its runs. 10 in `make test-chaos`."""

MODEL = "stub-model"
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
HOLD = {"tools": [LOOK], "antiphon": {"client_tools": "hold"}}
SETTLES_WITHIN_S = 30.0


@dataclass
class Arena:
    """A cluster of processes in front of a model and a tool that tests script. tool: counts its calls."""

    cluster: Cluster[ProcessNode]
    model: StubUpstream
    tool: StubUpstream

    def plays(self, handler: Handler) -> None:
        """From now on the model does this; requests are counted anew."""
        self.model.handler = handler
        self.model.requests.clear()
        self.tool.requests.clear()

    def pair(self, n: int) -> tuple[ProcessNode, ProcessNode]:
        """The owner and the other node of round n; they take turns."""
        a, b = self.cluster.nodes[:2]
        return (a, b) if n % 2 == 0 else (b, a)

    def client(self, near: ProcessNode, run_id: str | None = None) -> Follower:
        """A client that prefers a node while it lives."""

        def urls() -> Sequence[str]:
            alive = sorted((node for node in self.cluster.nodes if node.alive), key=lambda node: node is not near)
            return [node.ws_url for node in alive]

        return Follower(urls, run_id, patience_s=SETTLES_WITHIN_S)


async def noted(request: Any, conn: Any) -> None:
    """What the tool answers."""
    conn.answer(200, {"noted": request.body})


@contextlib.asynccontextmanager
async def arena(postgres_url: str, **settings: Any) -> AsyncIterator[Arena]:
    """Two nodes as processes, with the tool `note` (http, side effects) offered to every run."""
    async with StubUpstream() as model, StubUpstream(noted) as tool:
        given = {
            "upstream": [{"name": "stub", "url": model.url, "models": [MODEL]}],
            "tool": [
                {
                    "name": "note",
                    "kind": "http",
                    "url": f"http://127.0.0.1:{tool.port}/note",
                    "always": True,
                    "parameters": {"type": "object"},
                }
            ],
            **settings,
        }
        async with process_cluster(postgres_url, lease_s=LEASE_S, **given) as running:
            yield Arena(running, model, tool)


@contextlib.asynccontextmanager
async def nodes_here(postgres_url: str, redis: RedisServer, **settings: Any) -> AsyncIterator[Cluster[LocalNode]]:
    """Two nodes in this loop: for trouble that needs no process of ours to be killed."""
    async with cluster(postgres_url, redis=redis, lease_s=LEASE_S, **settings) as running:
        yield running


async def settled(c: Cluster[Any], *followers: Follower) -> list[Event]:
    """Everybody reads the run to its end and has the same: its log, held against every promise.

    Each node has it too, and a GET says what the terminal says.
    """
    logs = await asyncio.gather(*(follower.follow() for follower in followers))
    for follower in followers:
        follower.checked()
    whole = next((log for log in logs if log[0]["sequence_number"] == 0), logs[0])
    raw = [without_lane(event) for event in whole]
    run_id = followers[0].run_id
    assert run_id is not None
    for log in logs:
        first = log[0]["sequence_number"]
        assert [without_lane(event) for event in log] == raw[first - whole[0]["sequence_number"] :]
    for node in c.nodes:
        if node.alive:
            again = await read_whole(node.ws_url, run_id)
            assert again == raw[len(raw) - len(again) :], f"node {node.name} has another log"
            if json.loads(raw[-1])["response"]["store"]:
                assert await stored(node.url, run_id) == json.loads(raw[-1])["response"]
    return whole


async def stored(url: str, run_id: str) -> dict[str, Any]:
    """The response as a GET gives it."""
    async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
        answer = await http.get(f"{url}/v1/responses/{run_id}")
        assert answer.status_code == 200, answer.text
        response: dict[str, Any] = answer.json()
        return response


async def serves(c: Cluster[Any]) -> None:
    """Every node carries a new run to its end, as soon as it says that it is ready."""
    for node in c.nodes:
        if not node.alive:
            await node.start()
        await ready(node.url)
        async with ws_client(node.ws_url) as client:
            events = await client.run(input="still there")
            assert events[-1]["response"]["status"] == "completed", events[-1].raw


async def ready(url: str, wait_s: float = SETTLES_WITHIN_S) -> None:
    """Wait until a node says that new work is welcome."""
    async with asyncio.timeout(wait_s), httpx2.AsyncClient(timeout=5, trust_env=False) as http:
        while True:
            with contextlib.suppress(httpx2.HTTPError):
                if (await http.get(f"{url}/ready")).status_code == 200:
                    return
            await asyncio.sleep(0.05)


def end_of(events: Sequence[Event]) -> str:
    """`completed`, or the code of the failure."""
    response = events[-1]["response"]
    return str(response["error"]["code"] if response["error"] else response["status"])


async def rest(seconds: float) -> None:
    """The length of a fault: nothing is waited for here."""
    await asyncio.sleep(seconds)
