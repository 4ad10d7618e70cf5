"""What the tests of runs elsewhere share: two nodes in the loop of the test, and clients of each."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.session.held import KEYS, TENANTS
from tests.support.cluster import Cluster, LocalNode, cluster
from tests.support.server import RunningServer

AUTH: dict[str, Any] = {"auth": "required", "key": KEYS, "tenant": TENANTS}
"""Settings with the keys of `tests/session/held.py`."""


@dataclass
class Nodes:
    """here: where runs begin in these tests. there: where the other clients are. folder: for scripts of both."""

    here: RunningServer
    there: RunningServer
    folder: Path
    cluster: Cluster[LocalNode]


@contextlib.asynccontextmanager
async def two_nodes(postgres_url: str, *, lease_s: float = 10.0, **settings: Any) -> AsyncIterator[Nodes]:
    """lease_s: long enough that a busy machine costs no node its runs."""
    async with cluster(postgres_url, lease_s=lease_s, **settings) as running:
        a, b = (RunningServer(node.url, node.app, node.server, node.data_dir) for node in running.nodes)
        yield Nodes(a, b, running.folder, running)


def owns(server: RunningServer, response_id: str) -> bool:
    return server.app.engine.directory.own(response_id) is not None


def participants(server: RunningServer, response_id: str) -> dict[str, dict[str, Any]]:
    """Who the owner knows to be attached, by connection."""
    return {row["connection"]: row for row in server.app.registry.get(response_id).row()["participants"]}
