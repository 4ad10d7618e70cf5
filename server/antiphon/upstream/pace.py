"""Gives out the events of built-in models at a rate, without drift."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

from antiphon.ports import Clock

Sleep = Callable[[float], Awaitable[None]]

_BATCH = 32
"""Steps that are given at once when there is no rate, or when they are late."""


class Pace:
    """Time for built-in models; a test gives its own clock and sleep."""

    def __init__(self, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self.clock = clock
        self.sleep = sleep

    async def at_rate(self, steps: Iterable[list[bytes]], per_s: float) -> AsyncIterator[list[bytes]]:
        """The steps, `per_s` of them each second; 0 means as fast as they are taken.

        A step has its time counted from the first, so that late ones catch up: several come in one batch.
        """
        start, batch, waiting = self.clock.monotonic(), list[bytes](), 0
        for count, step in enumerate(steps):
            early_s = start + count / per_s - self.clock.monotonic() if per_s > 0 else 0.0
            if early_s > 0 or waiting == _BATCH:
                if batch:
                    yield batch
                await self.sleep(max(early_s, 0.0))
                batch, waiting = [], 0
            batch += step
            waiting += 1
        if batch:
            yield batch
