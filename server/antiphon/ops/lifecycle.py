"""The lifecycle log of this process: one numbered entry per event of any run, per tenant, in a ring (PROTOCOL 16).

Numbers (`rev`) have no holes within an epoch; a new process is a new epoch. Entries hold metadata only. Several
nodes share a feed beside it, which `feed_redis.py` writes from these entries and numbers anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from antiphon.core.assembly.wire import to_keep
from antiphon.core.feed_scope import Facts
from antiphon.core.run_state import TERMINAL, RunState
from antiphon.ports import Clock

RING_ENTRIES = 10_000
KEEP_IDLE_S = 86_400.0
"""How long a tenant's entries are kept after its last one."""

ENDS = frozenset(f"run.{state}" for state in TERMINAL)
"""Events after which a run has no other."""


@dataclass(slots=True)
class Entry:
    """One lifecycle event, which nobody changes (to have that checked would double the cost of making one).

    encoded_row: the run's state after it, as JSON. at: Unix seconds.

    n: counts the entries of the run from 1 on, over all nodes that ever owned it. fence: of its owner. facts,
    updated_at: of the state.
    """

    rev: int
    event: str
    encoded_row: bytes
    data: dict[str, Any]
    at: float
    run_id: str
    n: int
    fence: int
    facts: Facts
    updated_at: float

    @property
    def row(self) -> dict[str, Any]:
        """The run's state after it."""
        row: dict[str, Any] = orjson.loads(self.encoded_row)
        return row


@dataclass(frozen=True, slots=True)
class Told:
    """What a feed already holds of a run. n: its entries so far. event: name of the last one, or empty."""

    n: int
    event: str


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
        ring = self._rings.get(state.tenant)
        if ring is None:
            ring = self._rings[state.tenant] = _Ring()
        ring.rev += 1
        state.feed_n += 1
        # Encoded at once: a ring of dicts would be seven times as large.
        row = to_keep(orjson.dumps(state.row()))
        entry = Entry(
            rev=ring.rev,
            event=event,
            encoded_row=row,
            data=data or {},
            at=self._clock.now(),
            run_id=state.response_id,
            n=state.feed_n,
            fence=state.feed_fence,
            facts=Facts.of(state),
            updated_at=state.updated_at,
        )
        ring.entries.append(entry)
        for observer in self._observers:
            observer(state.tenant, entry)
        return entry

    def take_over(self, state: RunState, told: Told, fence: int) -> None:
        """A run of another node goes on here, or is found to be over: number its entries on, and say what the feed
        lacks of it. told: what the feed has. fence: the one this node took the run with.
        """
        state.feed_n, state.feed_fence = told.n, fence
        if state.state not in TERMINAL:
            self.record("run.updated" if told.n else "run.created", state)
        elif told.event not in ENDS:
            terminal = state.terminal or {}
            end = {"code": terminal.get("code"), "by": terminal.get("by")}
            data = {"usage": state.usage, "cost": state.cost, **end}
            self.record(f"run.{state.state}", state, data)

    def observe(self, observer: Observer) -> None:
        """Hear every entry from now on."""
        self._observers.append(observer)

    def kept(self, tenant: str) -> list[Entry]:
        """All entries of a tenant that the ring still has."""
        return list(self._rings[tenant].entries) if tenant in self._rings else []

    def prune(self) -> None:
        """Of tenants for whom nothing happened for long only the newest entry stays, which says where they are."""
        oldest = self._clock.now() - KEEP_IDLE_S
        for ring in self._rings.values():
            if len(ring.entries) > 1 and ring.entries[-1].at < oldest:
                newest = ring.entries[-1]
                ring.entries.clear()
                ring.entries.append(newest)

    def since(self, tenant: str, rev: int) -> list[Entry] | None:
        """Entries after `rev`; None if the ring no longer reaches back that far."""
        ring = self._rings.get(tenant, _Ring())
        if ring.entries and ring.entries[0].rev > rev + 1:
            return None
        return [entry for entry in ring.entries if entry.rev > rev]
