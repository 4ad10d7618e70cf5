"""What is published when a run changed: `<first> <last> <more>`, a line feed, perhaps events (see scripts.py)."""

from __future__ import annotations

from antiphon.journal.contract import Hint

NO_EVENTS = b"0 -1 1\n"
"""The owner changed."""


def read_hint(payload: bytes) -> Hint:
    """Raises ValueError for what is none."""
    line, separator, events = payload.partition(b"\n")
    first, last, more = (int(number) for number in line.split(b" "))
    if not separator:
        raise ValueError("a hint has two lines")
    return Hint(first, last, tuple(events.split(b"\n")) if events else (), more == 1)
