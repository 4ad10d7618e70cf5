"""A circuit breaker: after failures in a row nobody is let through for a while, then one probe decides.

Written here because PyPI `purgatory` reads the wall clock itself and lets every call through when half open,
`pybreaker` wraps blocking calls, and `aiobreaker` had its last release in 2021.
"""

from __future__ import annotations

from typing import Literal

BreakerState = Literal["closed", "open", "half_open"]

_PROBE_HINT_S = 1.0
"""When to come again while a probe is under way: its answer may be there any moment."""


class CircuitBreaker:
    """The state of one upstream. Times are monotonic seconds, handed in.

    limit: failures in a row that open it. open_s: how long it stays open. failures: those in a row so far.
    opened_until: when a probe is let through; None while closed.

    A call that was admitted holds a permit, a number, and says with it how it went. A permit that is older than
    the latest opening is late: what became of its call changes nothing.
    """

    def __init__(self, limit: int, open_s: float) -> None:
        self._limit = limit
        self._open_s = open_s
        self.failures = 0
        self.opened_until: float | None = None
        self._probing = False
        self._generation = 0

    def state(self, now: float) -> BreakerState:
        if self.opened_until is None:
            return "closed"
        return "open" if now < self.opened_until else "half_open"

    def admit(self, now: float) -> int | None:
        """A permit, or None for a call that has to be refused. The first one after `opened_until` is the probe."""
        if self.opened_until is not None:
            if now < self.opened_until or self._probing:
                return None
            self._probing = True
        return self._generation

    def retry_after_s(self, now: float) -> float:
        """When a refused call may come again."""
        return max(_PROBE_HINT_S, (self.opened_until or now) - now)

    def answered(self, permit: int) -> None:
        """The upstream gave an answer of some kind: enough to close for a probe, no success otherwise."""
        if permit == self._generation and self._probing:
            self._close()

    def succeeded(self, permit: int) -> None:
        """The call went well to its end."""
        if permit == self._generation:
            self._close()

    def failed(self, permit: int, now: float) -> None:
        """The call failed, and it was the upstream's fault."""
        if permit != self._generation:
            return
        self.failures += 1
        if (
            self.failures >= self._limit
        ):  # so it is after a probe: only what closes the breaker starts the count again
            self.opened_until = now + self._open_s
            self._new_generation()

    def released(self, permit: int) -> None:
        """The call was given up and says nothing about the upstream; the next one may probe in its place."""
        if permit == self._generation and self._probing:
            self._new_generation()

    def _close(self) -> None:
        # Of the same generation: if the probe's answer breaks off later, that counts.
        self.failures = 0
        self.opened_until = None
        self._probing = False

    def _new_generation(self) -> None:
        self._probing = False
        self._generation += 1
