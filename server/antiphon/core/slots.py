"""How many of something each key holds at this moment, never more than its limit."""

from __future__ import annotations


class Slots:
    """Counts by key. A key that holds nothing takes no memory."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def __len__(self) -> int:
        """Keys that hold something."""
        return len(self._held)

    def held(self, key: str) -> int:
        return self._held.get(key, 0)

    def take(self, key: str, limit: int | None) -> bool:
        """One more for the key, unless it has `limit` of them (None: no limit)."""
        held = self.held(key)
        if limit is not None and held >= limit:
            return False
        self._held[key] = held + 1
        return True

    def free(self, key: str) -> None:
        """One less. To free what nobody took is a mistake of the caller: ValueError."""
        held = self.held(key)
        if held == 0:
            raise ValueError(f"{key} holds nothing")
        if held == 1:
            del self._held[key]
        else:
            self._held[key] = held - 1
