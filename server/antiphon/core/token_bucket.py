"""Token buckets by key: how much each may do in a time. The time is given."""

from __future__ import annotations

from dataclasses import dataclass

_SWEEP_AT = 1024
"""Keys before it is worth looking for those that can be forgotten."""

_ROUNDING_S = 1e-9


@dataclass(frozen=True, slots=True)
class Rate:
    """What a bucket gives: `per_s` units in every second, and `burst` at once after a rest."""

    per_s: float
    burst: float


class Buckets:
    """One bucket for each key, all of one rate.

    A bucket is one number: the time at which it will be full again. One that is full needs none, so that
    memory is bounded by the keys of the last `burst / per_s` seconds.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._full_at: dict[str, float] = {}
        self._sweep_at = _SWEEP_AT

    def __len__(self) -> int:
        return len(self._full_at)

    def wait_s(self, key: str, now: float, cost: float = 1.0) -> float:
        """0 if `cost` units are there, else how many seconds bring them. now: monotonic seconds.

        A cost above the burst is never there.
        """
        wait_s = self._full_at_after(key, now, cost) - now - self._rate.burst / self._rate.per_s
        return wait_s if wait_s > _ROUNDING_S else 0.0

    def take(self, key: str, now: float, cost: float = 1.0) -> float:
        """Take `cost` units if they are there; gives `wait_s`, so that 0 means taken."""
        wait_s = self.wait_s(key, now, cost)
        if wait_s == 0.0:
            if len(self._full_at) >= self._sweep_at:
                self._sweep(now)
            self._full_at[key] = self._full_at_after(key, now, cost)
        return wait_s

    def _full_at_after(self, key: str, now: float, cost: float) -> float:
        return max(self._full_at.get(key, now), now) + cost / self._rate.per_s

    def _sweep(self, now: float) -> None:
        self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._full_at))
