"""Old things go: logs past their retention, idempotency records, ended runs in the registry."""

from __future__ import annotations

import asyncio

import structlog

from antiphon.errors import StorageError
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock
from antiphon.runs.start.idempotency import IdempotencyKeys
from antiphon.store import records
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_PERIOD_S = 10.0
_RUNS_AT_ONCE = 100
"""Logs deleted in one transaction, so that writers of live runs do not wait long."""


class Janitor:
    """One timer for everything that expires."""

    def __init__(
        self, writer: Writer, registry: RunRegistry, keys: IdempotencyKeys, clock: Clock, retention_s: float
    ) -> None:
        self._writer = writer
        self._registry = registry
        self._keys = keys
        self._clock = clock
        self._retention_s = retention_s
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="janitor")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def clean(self) -> None:
        """Do it once. Raises StorageError."""
        self._registry.prune()
        self._keys.prune()
        while True:
            now = self._clock.now()
            done = await self._writer.submit(records.expire(now - self._retention_s, now, _RUNS_AT_ONCE))
            if done < _RUNS_AT_ONCE:
                return

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            try:
                await self.clean()
            except StorageError as error:
                log.warning("janitor_failed", error=str(error.__cause__))
            except Exception:  # whatever it was must not keep old things for ever
                log.exception("janitor_crashed")
