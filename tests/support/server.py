"""Servers for tests: one inside the test's own loop, one as a process that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.app import Antiphon
from antiphon.server import AntiphonServer
from antiphon.settings import Settings
from tests.support.forked import SERVER, ForkedProcess

START_WITHIN_S = 60.0
"""Many at once on a busy machine, without compiled bytecode, take half of it."""


@dataclass
class RunningServer:
    """A server that listens. url: http://127.0.0.1:<port>."""

    url: str
    app: Antiphon
    server: AntiphonServer
    data_dir: Path

    @property
    def ws_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/v1/responses"


def test_settings(data_dir: Path, **overrides: Any) -> Settings:
    """Settings for a test: a data folder of its own, short drains, retries without waits, nothing from a file."""
    timeouts = {"drain_s": 2.0, **overrides.pop("timeouts", {})}
    retry = {"base_ms": 1.0, "retry_after_max_s": 0.0, **overrides.pop("retry", {})}
    return Settings(data_dir=data_dir, timeouts=timeouts, retry=retry, log_level="warning", **overrides)


test_settings.__test__ = False  # type: ignore[attr-defined]


@contextlib.asynccontextmanager
async def running_server(data_dir: Path | None = None, **overrides: Any) -> AsyncIterator[RunningServer]:
    """Start a server in this loop on a free port; stop it at the end. overrides: fields of Settings."""
    with contextlib.ExitStack() as stack:
        if data_dir is None:
            data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-test-")))
        settings = test_settings(data_dir, **overrides)
        server = AntiphonServer(Antiphon(settings))
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        listener.setblocking(False)
        await server.start(listener)
        try:
            yield RunningServer(server.url, server.app, server, data_dir)
        finally:
            await server.abort()


class ServerProcess:
    """`antiphon serve` as a process of its own, with its data folder kept over restarts.

    It is forked from a process that has imported the server (`forked.py`), with its own words, environment and
    outputs. within: what goes before the command, such as `ip netns exec name`; the command is then started as a
    user starts it, and what goes before has to become that process.
    """

    def __init__(self, data_dir: Path, env: dict[str, str] | None = None, within: Sequence[str] = ()) -> None:
        self.data_dir = data_dir
        self.url = ""
        self.log = data_dir / "server.log"
        self._env = env or {}
        self._within = within
        self._process: ForkedProcess | None = None

    @property
    def ws_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/v1/responses"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, *flags: str) -> None:
        """Start it and wait until it listens."""
        words = ["-m", "antiphon", "serve", "--port", "0", "--data-dir", str(self.data_dir), *flags]
        env = {**os.environ, **self._env}
        async with asyncio.timeout(START_WITHIN_S):
            with self.log.open("ab") as log:
                self._process = await SERVER.start(words, env, log, within=self._within)
            self.url = await self._find_url()

    async def _find_url(self) -> str:
        assert self._process is not None
        while line := await self._process.line():
            found = re.search(rb"http://[\d.]+:\d+", line)
            if found:
                return found.group().decode()
        raise AssertionError(f"the server did not start:\n{self.log.read_text()}")

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        await self.wait()

    async def wait(self, within_s: float = 40.0) -> int:
        """Wait for its end; gives the exit status."""
        assert self._process is not None
        async with asyncio.timeout(within_s):
            status = await self._process.wait()
        self._process.close()
        return status

    async def __aenter__(self) -> ServerProcess:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._process is not None:
            if not self._process.ended:
                await self.kill()
            self._process.close()
