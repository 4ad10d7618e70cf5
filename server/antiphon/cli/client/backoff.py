"""How long to wait before coming back (full jitter: anything between nothing and a bound that doubles)."""

from __future__ import annotations

FIRST_S = 0.5
"""Short enough that a person does not notice a lost connection that comes straight back."""
MOST_S = 10.0
"""Long enough that a thousand terminals do no harm to a server that starts, short enough to wait for."""


class Backoff:
    """Knows how many attempts failed in a row. Random numbers come from outside."""

    def __init__(self, first_s: float = FIRST_S, most_s: float = MOST_S) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._failed = 0

    def opened(self) -> None:
        """The connection stands: the next wait is a short one again."""
        self._failed = 0

    def wait_s(self, chance: float, asked_s: float = 0.0) -> float:
        """The next wait. chance: 0 to 1. asked_s: what the server asked for at least, or to spread over."""
        bound_s = min(self._most_s, self._first_s * 2.0 ** min(self._failed, 30))
        self._failed += 1
        return asked_s + chance * bound_s
