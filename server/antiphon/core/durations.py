"""How long something takes: counts in buckets since the start, and the newest values for percentiles."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper ends: from a commit to a call that a person answers. The last bucket, without an end, comes behind."""

NEWEST = 256
"""Values kept for percentiles: the 99th is the third largest of them, which one outlier does not move."""


class Durations:
    """One kind of duration. count, sum_s: of all since the start. in_bucket: how many fell into each bucket.

    Its memory is bounded and adding is a few integer operations, so that it may stand beside any call; not beside
    an event.
    """

    __slots__ = ("_newest", "count", "in_bucket", "sum_s")

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0
        self.in_bucket = [0] * (len(BUCKETS_S) + 1)
        self._newest: deque[float] = deque(maxlen=NEWEST)

    def add(self, duration_s: float) -> None:
        """One more; below zero, as after a step of the clock, counts as zero."""
        duration_s = max(0.0, duration_s)
        self.count += 1
        self.sum_s += duration_s
        self.in_bucket[bisect_left(BUCKETS_S, duration_s)] += 1
        self._newest.append(duration_s)

    def newest_ms(self) -> list[int]:
        """The newest values in milliseconds, oldest first: those of several nodes are put together by joining."""
        return [round(duration_s * 1000) for duration_s in self._newest]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed. Raises ValueError without values."""
    if not values:
        raise ValueError("there is no percentile of nothing")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
