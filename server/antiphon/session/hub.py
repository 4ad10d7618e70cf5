"""All live connections of this process: keepalives, goaway and the closes of a shutdown."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.session.connection import Connection

log = structlog.get_logger(__name__)


class Hub:
    """The set of connections and the one timer that serves them all."""

    def __init__(self, keepalive_s: float) -> None:
        self._connections: set[Connection] = set()
        self._keepalive_s = keepalive_s
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def unsent_bytes(self) -> int:
        """What was written to all of them and the operating system has not taken yet."""
        return sum(connection.unsent_bytes for connection in self._connections)

    def add(self, connection: Connection) -> None:
        self._connections.add(connection)

    def discard(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._tick(), name="keepalive")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def drain(self, budget_s: float) -> None:
        """Tell every connection that the server goes away."""
        for connection in list(self._connections):
            connection.drain(budget_s)

    def shut(self) -> None:
        """Close every connection."""
        for connection in list(self._connections):
            connection.shut()

    async def _tick(self) -> None:
        """Look at every connection a few times per keepalive interval: no timer per lane."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self._keepalive_s / 4, 5.0))
            now = loop.time()
            for connection in list(self._connections):
                try:
                    connection.keep_alive(now, self._keepalive_s)
                except Exception:  # one broken connection must not silence all others
                    log.exception("keepalive_crashed", connection_id=connection.id)
