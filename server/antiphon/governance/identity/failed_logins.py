"""How many wrong credentials a client address may show (PROTOCOL 3.5). Counted per node."""

from __future__ import annotations

import math

from antiphon.core.token_bucket import Buckets, Rate
from antiphon.errors import RequestError
from antiphon.ports import Clock


class FailedLogins:
    """Who guesses is slowed down, and nobody else: credentials that are right count, however many were wrong.

    rate: of wrong ones that are answered as such; None: all.
    """

    def __init__(self, rate: Rate | None, clock: Clock) -> None:
        self._buckets = Buckets(rate) if rate is not None else None
        self._clock = clock

    def check(self, address: str) -> None:
        """Before something is looked up for an address. Raises RequestError `rate_limited`."""
        if self._buckets is not None:
            _refuse(self._buckets.wait_s(address, self._clock.monotonic()))

    def count(self, address: str) -> None:
        """It showed wrong ones. Raises RequestError `rate_limited` if that was one too many."""
        if self._buckets is not None:
            _refuse(self._buckets.take(address, self._clock.monotonic()))


def _refuse(wait_s: float) -> None:
    if wait_s:
        raise RequestError(
            "Too many wrong credentials came from your address; wait before you try others.",
            code="rate_limited",
            headers={"retry-after": str(math.ceil(wait_s)), "retry-after-ms": str(math.ceil(wait_s * 1000))},
        )
