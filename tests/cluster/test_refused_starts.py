"""A node that cannot be part of the cluster says why in one line and does not start (issue 4, bad input)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import antiphon
from tests.support.cluster import cluster
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer, free_port, redis_server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server("valkey", options={"requirepass": "open-sesame"}) as server:
        yield server


async def refused(home: Path, bus_url: str, store_url: str, **settings: Any) -> str:
    """Start a node that must not start; its one line, without a password in it."""
    env = {"ANTIPHON_BUS_URL": bus_url, "ANTIPHON_STORE_URL": store_url, "ANTIPHON_BUS": '{"lease_s": 1}'}
    env |= {f"ANTIPHON_{key.upper()}": json.dumps(value) for key, value in settings.items()}
    done = await antiphon(home, "serve", "--port", "0", "--data-dir", str(home / "data"), env=env)
    assert done.status == 2, done.out + done.err
    lines = [line for line in done.err.splitlines() if line.strip()]
    assert len(lines) == 1 or lines[0].endswith("not valid:"), done.err
    assert "Traceback" not in done.err
    assert "sesame" not in done.err and "wrongsecret" not in done.err and "pass/word" not in done.err
    return done.words


@pytest.mark.parametrize(
    ("bus_url", "store_url", "word"),
    [
        ("redis://127.0.0.1:1/0", "", "postgresql"),
        ("memory://", "postgresql://u@127.0.0.1/x", "redis"),
        ("amqp://127.0.0.1", "postgresql://u@127.0.0.1/x", "redis"),
        ("redis://127.0.0.1:1/0", "mysql://u@127.0.0.1/x", "postgresql"),
        ("redis+sentinel://127.0.0.1:1", "postgresql://u@127.0.0.1/x", "sentinel"),
    ],
)
async def test_pairs_and_urls_that_make_no_cluster(
    tmp_path: Path, bus_url: str, store_url: str, word: str
) -> None:
    assert word in (await refused(tmp_path, bus_url, store_url)).lower()


async def test_no_server_a_wrong_password_and_a_database_that_is_not_there(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, redis: RedisServer
) -> None:
    assert str(redis.port) in await refused(tmp_path, redis.url.replace("sesame", "wrongsecret"), postgres_url)
    nobody = free_port()
    assert str(nobody) in await refused(tmp_path, f"redis://127.0.0.1:{nobody}/0", postgres_url)
    assert str(nobody) in await refused(tmp_path, redis.url, f"postgresql://u:wrongsecret@127.0.0.1:{nobody}/x")
    missing = postgres_server.url("nowhere")
    assert "nowhere" in await refused(tmp_path, redis.url, missing)
    wrong = postgres_server.url("postgres", password="wrongsecret")
    assert "password" in await refused(tmp_path, redis.url, wrong)


async def test_settings_on_which_the_nodes_must_agree(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, redis: RedisServer
) -> None:
    async with cluster(postgres_url, nodes=1, redis=redis):
        line = await refused(tmp_path, redis.url, postgres_url, journal={"mode": "strict"})
        assert "relaxed" in line and "strict" in line
        line = await refused(tmp_path, redis.url, postgres_url, bus={"lease_s": 3})
        assert "lease" in line and "3" in line
        line = await refused(tmp_path, redis.url, postgres_url, seal_key="another key for sealing, long enough")
        assert "seal_key" in line and "another key" not in line
        other = postgres_server.create_database()
        try:
            assert "store" in await refused(tmp_path, redis.url, other)
        finally:
            postgres_server.drop_database(other)


async def test_doctor_looks_at_redis_as_a_start_does(
    tmp_path: Path, postgres_url: str, redis: RedisServer
) -> None:
    nobody = free_port()
    for bus_url, status, words in (
        (redis.url, 0, ("Valkey", "noeviction")),
        (f"redis://127.0.0.1:{nobody}/0", 1, (str(nobody),)),
        (redis.url.replace("sesame", "wrongsecret"), 1, (str(redis.port), "password")),
    ):
        env = {"ANTIPHON_BUS_URL": bus_url, "ANTIPHON_STORE_URL": postgres_url, "ANTIPHON_PORT": str(free_port())}
        await antiphon(tmp_path, "migrate", env=env)
        done = await antiphon(tmp_path, "doctor", "--data-dir", str(tmp_path / "data"), env=env)
        assert done.status == status, done.out + done.err
        assert all(word in done.out for word in words), done.out
        assert "wrongsecret" not in done.out and "sesame" not in done.out
