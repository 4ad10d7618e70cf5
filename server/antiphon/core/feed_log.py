"""What a view of a feed knows: its newest entries, and the rows of runs that go on or ended a moment ago."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from antiphon.core.feed_scope import Facts, FeedScope
from antiphon.core.run_state import TERMINAL

LOG_ENTRIES = 10_000
KEEP_ENDED_S = 60.0
"""How long an ended run is shown."""

Op = Literal["upsert", "remove"]


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One lifecycle event as a feed tells it. rev: 0 for a row that is known without one.

    row, data: encoded. updated_at: of the row; at: of the event; both Unix seconds.
    """

    rev: int
    event: str
    run_id: str
    facts: Facts
    row: bytes
    data: bytes
    at: float
    updated_at: float

    @property
    def is_end(self) -> bool:
        return self.facts.state in TERMINAL


class FeedLog:
    """The newest entries of one epoch, without a gap. head: number of the newest one, 0 before the first."""

    def __init__(self, epoch: str, head: int = 0, entries: Iterable[FeedEntry] = ()) -> None:
        self.epoch = epoch
        self._entries: deque[FeedEntry] = deque(entries, maxlen=LOG_ENTRIES)
        self.head = self._entries[-1].rev if self._entries else head

    def __iter__(self) -> Iterator[FeedEntry]:
        return iter(self._entries)

    @property
    def first(self) -> int:
        """The lowest number that is here; one past the head if none is."""
        return self._entries[0].rev if self._entries else self.head + 1

    def append(self, entry: FeedEntry) -> None:
        if entry.rev != self.head + 1:
            raise ValueError(f"entry {entry.rev} does not follow {self.head}")
        self._entries.append(entry)
        self.head = entry.rev

    def prepend(self, entries: Sequence[FeedEntry]) -> None:
        """Older entries, up to the first one that is here; what there is no room for is left out."""
        for entry in reversed(entries):
            if len(self._entries) == LOG_ENTRIES:
                return
            if entry.rev != self.first - 1:
                raise ValueError(f"entry {entry.rev} does not lead to {self.first}")
            self._entries.appendleft(entry)

    def after(self, rev: int) -> list[FeedEntry] | None:
        """Entries after `rev`; None if they are not all here, or it is from the future."""
        if rev > self.head or rev < self.first - 1:
            return None
        found: list[FeedEntry] = []
        for entry in reversed(self._entries):
            if entry.rev <= rev:
                break
            found.append(entry)
        found.reverse()
        return found

    def of_run(self, run_id: str) -> list[FeedEntry]:
        return [entry for entry in self._entries if entry.run_id == run_id]


class FeedRows:
    """The newest entry of each run that is shown."""

    def __init__(self, entries: Iterable[FeedEntry] = ()) -> None:
        self._rows: dict[str, FeedEntry] = {}
        self._ended: dict[str, float] = {}
        """Ended runs, and when they ended, in the order in which that became known."""
        for entry in entries:
            self.apply(entry)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[FeedEntry]:
        return iter(self._rows.values())

    def get(self, run_id: str) -> FeedEntry | None:
        return self._rows.get(run_id)

    def apply(self, entry: FeedEntry) -> None:
        """What is newer takes the place of what is older; but an end is the end (field issue O-03)."""
        known = self._rows.get(entry.run_id)
        if known is not None and known.is_end and not entry.is_end:
            return
        self._rows[entry.run_id] = entry
        if entry.is_end:
            self._ended.setdefault(entry.run_id, entry.updated_at)

    def expire(self, now: float) -> list[str]:
        """Let go of runs that ended too long ago; gives their ids. now: Unix seconds."""
        gone = [run_id for run_id, ended_at in self._ended.items() if ended_at + KEEP_ENDED_S <= now]
        for run_id in gone:
            del self._rows[run_id], self._ended[run_id]
        return gone


@dataclass(frozen=True, slots=True)
class Change:
    """What a subscription is told. count: how many entries of the run it stands for."""

    entry: FeedEntry
    op: Op
    count: int


def changes(entries: Iterable[FeedEntry], scope: FeedScope, shown: set[str], *, coalesce: bool) -> list[Change]:
    """What entries mean for whoever was shown these runs; brings `shown` up to date.

    coalesce: only the newest entry of each run counts.
    """
    counts: dict[str, int] = {}
    if coalesce:
        newest: dict[str, FeedEntry] = {}
        for entry in entries:
            newest[entry.run_id] = entry
            counts[entry.run_id] = counts.get(entry.run_id, 0) + 1
        entries = sorted(newest.values(), key=lambda entry: entry.rev)
    found: list[Change] = []
    for entry in entries:
        count = counts.get(entry.run_id, 1)
        if scope.passes(entry.facts):
            shown.add(entry.run_id)
            found.append(Change(entry, "upsert", count))
        elif entry.run_id in shown:
            shown.discard(entry.run_id)
            found.append(Change(entry, "remove", count))
    return found


def shown_at(log: FeedLog, rev: int, scope: FeedScope) -> set[str]:
    """The runs that a subscription in this scope may have been shown by `rev`, if later entries are of them.

    Of a run whose entries from before are gone it is not known; then it may.
    """
    before: dict[str, Facts] = {}
    after: dict[str, FeedEntry] = {}
    for entry in log:
        if entry.rev <= rev:
            before[entry.run_id] = entry.facts
        else:
            after.setdefault(entry.run_id, entry)
    shown: set[str] = set()
    for run_id, entry in after.items():
        known = before.get(run_id)
        if scope.passes(known) if known else entry.event != "run.created" and scope.may_see(entry.facts):
            shown.add(run_id)
    return shown
