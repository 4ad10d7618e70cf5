"""Looks for nodes that are gone, and tells whoever waits for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from antiphon.bus.lease_keeper import LeaseKeeper
from antiphon.bus.tasks import end_tasks
from antiphon.errors import BusError

log = structlog.get_logger(__name__)

LOOKS_PER_LEASE = 5


@dataclass(frozen=True, slots=True)
class Sight:
    """Which nodes are registered, and which of them, or of those asked for, have a lease."""

    registered: frozenset[str]
    alive: frozenset[str]


class NodeWatch:
    """look: one look at the bus, for all registered nodes; raises BusError."""

    def __init__(
        self, node: str, lease_s: float, lease: LeaseKeeper, look: Callable[[], Awaitable[Sight]]
    ) -> None:
        self._node = node
        self._every_s = lease_s / LOOKS_PER_LEASE
        self._lease = lease
        self._look = look
        self._watching: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._on_gone: Callable[[frozenset[str]], Awaitable[None]] | None = None

    def start(self, on_gone: Callable[[frozenset[str]], Awaitable[None]]) -> None:
        self._on_gone = on_gone
        self._watching = asyncio.create_task(self._watch(), name="bus node watch")

    async def stop(self) -> None:
        await end_tasks([self._watching, self._telling])

    def judge(self, sight: Sight, nodes: frozenset[str]) -> frozenset[str]:
        """Which of these nodes are gone for certain. If our own lease is missing too, the bus lost all of them."""
        if self._node not in sight.alive:
            self._lease.hurry()
            return frozenset()
        return nodes - sight.alive if self._lease.judges else frozenset()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            try:
                sight = await self._look()
            except BusError as error:
                log.debug("no look at the nodes", error=error.message)
                continue
            except Exception:
                log.exception("looking at the nodes failed")
                continue
            gone = self.judge(sight, sight.registered)
            # Adoption may take longer than a look; whoever dies meanwhile is told of next time.
            if gone and (self._telling is None or self._telling.done()):
                self._telling = asyncio.create_task(self._tell(gone), name="bus nodes gone")

    async def _tell(self, gone: frozenset[str]) -> None:
        assert self._on_gone is not None
        try:
            await self._on_gone(gone)
        except BusError as error:
            log.warning("the runs of dead nodes are not taken over yet", nodes=sorted(gone), error=error.message)
        except Exception:
            log.exception("on_nodes_gone failed", nodes=sorted(gone))
