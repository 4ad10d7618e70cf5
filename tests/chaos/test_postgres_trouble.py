"""PostgreSQL restarted, paused, or full while runs go on: clear errors, and never a false `completed` (G-01)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import httpx2
import pytest

from tests.chaos.rounds import ROUNDS, end_of, nodes_here, rest, serves, settled, stored
from tests.http.calling import until
from tests.session.play import words, write_script
from tests.support import postgres
from tests.support.cluster import Cluster, LocalNode
from tests.support.follower import Follower
from tests.support.postgres import PostgresServer
from tests.support.redis import redis_server
from tests.support.ws_client import ws_client

pytestmark = pytest.mark.chaos

FULL = """
CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$
"""
TABLES = ("responses", "journal", "checkpoints")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as running:
        yield running


@contextlib.asynccontextmanager
async def nodes(server: PostgresServer, **store: float) -> AsyncIterator[Cluster[LocalNode]]:
    with redis_server("valkey") as redis:
        async with nodes_here(await asyncio.to_thread(server.create_database), redis, store=store) as c:
            yield c


async def restarted(server: PostgresServer) -> None:
    await asyncio.to_thread(server.restart)


async def killed(server: PostgresServer) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


async def paused(server: PostgresServer) -> None:
    with server.paused():
        await rest(3.0)


@pytest.mark.parametrize("trouble", [restarted, killed, paused], ids=lambda trouble: trouble.__name__)
async def test_a_store_that_comes_back_within_patience_costs_no_run(
    server: PostgresServer, trouble: Callable[[PostgresServer], Awaitable[None]]
) -> None:
    async with nodes(server, retry_s=30.0, timeout_s=2.0) as c:
        model = write_script(c.folder, "talking", [words(45, rate=30)])
        for _ in range(ROUNDS):
            async with Follower(c.urls) as one, Follower(c.urls) as two:
                await one.create(model)
                await two.create(model)
                async with Follower(lambda: [c.b.ws_url], one.run_id) as far:
                    await far.follow(until=lambda event: event["type"] == "response.output_text.delta")
                    await trouble(server)
                    assert end_of(await settled(c, one, far)) == "completed"
                    assert end_of(await settled(c, two)) == "completed"
            await serves(c)


async def test_a_full_store_fails_runs_aloud_and_their_rows_say_so_when_there_is_room_again(
    server: PostgresServer,
) -> None:
    async with nodes(server, retry_s=1.0) as c:
        model = write_script(c.folder, "talking", [words(45, rate=30)])
        for _ in range(ROUNDS):
            async with Follower(c.urls) as client:
                run_id = await client.create(model)
                await client.follow(until=lambda event: event["type"] == "response.output_text.delta")
                with full(c.postgres_url):
                    events = await client.follow()
                    assert end_of(events) == "storage_unavailable"
                    client.checked()
                    for node in c.nodes:
                        assert await _status(node.url, run_id) != "completed"
                    await _refuses(c.a)
                await until(partial(_row_says, c.postgres_url, run_id, "failed"), 15)
                await settled(c, client)
            await serves(c)


@contextlib.contextmanager
def full(url: str) -> Iterator[None]:
    """No row of a run is taken: what a full disk does, without filling one."""
    postgres.execute(url, FULL)
    for table in TABLES:
        trigger = f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION refuse()"
        postgres.execute(url, trigger)
    try:
        yield
    finally:
        for table in TABLES:
            postgres.execute(url, f"DROP TRIGGER refuse ON {table}")


def _row_says(url: str, run_id: str, status: str) -> bool:
    return bool(postgres.execute(url, "SELECT status FROM responses WHERE id = %s", run_id)[0][0] == status)


async def _status(url: str, run_id: str) -> str:
    return str((await stored(url, run_id))["status"])


async def _refuses(node: LocalNode) -> None:
    """New work that has to be kept is refused with a clear error, and meanwhile readiness tells."""
    async with httpx2.AsyncClient(timeout=20, trust_env=False) as http:
        body = {"model": "antiphon/echo", "input": "x", "background": True}
        asking = asyncio.create_task(http.post(f"{node.url}/v1/responses", json=body))

        async def not_ready() -> bool:
            return (await http.get(f"{node.url}/ready")).status_code == 503

        await until(not_ready)
        answer = await asking
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_unavailable"), answer.text


async def test_without_a_store_unstored_runs_go_on(server: PostgresServer) -> None:
    async with nodes(server, retry_s=30.0) as c, ws_client(c.a.ws_url) as client:
        with server.paused():
            events = await client.run(input="no store needed", store=False)
            assert end_of(events) == "completed"
        await serves(c)
