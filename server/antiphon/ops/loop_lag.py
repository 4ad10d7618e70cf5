"""How late the event loop is: a timer that measures by how much it is overslept."""

from __future__ import annotations

import asyncio

from antiphon.core.durations import Durations

_EVERY_S = 0.25
_WINDOW = 40
"""Looks that `worst_ms` covers: ten seconds, so that a scrape or a dashboard does not miss a stall."""


class LoopLag:
    """lags: all that were measured."""

    def __init__(self) -> None:
        self.lags = Durations()
        self._timer: asyncio.TimerHandle | None = None
        self._due_at = 0.0

    @property
    def worst_ms(self) -> float:
        """The longest lag of the last ten seconds."""
        return float(max(self.lags.newest_ms()[-_WINDOW:], default=0))

    def start(self) -> None:
        """Begin to measure, in the running loop."""
        self._arm()

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_at = loop.time() + _EVERY_S
        self._timer = loop.call_at(self._due_at, self._look)

    def _look(self) -> None:
        self.lags.add(asyncio.get_running_loop().time() - self._due_at)
        self._arm()
