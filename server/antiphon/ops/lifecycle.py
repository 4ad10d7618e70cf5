"""The lifecycle log: one numbered entry per event of any run, per tenant, in a ring (PROTOCOL "Feed").

Numbers (`rev`) have no holes within an epoch; a new process is a new epoch. Entries hold metadata only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from antiphon.core.assembly.wire import to_keep
from antiphon.core.run_state import RunState
from antiphon.ports import Clock

RING_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One lifecycle event. encoded_row: the run's state after it, as JSON. at: Unix seconds."""

    rev: int
    event: str
    encoded_row: bytes
    data: dict[str, Any]
    at: float

    @property
    def row(self) -> dict[str, Any]:
        """The run's state after it."""
        row: dict[str, Any] = orjson.loads(self.encoded_row)
        return row


Observer = Callable[[str, Entry], None]
"""Called with the tenant and the entry, in order; it must not raise and must not wait."""


@dataclass(slots=True)
class _Ring:
    rev: int = 0
    entries: deque[Entry] = field(default_factory=lambda: deque(maxlen=RING_ENTRIES))


class Lifecycle:
    """Rings of all tenants."""

    def __init__(self, epoch: str, clock: Clock) -> None:
        self.epoch = epoch
        self._clock = clock
        self._rings: dict[str, _Ring] = {}
        self._observers: list[Observer] = []

    def record(self, event: str, state: RunState, data: dict[str, Any] | None = None) -> Entry:
        """Number an event and keep it."""
        ring = self._rings.setdefault(state.tenant, _Ring())
        ring.rev += 1
        # Encoded at once: a ring of dicts would be seven times as large.
        row = to_keep(orjson.dumps(state.row()))
        entry = Entry(ring.rev, event, row, data or {}, self._clock.now())
        ring.entries.append(entry)
        for observer in self._observers:
            observer(state.tenant, entry)
        return entry

    def observe(self, observer: Observer) -> None:
        """Hear every entry from now on."""
        self._observers.append(observer)

    def since(self, tenant: str, rev: int) -> list[Entry] | None:
        """Entries after `rev`; None if the ring no longer reaches back that far."""
        ring = self._rings.get(tenant, _Ring())
        if ring.entries and ring.entries[0].rev > rev + 1:
            return None
        return [entry for entry in ring.entries if entry.rev > rev]
