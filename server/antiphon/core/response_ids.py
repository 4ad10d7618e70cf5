"""What an id of ours says about itself."""

from __future__ import annotations

_TIME_DIGITS = 12
"""A UUIDv7 begins with 48 bits of milliseconds (RFC 9562, 5.7)."""


def made_at(response_id: str) -> float | None:
    """When an id was minted, in Unix seconds; None for what is no id of ours."""
    prefix, _, digits = response_id.partition("_")
    if not prefix or len(digits) != 32:
        return None
    try:
        return int(digits[:_TIME_DIGITS], 16) / 1000
    except ValueError:
        return None
