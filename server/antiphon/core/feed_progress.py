"""How far runs have come since somebody last looked: read from their heads, not from their events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands. head: number of its last event. output_tokens: counted so far, None before any were."""

    tenant: str
    run_id: str
    head: int
    output_tokens: int | None = None

    def row(self) -> dict[str, Any]:
        """The wire form."""
        row: dict[str, Any] = {"response_id": self.run_id, "head": self.head}
        return row if self.output_tokens is None else row | {"output_tokens": self.output_tokens}


class ProgressMeter:
    """Remembers where the runs of the last look stood."""

    def __init__(self) -> None:
        self._last: dict[str, Progress] = {}

    def moved(self, now: Iterable[Progress]) -> list[Progress]:
        """Those that moved since the last look, and new ones that have events. now: all runs that go on."""
        last, self._last = self._last, {run.run_id: run for run in now}
        return [run for run in self._last.values() if run.head >= 0 and last.get(run.run_id) != run]
