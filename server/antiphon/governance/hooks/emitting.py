"""`emit`: events for observers that no run awaits: in order per run and observer, bounded, drained at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from antiphon.governance.hooks.calling import Calls, place_of

log = structlog.get_logger(__name__)

Handler = Callable[[Any], Awaitable[Any]]


class Outbox:
    """What waits for one observer.

    limit: events that may wait, over all runs. Once it is reached later ones are lost, which is logged when it
    begins and when it is over. lost: how many in all.
    """

    def __init__(self, name: str, calls: Calls, *, limit: int, timeout_s: float) -> None:
        self._name = name
        self._calls = calls
        self._limit = limit
        self._timeout_s = timeout_s
        self._waiting: dict[str, deque[tuple[Handler, Any]]] = {}
        """By run; a key is there as long as a task works on it."""
        self._count = 0
        self._lost_since = 0
        self.lost = 0

    def put(self, run_id: str, handler: Handler, payload: Any) -> None:
        """Have a handler called soon. Never waits, never raises."""
        if self._count >= self._limit:
            if self.lost == self._lost_since:
                log.error("observer_too_slow", observer=self._name, waiting=self._count)
            self.lost += 1
            return
        self._count += 1
        queue = self._waiting.get(run_id)
        if queue is not None:
            queue.append((handler, payload))
            return
        self._waiting[run_id] = deque([(handler, payload)])
        self._calls.start(self._work(run_id), f"observer {self._name}")

    async def _work(self, run_id: str) -> None:
        queue = self._waiting[run_id]
        try:
            while queue:
                handler, payload = queue[0]
                await self._call(handler, payload)
                queue.popleft()
                self._count -= 1
                self._caught_up()
        finally:
            self._count -= len(queue)
            self.lost += len(queue)
            del self._waiting[run_id]

    async def _call(self, handler: Handler, payload: Any) -> None:
        try:
            await self._calls.within(handler(payload), self._timeout_s, f"observer {self._name}")
        except TimeoutError:
            log.warning("observer_timeout", observer=self._name, event_name=payload.event)
        except Exception as error:
            log.error("observer_failed", observer=self._name, event_name=payload.event, error=place_of(error))

    def _caught_up(self) -> None:
        if self.lost > self._lost_since:
            log.error("observer_lost_events", observer=self._name, events=self.lost - self._lost_since)
            self._lost_since = self.lost
