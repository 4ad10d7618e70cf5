"""Servers in a thread of their own, so that hypothesis can drive them with plain sockets."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.support.server import RunningServer, running_server

WAIT_S = 30.0


class Background:
    """Servers of one event loop, by name."""

    def __init__(self, settings: dict[str, dict[str, Any]]) -> None:
        self._settings = settings
        self.servers: dict[str, RunningServer] = {}
        self.left_over: list[str] = []
        """Names of the tasks that outlived the servers."""
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="servers")

    def call(self, do: Callable[[], Awaitable[Any]]) -> Any:
        """The result of a coroutine in the servers' loop."""

        async def done() -> Any:
            return await do()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(WAIT_S)

    def wait_until(self, true: Callable[[], bool], what: str) -> None:
        """Poll a condition in the servers' loop."""

        async def ask() -> bool:
            return true()

        deadline = time.monotonic() + WAIT_S
        while not self.call(ask):
            assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
            time.sleep(0.02)

    @contextlib.contextmanager
    def running(self) -> Iterator[Background]:
        self._thread.start()
        try:
            assert self._started.wait(WAIT_S), "the servers did not start"
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(2 * WAIT_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _serve(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for name, settings in self._settings.items():
                self.servers[name] = await stack.enter_async_context(running_server(**settings))
            self._started.set()
            await self._stop.wait()
        own = asyncio.current_task()
        self.left_over = [str(task) for task in asyncio.all_tasks() if task is not own]
