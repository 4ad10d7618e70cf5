"""Commands of Python that are forked from a process that has imported what they need (`fork_server.py` says how).

    process = await SERVER.start(["-m", "antiphon", "version"], os.environ, errors_file)

The real thing costs two seconds of computing to import, and a suite starts it some hundred times.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PROGRAM = Path(__file__).with_name("fork_server.py")


class Forks:
    """Starts commands of an interpreter. modules: what it imports, once.

    The process that forks is started when it is first needed. It ends with this one, however this one ends, and
    its children end with it.
    """

    def __init__(self, python: str | Path, *modules: str) -> None:
        self._command = [str(python), "-P", str(_PROGRAM)]
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def start(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        errors: IO[bytes],
        *,
        cwd: Path | None = None,
        within: Sequence[str] = (),
    ) -> ForkedProcess:
        """Start a command; it may still be about to begin.

        words: what stands behind the interpreter, `-m module ...`, `-c code` or `script.py ...`. errors: its
        standard error. within: what goes before the interpreter, such as `ip netns exec name`; nothing is spared
        then.
        """
        control = self._running()
        connection, far_connection = socket.socketpair()
        output, far_output = socket.socketpair()
        child = ForkedProcess(connection, output)
        try:
            with far_connection, far_output:
                asked = {"words": words, "env": dict(env), "cwd": str(cwd or Path.cwd()), "within": within}
                connection.sendall(json.dumps(asked).encode() + b"\n")
                socket.send_fds(control, [b"f"], [end.fileno() for end in (far_connection, far_output, errors)])
            await child.begun()
        except BaseException:
            child.close()
            raise
        return child

    def _running(self) -> socket.socket:
        if self._control is None or self._process is None or self._process.poll() is not None:
            self._control, other = socket.socketpair()
            with other:
                self._process = subprocess.Popen(
                    [*self._command, str(other.fileno()), *self._modules],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[other.fileno()],
                    start_new_session=True,  # Ctrl-C is for the tests, which then end it
                )
            atexit.register(_end, self._control, self._process)
        return self._control


def _end(control: socket.socket, process: subprocess.Popen[bytes]) -> None:
    control.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)


SERVER = Forks(
    sys.executable,
    "antiphon.cli.main",
    *("antiphon.app", "antiphon.server", "antiphon.cli.doctor", "antiphon.cli.keys", "antiphon.cli.migrate"),
    *("antiphon.cli.usage", "antiphon.cli.tail", "antiphon.cli.chat"),
)
"""For `-m antiphon`, whose commands import what they need."""


class ForkedProcess:
    """A command that was started. Close it, best after its end; it ends with the tests at the latest."""

    def __init__(self, connection: socket.socket, output: socket.socket) -> None:
        self.pid = 0
        self._told = _Lines(connection)
        self._output = _Lines(output)
        self._status: int | None = None

    async def begun(self) -> None:
        """Wait until it has a pid."""
        line = await self._told.next()
        assert line, "the process that forks has ended; what it said is above"
        self.pid = int(line)

    @property
    def ended(self) -> bool:
        """Whether it has ended, as far as this process was told."""
        if self._status is None and (line := self._told.at_hand()):
            self._status = int(line)
        return self._status is not None

    async def line(self) -> bytes:
        """The next line it prints, without an end of line if that is its last; empty when it prints no more."""
        return await self._output.next()

    async def rest(self) -> bytes:
        """All that it will print."""
        return b"".join([line async for line in self._output])

    async def wait(self) -> int:
        """Its exit status, as `subprocess` says it: -9 after SIGKILL."""
        if self._status is None:
            line = await self._told.next()
            assert line, "the process that forks has ended; what it said is above"
            self._status = int(line)
        return self._status

    def kill(self) -> None:
        """SIGKILL to it and to what it has started, if it runs."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Listen no more."""
        self._told.close()
        self._output.close()


class _Lines:
    """Lines from a socket, for whichever loop asks."""

    def __init__(self, source: socket.socket) -> None:
        source.setblocking(False)
        self._source = source
        self._data = b""

    async def next(self) -> bytes:
        """With its end of line, if it has one; empty at the end."""
        while b"\n" not in self._data:
            more = await asyncio.get_running_loop().sock_recv(self._source, 65536)
            if not more:
                rest, self._data = self._data, b""
                return rest
            self._data += more
        return self._take()

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> bytes:
        line = await self.next()
        if not line:
            raise StopAsyncIteration
        return line

    def at_hand(self) -> bytes:
        """The next line if it has come; else empty."""
        with contextlib.suppress(OSError):
            self._data += self._source.recv(65536)
        return self._take() if b"\n" in self._data else b""

    def close(self) -> None:
        self._source.close()

    def _take(self) -> bytes:
        line, end, self._data = self._data.partition(b"\n")
        return line + end
