"""The seam between runs and the logs they write: SQLite and memory on one machine, Redis on several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.core.run_state import RunState
from antiphon.journal.log import RunLog
from antiphon.store.records import Ending, IdempotencyRecord, NewResponse, Verdict


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run as the journal knows it, whichever node owns it.

    owner: id of its node, empty while nobody has it (it was handed over). head: last number in the log. first:
    lowest number that can still be read. state: its RunState row, encoded. ended: its terminal is in the log.
    checkpoint: (head, payload) of the newest one; None if none was written, and unless `adopt` gave the run.
    """

    id: str
    owner: str
    fence: int
    epochs: Epochs
    head: int
    first: int
    stored: bool
    ended: bool
    state: bytes
    checkpoint: tuple[int, bytes] | None = None


@dataclass(frozen=True, slots=True)
class Hint:
    """What is published when a run's log or state changed: a doorbell, perhaps with the events themselves.

    first, last: numbers of what was appended (last < first: no events, something else changed). events: those, if
    they were small enough to travel along, else empty. more: beside the events (state, owner, epochs, the end)
    something changed that has to be looked up.
    """

    first: int
    last: int
    events: tuple[bytes, ...] = ()
    more: bool = False


class RunLost(Exception):
    """Another node has taken the run: this one may neither write nor show anything of it any more."""


class Journal(Protocol):
    """Logs of runs: written by their owner here, read by anybody.

    healthy: the last write worked. appended: events of this node's runs since its start, but for terminals.
    on_lost: called with a log whose run another node has taken; it is closed.
    on_restarted: called with a log that was lost in the bus under its living owner, and goes on in new epochs.
    """

    @property
    def healthy(self) -> bool: ...

    appended: int

    on_lost: Callable[[RunLog], None]
    on_restarted: Callable[[RunLog], None]

    def open(
        self,
        run_id: str,
        epochs: Epochs,
        *,
        stored: bool,
        state: RunState,
        head: int = BEFORE_FIRST,
        fence: int = 1,
        onto: RunLog | None = None,
    ) -> RunLog:
        """A log to write to. head: where a run that is taken over stands. state: of the run; it is published when
        `publish_state` is called. onto: the mirror of it that readers here already follow; it becomes the log."""
        ...

    def open_ended(self, run_id: str, epochs: Epochs, head: int) -> RunLog:
        """The log of a run that is over; its events are read from where they are kept."""
        ...

    def begin(self, run_log: RunLog, row: NewResponse, key: IdempotencyRecord | None) -> None:
        """Write the row of a new run with the next flush, together with its first events."""
        ...

    def checkpoint(self, run_log: RunLog, payload: bytes | None) -> None:
        """Write, with the next flush, where the run stands at this head. None: as if nothing was asked."""
        ...

    def publish_state(self, run_log: RunLog) -> None:
        """The RunState of this run changed: let other nodes know with the next flush."""
        ...

    def announce(self, run_log: RunLog, channel: str, payload: bytes) -> None:
        """Publish a hint once every node can find the run: behind its row, and behind its first events."""
        ...

    def append(self, run_log: RunLog, events: list[bytes], first: int, *, last: bool = False) -> None:
        """Append events; they are delivered at once (relaxed) or when durable (strict); while this node is
        suspended, when it may act again. last: the terminal follows."""
        ...

    def holds_back(self, run_log: RunLog) -> bool:
        """Whether what is appended now is not shown, because this node is suspended or the bus takes nothing."""
        ...

    def fence(self, run_log: RunLog) -> int:
        """The fence with which this node owns an open run; a suspension raises it."""
        ...

    async def may_act(self, run_log: RunLog) -> None:
        """Wait until this node owns the run for certain. Raises RunLost if another has taken it."""
        ...

    async def flush(self, run_log: RunLog) -> None:
        """Make what this run has so far durable. Raises StorageError if that is refused now, RunLost."""
        ...

    async def end(self, run_log: RunLog, ending: Ending, within_s: float) -> Verdict:
        """The guarded terminal write, with everything of this run before it. Does not show the terminal.

        within_s: how long to wait for earlier events that are not taken. Raises StorageError; then it can be tried
        again. Raises RunLost.
        """
        ...

    async def end_undecided(self, run_log: RunLog, ending: Ending) -> bool:
        """The row could not be written in time: put this terminal (a failure) into the log alone.

        Gives whether the log took it, so that the row follows later; False where there is no log but the row.
        """
        ...

    async def end_unstored(self, run_log: RunLog, terminal: bytes, within_s: float) -> Verdict:
        """The terminal of a run without a row: the log alone decides. Does not show it. Raises as `end`."""
        ...

    def close(self, run_log: RunLog) -> None:
        """Forget a log that is over; what it still had to write is given up."""
        ...

    async def erase(self, run_id: str) -> None:
        """The response was deleted: nothing of its log may be left outside the store. Raises BusError."""
        ...

    async def read(self, run_log: RunLog, after: int, max_bytes: int) -> list[bytes] | None:
        """Shown events after `after`; None if they are gone for good. Raises StorageError."""
        ...

    async def events(self, run_id: str, after: int, max_bytes: int) -> tuple[int, list[bytes]]:
        """Durable events after `after`, about `max_bytes` of them, wherever they are kept: (number of the first,
        events). The first may be higher than `after + 1` where older ones are gone. Raises StorageError."""
        ...

    # Runs of other nodes. On one machine there are none.

    def hint_channel(self, run_id: str) -> str:
        """Where hints of this run are published."""
        ...

    def read_hint(self, payload: bytes) -> Hint:
        """Raises ValueError for what is none."""
        ...

    async def conclude(self, run: LiveRun, terminal: bytes, number: int) -> None:
        """Its row is decided: put the stored terminal into the log if it is missing there, and end it."""
        ...

    async def find(self, run_id: str) -> LiveRun | None:
        """A live run, or one that ended and was not moved to the store yet. Raises BusError."""
        ...

    async def verify(self) -> None:
        """Look whether the logs of this node are still where they should be; one that is lost is written again.

        Raises BusError.
        """
        ...

    async def find_all(self, run_ids: Sequence[str]) -> dict[str, LiveRun | None]:
        """As `find`, for many. Raises BusError."""
        ...

    async def adopt(self, run: LiveRun) -> LiveRun | None:
        """Take a run whose owner is gone: raise its fence, in the log and then in its row. None if another node
        was faster. Raises StorageError."""
        ...

    async def retake(self) -> None:
        """After a suspension: take every open log back with a higher fence, show what was held back, and call
        `on_lost` for each that another node has taken meanwhile. Raises StorageError."""
        ...

    async def release(self, run_log: RunLog) -> None:
        """Hand the run over: everything of it is durable and nobody owns it from here on. Raises StorageError."""
        ...

    async def owned_by(self, node: str) -> list[LiveRun]:
        """What a node owned; an empty name: what was released. Some hundreds of it at a time. Raises BusError."""
        ...

    async def aclose(self) -> None:
        """Write what is left, as far as it is taken."""
        ...
