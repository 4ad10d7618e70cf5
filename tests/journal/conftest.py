"""Redis servers and databases of a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.journal.logs import Node, node
from tests.store.database import Database, database
from tests.support.redis import RedisServer, redis_server


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server("valkey") as running:
        yield running


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    """What the store's contract says holds for both engines: here the quick one stands for PostgreSQL."""
    async with database(tmp_path) as opened:
        yield opened


@pytest.fixture
async def one(server: RedisServer, db: Database) -> AsyncIterator[Node]:
    async with node(server, db, "node1") as made:
        yield made


@pytest.fixture
async def two(server: RedisServer, db: Database) -> AsyncIterator[Node]:
    async with node(server, db, "node2") as made:
        yield made
