"""`antiphon serve --workers N` as a user starts it, and clients that stay at the worker they met."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

WAIT_S = 60.0
CALLING = """
description = "One call, and an answer once it has its output."
[[turns]]
[[turns.steps]]
text = "One thing first."
[[turns.steps]]
call = { name = "look", arguments = { at = "x" } }
[[turns]]
[[turns.steps]]
text = "Thank you."
"""
SLOW = """
description = "Words for a minute."
[[turns]]
[[turns.steps]]
text = "word{n} "
rate = 20
repeat = 1200
"""
ENDLESS = SLOW.replace("a minute", "an hour").replace("1200", "72000")
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}


class Serving:
    """The server, whose output is in `log`."""

    def __init__(self, data: Path, *arguments: str, **variables: str) -> None:
        scripts = data / "scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        (scripts / "calling.toml").write_text(CALLING, encoding="utf-8")
        (scripts / "slow.toml").write_text(SLOW, encoding="utf-8")
        (scripts / "endless.toml").write_text(ENDLESS, encoding="utf-8")
        self._log = data / "serve.log"
        env = {key: value for key, value in os.environ.items() if not key.startswith("ANTIPHON_")}
        env |= {"ANTIPHON_BUS__LEASE_S": "2", "ANTIPHON_TIMEOUTS__DRAIN_PAUSE_S": "0", **variables}
        command = [sys.executable, "-m", "antiphon", "serve", "--data-dir", str(data), *arguments]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        self.url = ""

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    async def serves(self) -> str:
        """Wait for its address."""
        for _ in range(round(WAIT_S / 0.05)):
            if found := re.search(r"Chat in the browser\s+(http://[\d.]+:\d+)", self.said()):
                self.url = found[1]
                return self.url
            assert self.process.poll() is None, self.said()
            await asyncio.sleep(0.05)
        raise AssertionError(self.said())

    def children(self) -> dict[int, str]:
        """Pid -> command line of what it has started."""
        pid = self.process.pid
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return {int(child): command_of(int(child)) for child in found}

    def workers(self) -> list[int]:
        return [pid for pid, command in self.children().items() if " worker " in command]

    async def ended(self) -> int:
        """Wait for its end; its exit status."""
        return await asyncio.to_thread(self.process.wait, WAIT_S)


def command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


@contextlib.asynccontextmanager
async def serving(data: Path, workers: int = 2, **variables: str) -> AsyncIterator[Serving]:
    server = Serving(data, "--workers", str(workers), "--port", "0", **variables)
    try:
        await server.serves()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
            try:
                await server.ended()
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()


class Pinned:
    """A client on one connection, which is at one worker. node: its id."""

    def __init__(self, url: str) -> None:
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=None)
        self.http = httpx2.AsyncClient(base_url=url, limits=limits, timeout=WAIT_S, trust_env=False)
        self.node = ""

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get("/v1/admin/status")).json()
        self.node = found["node"]
        return found

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def response(self, response_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/v1/responses/{response_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@contextlib.asynccontextmanager
async def one_at_each(url: str, workers: int = 2) -> AsyncIterator[list[Pinned]]:
    """A client at each worker."""
    async with contextlib.AsyncExitStack() as stack:
        found: dict[str, Pinned] = {}
        begun = time.monotonic()
        while len(found) < workers:
            assert time.monotonic() - begun < WAIT_S, f"only {len(found)} workers answer"
            client = Pinned(url)
            stack.push_async_callback(client.http.aclose)
            await client.status()
            found.setdefault(client.node, client)
        yield list(found.values())
