"""The processes a cluster is made of: started in order, watched, ended in order."""

from __future__ import annotations

import contextlib
import http.client
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.wheels import Account

START_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.05
_LAST_LINES = 12

# Reads pids until the pipe closes, then ends them: with us gone, however we went, nobody else would.
_GUARD = 'pids=; while read -r pid; do pids="$pids $pid"; done; [ -z "$pids" ] || kill -INT $pids 2>/dev/null'


class Failed(Exception):
    """A part did not start; the text says why, with the end of its log."""


@dataclass
class Part:
    """One process.

    name: for people. address: its URL. log: what it says goes there. ready: whether it can be used by now; looks
    once and returns. stop_with: the signal that ends it in order. told: its end has been told to somebody.
    """

    name: str
    address: str
    process: subprocess.Popen[bytes]
    log: Path
    ready: Callable[[], bool]
    stop_with: signal.Signals = signal.SIGTERM
    stop_within_s: float = 30.0
    told: bool = False

    @property
    def ended(self) -> str | None:
        """How it ended, None while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])

    def wait_until_ready(self, stopping: Callable[[], bool]) -> None:
        """Wait until it can be used, or until we are stopping. Raises Failed if it ends, or takes too long."""
        deadline = time.monotonic() + START_WITHIN_S
        while not stopping() and not self.ready():
            if self.ended is not None:
                raise Failed(f"{self.name} {self.ended}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise Failed(f"{self.name} did not answer within {START_WITHIN_S:.0f} s:\n{self.tail()}")
            time.sleep(_LOOK_EVERY_S)

    def ask_to_end(self) -> None:
        """Send the signal that ends it in order."""
        self.process.send_signal(self.stop_with)

    def wait_ended(self, hurried: Callable[[], bool]) -> None:
        """Wait for its end; end it now when that takes longer than `stop_within_s` or we are `hurried`."""
        deadline = time.monotonic() + self.stop_within_s
        while self.process.poll() is None:
            if hurried() or time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
            else:
                time.sleep(_LOOK_EVERY_S)


class Guard:
    """Ends what it was told of when this process is gone without having ended it (kill -9)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD], stdin=subprocess.PIPE, cwd="/", start_new_session=True
        )

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % process.pid)
        self._process.stdin.flush()

    def dismiss(self) -> None:
        """Everything has ended: its numbers may be somebody else's by now."""
        self._process.kill()
        self._process.communicate()


def spawn(
    command: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    account: Account | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that Ctrl-C reaches only us. env: all of it; absent: ours."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd=cwd,
            start_new_session=True,
            **(account or {}),
        )


def answers_200(port: int, path: str) -> bool:
    """Whether a server on 127.0.0.1 answers 200 at a path."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        return connection.getresponse().status == 200
    return False


def free_port(wanted: int | None = None) -> int:
    """A free port of 127.0.0.1: the one wanted, or any below those the system gives to clients."""
    while True:
        port = wanted or random.randrange(12_000, 32_000)
        wanted = None
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
