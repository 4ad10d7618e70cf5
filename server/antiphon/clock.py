"""The real clock and the real ids; everything else gets them handed in."""

from __future__ import annotations

import os
import time
import weakref

_BLOCK_BYTES = 1024


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class RandomIds:
    """UUIDv7 ids (RFC 9562, 5.7): sortable by time, unguessable in the rest.

    Randomness is taken from the system in blocks, because each call of the system costs as much as ten ids.
    """

    def __init__(self) -> None:
        self._block = b""
        self._used = 0
        if hasattr(os, "register_at_fork"):
            forget = weakref.WeakMethod(self._forget)
            # Two processes must not go on with the same block.
            os.register_at_fork(after_in_child=lambda: (method := forget()) and method())

    def mint(self, prefix: str) -> str:
        stamp = time.time_ns() // 1_000_000
        random = int.from_bytes(self._take(10), "big")
        value = (stamp << 80) | (0x7 << 76) | ((random >> 68) << 64) | (0b10 << 62) | (random & (2**62 - 1))
        return f"{prefix}_{value:032x}"

    def token(self) -> str:
        return self._take(8).hex()

    def _take(self, size: int) -> bytes:
        start = self._used
        if start + size > len(self._block):
            self._block, start = os.urandom(_BLOCK_BYTES), 0
        self._used = start + size
        return self._block[start : start + size]

    def _forget(self) -> None:
        self._block = b""
