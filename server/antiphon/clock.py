"""The real clock and the real ids; everything else gets them handed in."""

from __future__ import annotations

import secrets
import time


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class RandomIds:
    """UUIDv7 ids (RFC 9562, 5.7): sortable by time, unguessable in the rest."""

    def mint(self, prefix: str) -> str:
        stamp = time.time_ns() // 1_000_000
        random = secrets.randbits(74)
        value = (stamp << 80) | (0x7 << 76) | ((random >> 62) << 64) | (0b10 << 62) | (random & (2**62 - 1))
        return f"{prefix}_{value:032x}"

    def token(self) -> str:
        return secrets.token_hex(8)
