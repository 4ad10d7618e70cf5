"""Redis Sentinel for tests: real ones, and scripted ones that say exactly what a test wants, when it wants it.

async with scripted_sentinels("main", first) as sentinels:
    ... sentinels.url ...              # redis+sentinel://127.0.0.1:...,127.0.0.1:.../main
    promote(second, instead_of=first)
    sentinels.name(second)

with real_sentinels("main", first, engine="valkey") as sentinels:
    sentinels.fail_over()
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import redis

from tests.support.redis import Engine, RedisServer, binary, running
from tests.support.resp_server import RespServer, array, bulk

FAIL_OVER_WITHIN_S = 30.0


class ScriptedSentinels:
    """Several sentinels that name a master, each what it was told to."""

    def __init__(self, service: str, servers: Sequence[RespServer]) -> None:
        self._service = service
        self.servers = servers
        self._named: dict[int, RedisServer | None] = {}

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"redis+sentinel://{hosts}/{self._service}"

    def name(self, master: RedisServer | None, *, by: Sequence[int] | None = None) -> None:
        """From here on these sentinels (all of them) name this server, or know of none."""
        for index in range(len(self.servers)) if by is None else by:
            self._named[index] = master

    def answer(self, index: int, command: list[bytes]) -> bytes:
        if [part.upper() for part in command[:2]] != [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME"]:
            return b"-ERR unknown command\r\n"
        master = self._named.get(index)
        if master is None or command[2].decode() != self._service:
            return b"*-1\r\n"
        return array([bulk(b"127.0.0.1"), bulk(b"%d" % master.port)])


@contextlib.asynccontextmanager
async def scripted_sentinels(
    service: str, master: RedisServer, count: int = 3
) -> AsyncIterator[ScriptedSentinels]:
    """Sentinels that all name this master at first."""
    async with contextlib.AsyncExitStack() as stack:
        servers: list[RespServer] = []
        sentinels = ScriptedSentinels(service, servers)
        for index in range(count):
            server = RespServer(lambda command, index=index: sentinels.answer(index, command))  # type: ignore[misc]
            servers.append(await stack.enter_async_context(server))
        sentinels.name(master)
        yield sentinels


def promote(server: RedisServer, *, instead_of: RedisServer | None) -> None:
    """Make a replica the master; the old one, if it still runs, becomes its replica and stays reachable."""
    server.command("REPLICAOF", "NO", "ONE")
    if instead_of is not None:
        instead_of.command("REPLICAOF", "127.0.0.1", server.port)


def wait_in_step(replica: RedisServer, within_s: float = 40.0) -> None:
    """Until the replica has loaded everything and follows its master."""
    deadline = time.monotonic() + within_s
    while replica.command("ROLE")[3] != b"connected":
        assert time.monotonic() < deadline, f"the replica does not follow:\n{replica.log}"
        time.sleep(0.01)


class RealSentinels:
    """Sentinel processes that watch one master."""

    def __init__(self, service: str, servers: Sequence[RedisServer]) -> None:
        self._service = service
        self._servers = servers

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in self._servers)
        return f"redis+sentinel://{hosts}/{self._service}"

    def master_port(self) -> int:
        """What the first one names."""
        found = self._servers[0].command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        return int(found[1])

    def fail_over(self) -> None:
        """Have the replica promoted now, whether or not the master is well; returns when it is."""
        before = self.master_port()
        deadline = time.monotonic() + FAIL_OVER_WITHIN_S
        while True:
            try:
                self._servers[0].command("SENTINEL", "FAILOVER", self._service)
                break
            except redis.ResponseError:  # it has not found the replica yet
                assert time.monotonic() < deadline, self._servers[0].log
                time.sleep(0.05)
        while self.master_port() == before:
            assert time.monotonic() < deadline, self._servers[0].log
            time.sleep(0.05)


@contextlib.contextmanager
def real_sentinels(
    service: str, master: RedisServer, *, engine: Engine = "valkey", count: int = 1, down_after_ms: int = 1000
) -> Iterator[RealSentinels]:
    """Sentinels that agree by majority."""
    executable = binary(engine)
    assert executable is not None
    quorum = count // 2 + 1
    options = {
        f"sentinel monitor {service}": f"127.0.0.1 {master.port} {quorum}",
        f"sentinel down-after-milliseconds {service}": str(down_after_ms),
        f"sentinel failover-timeout {service}": "5000",
    }
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(running(executable, options, sentinel=True)) for _ in range(count)]
        yield RealSentinels(service, servers)
