"""What stays in Redis and in PostgreSQL, and for how long (PROTOCOL 9; field issue U-11)."""

from __future__ import annotations

from typing import Any

import httpx2

from antiphon.bus.redis.keys import run_log, run_meta
from tests.http.calling import until
from tests.session.play import connected, log_bytes, response_id, words, write_script
from tests.support import postgres
from tests.support.cluster import cluster
from tests.support.follower import read_whole
from tests.support.redis import RedisServer
from tests.support.ws_client import ws_client


def keys_of(server: RedisServer, run_id: str) -> list[bytes]:
    return [key for key in (run_meta(run_id), run_log(run_id)) if server.command("EXISTS", key)]


def stored(url: str, run_id: str) -> tuple[int, int]:
    """How many rows of its log and of itself PostgreSQL has."""
    chunks = postgres.execute(url, "SELECT count(*) FROM journal WHERE run_id = %s", run_id)[0][0]
    return chunks, postgres.execute(url, "SELECT count(*) FROM responses WHERE id = %s", run_id)[0][0]


async def test_the_log_of_an_ended_run_moves_to_the_store_and_is_read_from_there_by_every_node(
    postgres_url: str,
) -> None:
    async with cluster(postgres_url, bus={"linger_s": 0.3}) as c, connected(c.a.ws_url) as owner:
        model = write_script(c.folder, "much", [words(300, text="w{n} " + "x" * 500)])
        live = await owner.run(model, wait_s=40)
        run_id = response_id(live)
        await until(lambda: not keys_of(c.redis, run_id))
        assert stored(postgres_url, run_id)[0] > 0
        for node in c.nodes:
            assert await read_whole(node.ws_url, run_id) == log_bytes(live)


async def test_an_unstored_run_leaves_nothing_in_the_store_and_is_gone_from_redis_after_its_grace(
    postgres_url: str,
) -> None:
    async with (
        cluster(postgres_url, store={"grace_s": 1.0}) as c,
        connected(c.a.ws_url) as owner,
        connected(c.b.ws_url) as other,
    ):
        await other.hello()
        live = await owner.run(input="do not keep this", store=False)
        run_id = response_id(live)
        assert await read_whole(c.b.ws_url, run_id) == log_bytes(live)
        await until(lambda: not keys_of(c.redis, run_id))
        gone = await other.command("antiphon:attach", response_id=run_id)
        assert gone["code"] == "response_not_found"
        assert stored(postgres_url, run_id) == (0, 0)
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            assert (await http.get(f"{c.b.url}/v1/responses/{run_id}")).status_code == 404


async def test_no_key_is_without_an_expiry_and_no_channel_without_a_reader(postgres_url: str) -> None:
    async with cluster(postgres_url, bus={"linger_s": 0.5}, store={"grace_s": 0.5}) as c:
        baseline = _channels(c.redis)
        for n in range(60):
            async with ws_client(c.nodes[n % 2].ws_url) as short:
                await short.create(input=str(n), store=n % 3 > 0)
                created = await short.recv_on()
                if n % 5 == 0:
                    async with ws_client(c.nodes[(n + 1) % 2].ws_url) as other:
                        await other.hello()
                        await other.attach(created["response"]["id"])
        await until(lambda: not _run_keys(c.redis), 20)
        await until(lambda: _channels(c.redis) == baseline)
        every = c.redis.command("KEYS", "antiphon:*")
        assert every
        assert [key for key in every if c.redis.command("PTTL", key) == -1] == []
        assert len(c.redis.connections()) < 40


def _run_keys(server: RedisServer) -> list[Any]:
    return list(server.command("KEYS", "antiphon:v1:run:*"))


def _channels(server: RedisServer) -> set[Any]:
    return {*server.command("PUBSUB", "CHANNELS"), *server.command("PUBSUB", "SHARDCHANNELS")}
