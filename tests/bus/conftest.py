"""The kinds of bus that the contract suite runs on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.bus.nodes import Cluster, MemoryCluster, RedisCluster
from tests.support.redis import RedisServer, engines, redis_server


@pytest.fixture(params=["memory", *engines()])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """Nodes on a bus of each kind; all of them are stopped at the end."""
    with contextlib.ExitStack() as stack:
        if request.param == "memory":
            memory = MemoryCluster()
            yield memory
            await asyncio.gather(*(node.bus.stop() for node in memory.nodes))
        else:
            redis = RedisCluster(stack.enter_context(redis_server(request.param)))
            yield redis
            for node in redis.nodes:
                redis.restore(node)
            await asyncio.gather(*(node.bus.stop() for node in redis.nodes))
            await redis.aclose()


@pytest.fixture(params=engines())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """An empty server of each engine."""
    with redis_server(request.param) as running:
        yield running


@pytest.fixture
def valkey() -> Iterator[RedisServer]:
    """One server, where the engine makes no difference."""
    with redis_server("valkey") as running:
        yield running
