"""Several nodes over one Redis and one PostgreSQL: in this loop, or as processes that can be killed and paused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from antiphon.app import Antiphon
from antiphon.bus.redis.keys import run_meta
from antiphon.server import AntiphonServer
from tests.support.redis import Engine, RedisServer, redis_server
from tests.support.server import ServerProcess, test_settings

ROOT = Path(__file__).parents[2]
NAMES = "abcdef"
STOP_WITHIN_S = 40.0


class LocalNode:
    """A node in the loop of the test. data_dir is kept over restarts; its port is not."""

    def __init__(self, name: str, data_dir: Path, settings: dict[str, Any]) -> None:
        self.name = name
        self.data_dir = data_dir
        self.settings = settings
        self._server: AntiphonServer | None = None

    @property
    def alive(self) -> bool:
        return self._server is not None

    @property
    def server(self) -> AntiphonServer:
        assert self._server is not None, f"node {self.name} is not running"
        return self._server

    @property
    def app(self) -> Antiphon:
        return self.server.app

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def ws_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/v1/responses"

    async def start(self) -> None:
        """Raises StartupError."""
        server = AntiphonServer(Antiphon(test_settings(self.data_dir, **self.settings)))
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        listener.setblocking(False)
        await server.start(listener)
        self._server = server

    async def stop(self) -> int:
        """Drain and stop, as SIGTERM does."""
        server, self._server = self.server, None
        async with asyncio.timeout(STOP_WITHIN_S):
            await server.stop()
        return 0

    async def end(self) -> None:
        """Stop it without a drain, if it runs."""
        if self._server is not None:
            server, self._server = self._server, None
            async with asyncio.timeout(STOP_WITHIN_S):
                await server.abort()


class ProcessNode:
    """A node as a process of its own."""

    def __init__(self, name: str, data_dir: Path, settings: dict[str, Any]) -> None:
        self.name = name
        self.data_dir = data_dir
        self._within: Sequence[str] = settings.pop("within", ())
        """What goes before its command, such as `ip netns exec name`."""
        self._env = environment(settings)
        self._process: ServerProcess | None = None
        self._paused = False
        self.leaving = False
        """Set by a test that stops it: clients try it no more, as behind a load balancer."""

    @property
    def alive(self) -> bool:
        """Whether clients should try it: it runs, is not paused and does not leave."""
        return self._process is not None and not self._paused and not self.leaving

    @property
    def process(self) -> ServerProcess:
        assert self._process is not None, f"node {self.name} is not running"
        return self._process

    @property
    def url(self) -> str:
        return self.process.url

    @property
    def ws_url(self) -> str:
        return self.process.ws_url

    @property
    def log(self) -> str:
        """What it said, over all its lives."""
        return (self.data_dir / "server.log").read_text(errors="replace")

    async def start(self) -> None:
        """Raises AssertionError with its log if it does not."""
        process = ServerProcess(self.data_dir, self._env, self._within)
        try:
            await process.start()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.signal(signal.SIGKILL)
            await process.wait()
            raise
        self._process, self._paused, self.leaving = process, False, False

    async def stop(self) -> int:
        """SIGTERM and its end; the exit status."""
        self.process.signal(signal.SIGTERM)
        status = await self.process.wait(STOP_WITHIN_S)
        self._process = None
        return status

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        process = self.process
        self._process = None
        await process.kill()

    def pause(self) -> None:
        """SIGSTOP: its sockets stay open and it does nothing."""
        self._paused = True
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.signal(signal.SIGCONT)
        self._paused = False

    async def end(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is not None:
            await self.kill()


NodeT = TypeVar("NodeT", LocalNode, ProcessNode)


@dataclass
class Cluster(Generic[NodeT]):
    """folder: what stands in its `scripts/` is there on every node."""

    redis: RedisServer
    postgres_url: str
    folder: Path
    nodes: list[NodeT]

    @property
    def a(self) -> NodeT:
        return self.nodes[0]

    @property
    def b(self) -> NodeT:
        return self.nodes[1]

    def urls(self) -> Sequence[str]:
        """WebSocket URLs of the nodes that clients should try."""
        return [node.ws_url for node in self.nodes if node.alive]


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """Settings as the variables of a process; its timeouts are those of `test_settings`."""
    short = {
        "timeouts": {"drain_s": 2.0},
        "retry": {"base_ms": 1.0, "retry_after_max_s": 0.0},
        "log_level": "warning",
    }
    merged = {**short, **settings}
    for table in ("timeouts", "retry"):
        merged[table] = {**short[table], **settings.get(table, {})}  # type: ignore[dict-item]
    values = {
        f"ANTIPHON_{key.upper()}": value if isinstance(value, str) else json.dumps(value)
        for key, value in merged.items()
    }
    return {**values, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def cluster_settings(bus_url: str, store_url: str, *, lease_s: float = 1.0, **settings: Any) -> dict[str, Any]:
    """Settings of one node of a cluster."""
    bus = {"lease_s": lease_s, **settings.pop("bus", {})}
    return {"bus_url": bus_url, "store_url": store_url, "bus": bus, **settings}


async def waits_durably(redis: RedisServer, run_id: str, wait_s: float = 40.0) -> None:
    """Wait until a node that finds its owner dead would go on waiting: a state is told a moment before that."""
    async with asyncio.timeout(wait_s):
        while redis.command("HGET", run_meta(run_id), "cph") is None:  # noqa: ASYNC110 (Redis tells nobody)
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def cluster(
    postgres_url: str,
    nodes: int = 2,
    *,
    engine: Engine = "valkey",
    redis: RedisServer | None = None,
    bus_url: str | None = None,
    **settings: Any,
) -> AsyncIterator[Cluster[LocalNode]]:
    """Nodes in this loop. redis: a running one instead of a new one of `engine`. settings: fields of Settings."""
    async with _cluster(LocalNode, postgres_url, nodes, engine, redis, bus_url, settings, {}) as running:
        yield running


@contextlib.asynccontextmanager
async def process_cluster(
    postgres_url: str,
    nodes: int = 2,
    *,
    engine: Engine = "valkey",
    redis: RedisServer | None = None,
    bus_url: str | None = None,
    each: Mapping[str, dict[str, Any]] | None = None,
    **settings: Any,
) -> AsyncIterator[Cluster[ProcessNode]]:
    """Nodes as processes. Their logs are shown if the block fails. each: what single nodes have in another way."""
    async with _cluster(ProcessNode, postgres_url, nodes, engine, redis, bus_url, settings, each or {}) as running:
        try:
            yield running
        except BaseException:
            for node in running.nodes:
                print(f"--- log of node {node.name}\n{node.log[-20_000:]}")
            raise


@contextlib.asynccontextmanager
async def _cluster(
    kind: Callable[[str, Path, dict[str, Any]], NodeT],
    postgres_url: str,
    count: int,
    engine: Engine,
    redis: RedisServer | None,
    bus_url: str | None,
    settings: dict[str, Any],
    each: Mapping[str, dict[str, Any]],
) -> AsyncIterator[Cluster[NodeT]]:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-cluster-")))
        (folder / "scripts").mkdir()
        server = redis or stack.enter_context(redis_server(engine))
        given = cluster_settings(bus_url or server.url, postgres_url, **settings)
        nodes = []
        for name in NAMES[:count]:
            (folder / name).mkdir()
            (folder / name / "scripts").symlink_to(folder / "scripts")
            node = kind(name, folder / name, {**given, **each.get(name, {})})
            stack.push_async_callback(node.end)
            nodes.append(node)
        async with asyncio.TaskGroup() as starting:
            for node in nodes:
                starting.create_task(node.start())
        yield Cluster(server, postgres_url, folder, nodes)
