"""Processes the bench starts: pinned to cores, in a temporary home, ended with everything they started."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from process_meter import raise_open_files_limit

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_LOG_TAIL_BYTES = 2000


class BenchError(Exception):
    """A process did not start, did not end well or did not answer in time."""


@dataclass(frozen=True, slots=True)
class CorePlan:
    """Which cores each role may use; None leaves it to the kernel."""

    server: frozenset[int] | None
    upstream: frozenset[int] | None
    load: frozenset[int] | None

    @staticmethod
    def for_machine(pin: bool) -> "CorePlan":
        """One core for the server, the rig on another; a third and fourth core separate the rig's halves."""
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if not pin or len(cores) < 2:
            return CorePlan(None, None, None)
        server, upstream = cores[0], cores[1]
        load = cores[2] if len(cores) > 2 else upstream
        return CorePlan(frozenset((server,)), frozenset((upstream,)), frozenset((load,)))

    def describe(self) -> str:
        if self.server is None or self.upstream is None or self.load is None:
            return "not pinned"
        server, upstream, load = min(self.server), min(self.upstream), min(self.load)
        return f"server on core {server}, mock on core {upstream}, load client on core {load}"


class Process:
    """One child in a session of its own, whose output goes to a file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log_path: Path,
        *,
        cores: frozenset[int] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        def prepare() -> None:
            raise_open_files_limit()
            if _LIBC is not None:
                _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if cores is not None:
                os.sched_setaffinity(0, cores)

        self.log_path = log_path
        with log_path.open("wb") as log:
            self.child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=log_path.parent,
                start_new_session=True,
                preexec_fn=prepare,  # safe: the runner has one thread
            )

    @property
    def pid(self) -> int:
        return self.child.pid

    def log_tail(self) -> str:
        return self.log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip()

    def require_alive(self) -> None:
        """Raise with the end of its output if the process has ended."""
        if self.child.poll() is not None:
            raise BenchError(f"{self.log_path.stem} ended with {self.child.returncode}: {self.log_tail()}")

    def wait_for_output(self, pattern: str, timeout_s: float) -> str:
        """Wait until the output matches and return the first group."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            found = re.search(pattern, self.log_path.read_text(errors="replace"))
            if found:
                return found.group(1)
            self.require_alive()
            time.sleep(0.05)
        raise BenchError(f"{self.log_path.stem} said nothing useful in {timeout_s:g} s: {self.log_tail()}")

    def wait_for_port(self, port: int, timeout_s: float) -> None:
        """Wait until something accepts connections on the port."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            self.require_alive()
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise BenchError(f"{self.log_path.stem} does not listen after {timeout_s:g} s: {self.log_tail()}")

    def wait_for_end(self, timeout_s: float) -> str:
        """Wait for a process that ends by itself and return its output."""
        try:
            self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.stop(grace_s=0)
            raise BenchError(f"{self.log_path.stem} did not end within {timeout_s:g} s") from None
        if self.child.returncode:
            raise BenchError(f"{self.log_path.stem} ended with {self.child.returncode}: {self.log_tail()}")
        return self.log_path.read_text(errors="replace")

    def stop(self, grace_s: float = 5.0) -> None:
        """Ask the process to end, then kill its whole session."""
        if self.child.poll() is None and grace_s > 0:
            self.child.terminate()
            try:
                self.child.wait(grace_s)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait(5)


def free_port() -> int:
    """A loopback port nobody listens on right now, for servers that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
