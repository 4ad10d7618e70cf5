"""Children of the supervisor: started, restarted with growing waits, ended in order, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

log = structlog.get_logger(__name__)

_LOOK_S = 0.05
_RESTART_S = (0.5, 30.0)
"""First and longest wait before a child that ended by itself is started again; it doubles."""

_STEADY_S = 60.0
"""Who ran so long is started again without a long wait."""

# Reads pids until the pipe closes, then ends them: with us gone, however we went, nobody else would.
_GUARD = """
while read -r sign pid; do
  case $sign in
    +) pids="$pids $pid " ;;
    -) pids="${pids%% $pid *} ${pids#* $pid }" ;;
  esac
done
for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
"""


class Guard:
    """Kills the children when this process is gone without having ended them (kill -9)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD], stdin=subprocess.PIPE, cwd="/", start_new_session=True
        )

    def watch(self, pid: int) -> None:
        self._say(b"+ %d\n" % pid)

    def forget(self, pid: int) -> None:
        """It has ended: its number may be somebody else's by now."""
        self._say(b"- %d\n" % pid)

    def dismiss(self) -> None:
        """Every child has ended."""
        self._process.kill()
        self._process.communicate()

    def _say(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()


@dataclass(frozen=True, slots=True)
class Program:
    """What is run. given: to its standard input. passed: file descriptors that it inherits."""

    command: Sequence[str]
    env: dict[str, str]
    given: bytes = b""
    passed: tuple[int, ...] = ()


class Child:
    """One program that is kept running. name: for people."""

    def __init__(self, name: str, program: Callable[[], Program], guard: Guard) -> None:
        self.name = name
        self._program = program
        self._guard = guard
        self._process: subprocess.Popen[bytes] | None = None
        self._began_at = 0.0
        self._start_at = 0.0
        self._wait_s = _RESTART_S[0]

    def start(self) -> None:
        """Start it, in a session of its own, so that Ctrl-C reaches only the supervisor."""
        program = self._program()
        self._process = subprocess.Popen(
            program.command,
            stdin=subprocess.PIPE,
            env=program.env,
            pass_fds=program.passed,
            start_new_session=True,
        )
        self._guard.watch(self._process.pid)
        self._began_at = time.monotonic()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(program.given)
            self._process.stdin.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def status(self) -> int | None:
        """How it ended, None while it runs."""
        return self._process.poll() if self._process is not None else 0

    def keep(self) -> bool:
        """Start it again, in time, if it has ended by itself; whether it was."""
        if self._process is not None and (status := self._process.poll()) is not None:
            self._guard.forget(self._process.pid)
            self._process = None
            now = time.monotonic()
            if now - self._began_at > _STEADY_S:
                self._wait_s = _RESTART_S[0]
            self._start_at, wait_s = now + self._wait_s, self._wait_s
            self._wait_s = min(2 * self._wait_s, _RESTART_S[1])
            log.error("child_ended", child=self.name, status=status, starts_again_in_s=wait_s)
        if self._process is None and time.monotonic() >= self._start_at:
            self.start()
            log.info("child_started", child=self.name, pid=self.pid)
            return True
        return False

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, within_s: float) -> None:
        """Wait for its end; kill it when that takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(max(within_s, _LOOK_S))
        except subprocess.TimeoutExpired:
            log.error("child_killed", child=self.name)
            self._process.kill()
            self._process.wait()
        self._guard.forget(self._process.pid)
        self._process = None


def environment(**values: str) -> dict[str, str]:
    """Ours, with these values."""
    return {**os.environ, **values}
