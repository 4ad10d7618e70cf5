"""What an operator reads when a node cannot join: one line that says what to change, and never a password."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.bus.redis import keys
from antiphon.bus.redis.address import parse_address
from antiphon.errors import StartupError
from tests.bus.nodes import LEASE_S, eventually, redis_node, started
from tests.support.redis import RedisServer, engines, free_port, redis_server
from tests.support.resp_server import RespServer, bulk


async def refused(url: str, **settings: Any) -> str:
    """The message with which a node does not start."""
    node = redis_node(url, "n1", **settings)
    with pytest.raises(StartupError) as caught:
        await asyncio.wait_for(node.bus.start(), 10)
    assert "\n" not in caught.value.message
    assert "hunter2" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:6379", "begins with 'http'"),
        ("127.0.0.1:6379", "begins with"),
        ("redis://", "names no host"),
        ("redis://:hunter2@", "names no host"),
        ("redis://127.0.0.1:port", "host:port"),
        ("redis://127.0.0.1:99999", "host:port"),
        ("redis://a:1,b:2", "several hosts"),
        ("redis://:hunter2@127.0.0.1/zero", "it is a number"),
        ("redis://127.0.0.1/0/1", "it is a number"),
        ("redis://127.0.0.1?timeout=3", "unknown option 'timeout'"),
        ("rediss://127.0.0.1?ssl_cert_reqs=maybe", "required or none"),
        ("redis+sentinel://127.0.0.1:26379", "names no service"),
    ],
)
def test_a_url_that_cannot_work_is_refused_before_anything_is_asked(url: str, why: str) -> None:
    with pytest.raises(StartupError) as caught:
        parse_address(url)
    assert why in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "hosts", "service", "db", "text"),
    [
        ("redis://cache", (("cache", 6379),), None, 0, "redis://cache:6379"),
        ("redis://:p%40ss@cache:7000/2", (("cache", 7000),), None, 2, "redis://cache:7000/2"),
        ("rediss://user:p%40ss@[::1]:7000", (("::1", 7000),), None, 0, "rediss://[::1]:7000"),
        (
            "redis+sentinel://:p%40ss@a,b:2/main/3",
            (("a", 26379), ("b", 2)),
            "main",
            3,
            "redis+sentinel://a:26379,b:2/main/3",
        ),
    ],
)
def test_what_a_url_says(url: str, hosts: object, service: str | None, db: int, text: str) -> None:
    address = parse_address(url)
    assert (address.hosts, address.service, address.db, str(address)) == (hosts, service, db, text)
    assert address.password == ("p@ss" if "p%40ss" in url else None)


async def test_nobody_listens_there() -> None:
    port = free_port()
    message = await refused(f"redis://:hunter2@127.0.0.1:{port}")
    assert f"redis://127.0.0.1:{port} cannot be reached" in message


async def test_the_host_has_no_address() -> None:
    assert "cannot be reached" in await refused("redis://no-such-host.invalid:6379")


async def test_the_password_is_wrong() -> None:
    for engine in engines():
        with redis_server(engine, options={"requirepass": "right"}) as server:
            message = await refused(f"redis://:hunter2@127.0.0.1:{server.port}")
            assert "does not take our credentials (the password in bus_url)" in message
            message = await refused(f"redis://127.0.0.1:{server.port}")
            assert "does not take our credentials (bus_url has no password)" in message


async def test_the_right_password_is_taken() -> None:
    with redis_server("valkey", options={"requirepass": "hunter2"}) as server:
        node = redis_node(server.url, "n1")
        async with started(node):
            assert node.bus.held


async def test_the_server_speaks_no_tls(server: RedisServer) -> None:
    message = await refused(f"rediss://127.0.0.1:{server.port}", command_timeout_s=0.5)
    assert "does not answer" in message and "perhaps it speaks no TLS (redis://)" in message


async def test_something_else_than_redis_speaks_no_tls_either() -> None:
    async with RespServer(lambda command: b"", greeting=b"220 mail.example\r\n") as other:
        assert "over TLS" in await refused(f"rediss://127.0.0.1:{other.port}")


async def test_there_is_no_such_database(server: RedisServer) -> None:
    assert "refuses us: DB index is out of range" in await refused(f"redis://127.0.0.1:{server.port}/99")


async def test_something_else_listens_there() -> None:
    async with RespServer(lambda command: b"HTTP/1.1 400 Bad Request\r\n\r\n") as other:
        assert "does not speak the protocol of Redis" in await refused(f"redis://127.0.0.1:{other.port}")


async def test_it_accepts_and_never_answers() -> None:
    async with RespServer(lambda command: b"") as silent:
        message = await refused(f"redis://127.0.0.1:{silent.port}", command_timeout_s=0.3)
    assert "does not answer" in message


@pytest.mark.parametrize("version", ["5.0.7", "6.0.16"])
async def test_an_old_redis_is_refused_by_its_version(version: str) -> None:
    async with RespServer(about(f"redis_version:{version}")) as old:
        message = await refused(f"redis://127.0.0.1:{old.port}")
    assert f"is Redis {version}; 6.2 is the oldest that works" in message


async def test_a_redis_that_loads_its_data_is_waited_for_and_then_named() -> None:
    loading = b"-LOADING Redis is loading the dataset in memory\r\n"
    async with RespServer(lambda command: b"+OK\r\n" if command[0] == b"CLIENT" else loading) as server:
        message = await refused(f"redis://127.0.0.1:{server.port}", command_timeout_s=3)
        assert "still loading its data" in message
        assert len(server.commands) > 4, "it was asked again"


async def test_every_sentinel_is_away_or_knows_nothing() -> None:
    assert "no sentinel names a master" in await refused(f"redis+sentinel://127.0.0.1:{free_port()}/main")
    async with RespServer(lambda command: b"*-1\r\n") as sentinel:
        message = await refused(f"redis+sentinel://127.0.0.1:{sentinel.port}/main")
    assert "does not know the service 'main'" in message


def about(line: str) -> Callable[[list[bytes]], bytes]:
    def answer(command: list[bytes]) -> bytes:
        return bulk(f"# Server\r\n{line}\r\n".encode()) if command[0] == b"INFO" else b"+OK\r\n"

    return answer


async def test_a_node_with_other_settings_is_told_which_and_what_the_others_have(server: RedisServer) -> None:
    one = redis_node(server.url, "n1", {"journal.mode": "relaxed"})
    two = redis_node(server.url, "n2", {"journal.mode": "strict"})
    three = redis_node(server.url, "n3", {"journal.mode": "relaxed"}, lease_s=7)
    async with started(one):
        with pytest.raises(StartupError, match=r"journal\.mode is strict here and relaxed on the nodes that run"):
            await two.bus.start()
        with pytest.raises(StartupError, match=r"bus\.lease_s is 7 here and 1 on the nodes"):
            await three.bus.start()
        assert await one.bus.alive() == {"n1"}
        assert server.command("SMEMBERS", keys.NODES) == {b"n1"}, "who did not start left nothing behind"
        assert not one.gone


async def test_settings_may_change_when_no_node_runs(server: RedisServer) -> None:
    async with started(redis_node(server.url, "n1", {"journal.mode": "relaxed"})):
        pass
    async with started(redis_node(server.url, "n2", {"journal.mode": "strict"})):
        assert server.command("HGET", keys.CLUSTER, "journal.mode") == b"strict"


async def test_a_setting_only_one_release_knows_keeps_nobody_out(server: RedisServer) -> None:
    old = redis_node(server.url, "n1", {"journal.mode": "relaxed"})
    new = redis_node(server.url, "n2", {"journal.mode": "relaxed", "new.thing": "1"})
    async with started(old, new):
        assert await old.bus.alive() == {"n1", "n2"}


async def test_of_two_that_start_at_once_with_different_settings_at_most_one_stays(valkey: RedisServer) -> None:
    nodes = [redis_node(valkey.url, f"n{mode}", {"journal.mode": mode}) for mode in ("relaxed", "strict")]
    results = await asyncio.gather(*(node.bus.start() for node in nodes), return_exceptions=True)
    refused = [result for result in results if isinstance(result, StartupError)]
    assert len(refused) >= 1
    await asyncio.gather(*(node.bus.stop() for node in nodes))


async def test_a_node_that_starts_after_all_others_died_waits_before_it_takes_their_runs(
    server: RedisServer,
) -> None:
    """Their leases may be missing because Redis was restarted, not because they are dead."""
    one = redis_node(server.url, "n1")
    async with started(one):
        pass
    two = redis_node(server.url, "n2")
    async with started(two):
        began = asyncio.get_running_loop().time()
        await eventually(lambda: two.gone)
        assert two.gone[0] == {"n1"}
        assert asyncio.get_running_loop().time() - began >= LEASE_S * 0.9
