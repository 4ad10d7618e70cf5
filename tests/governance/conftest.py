"""The ledger's contract is tested on every kind of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.redis import RedisServer, engines, redis_server


@pytest.fixture(params=["memory", *engines()])
def shared(request: pytest.FixtureRequest) -> Iterator[RedisServer | None]:
    """None for one machine, else the Redis that several nodes share."""
    if request.param == "memory":
        yield None
        return
    with redis_server(request.param) as server:
        yield server


@pytest.fixture
def valkey() -> Iterator[RedisServer]:
    """One server, where the engine makes no difference."""
    with redis_server("valkey") as server:
        yield server
