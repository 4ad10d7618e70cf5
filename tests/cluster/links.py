"""Two nodes whose links to Redis and PostgreSQL go through relays, so that a test may slow or cut one of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.support.cluster import Cluster, LocalNode, cluster, cluster_settings
from tests.support.redis import redis_server
from tests.support.relay import Relay


@dataclass
class Linked(Cluster[LocalNode]):
    """to_redis, to_postgres: the links of the nodes, in their order."""

    to_redis: list[Relay]
    to_postgres: list[Relay]


@contextlib.asynccontextmanager
async def linked(postgres_url: str, *, lease_s: float = 10.0, **settings: Any) -> AsyncIterator[Linked]:
    """lease_s: long enough that a slow link costs no node its runs. settings: fields of Settings."""
    async with contextlib.AsyncExitStack() as stack:
        redis = stack.enter_context(redis_server("valkey"))
        database = urlsplit(postgres_url)
        assert database.port is not None
        to_redis = [await stack.enter_async_context(Relay("127.0.0.1", redis.port)) for _ in range(2)]
        to_postgres = [await stack.enter_async_context(Relay("127.0.0.1", database.port)) for _ in range(2)]
        plain = await stack.enter_async_context(cluster(postgres_url, nodes=0, redis=redis))
        nodes = []
        for name, bus, store in zip("ab", to_redis, to_postgres, strict=True):
            bus_url = f"redis://127.0.0.1:{bus.port}/0"
            store_url = postgres_url.replace(f":{database.port}/", f":{store.port}/")
            folder = plain.folder / name
            folder.mkdir()
            (folder / "scripts").symlink_to(plain.folder / "scripts")
            node = LocalNode(name, folder, cluster_settings(bus_url, store_url, lease_s=lease_s, **settings))
            stack.push_async_callback(node.end)
            await node.start()
            nodes.append(node)
        yield Linked(redis, postgres_url, plain.folder, nodes, to_redis, to_postgres)


def in_front_of(node: LocalNode) -> Relay:
    """A relay for clients of a node."""
    return Relay("127.0.0.1", urlsplit(node.url).port or 0)


def through(relay: Relay) -> str:
    """The WebSocket URL of the node behind a relay."""
    return f"ws://127.0.0.1:{relay.port}/v1/responses"
