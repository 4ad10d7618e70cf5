"""The log of one run in its owner's memory: the newest events, who listens, and how much is durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.journal.frames import Batch

log = structlog.get_logger(__name__)

Listener = Callable[[Batch], None]
ForkListener = Callable[[int], None]
"""Called with the first number that is void: it will be written again, by another owner, in a new epoch."""


class LogOrderError(Exception):
    """Somebody tried to write a number that does not follow the head: a fault of ours."""


class RunLog:
    """Events `first`..`head` of one run.

    head: last number written. shown: last number readers may see (behind the head in strict mode).
    durable: last number that survives the process. ended: the terminal event is shown.
    lost: another node goes on with the run, so that nothing more is written here.
    kept: durable events can be read back, so that memory need not hold them; None: those of stored runs can.
    """

    __slots__ = (
        "_bytes",
        "_events",
        "_kept",
        "_listeners",
        "_strict",
        "_window_bytes",
        "durable",
        "ended",
        "epochs",
        "first",
        "head",
        "lost",
        "run_id",
        "shown",
        "stored",
    )

    def __init__(
        self,
        run_id: str,
        epochs: Epochs,
        *,
        window_bytes: int,
        stored: bool,
        strict: bool,
        head: int = BEFORE_FIRST,
        kept: bool | None = None,
    ) -> None:
        self.run_id = run_id
        self.epochs = epochs
        self.stored = stored
        self.head = self.shown = self.durable = head
        self.first = head + 1
        self.ended = False
        self.lost = False
        self._events: list[bytes] = []
        self._bytes = 0
        self._window_bytes = window_bytes
        self._strict = strict
        self._kept = stored if kept is None else kept
        self._listeners: dict[Listener, ForkListener | None] = {}

    def own(self, *, strict: bool) -> None:
        """What was a mirror is written here from now on; what is durable can be read back."""
        self._strict = strict
        self._kept = True
        self.lost = False

    def append(self, events: Sequence[bytes], first: int, *, hold: bool = False) -> None:
        """Write events; `first` is the number of the first one and must follow the head.

        hold: show them with the next ones, which follow at once. Raises LogOrderError.
        """
        if first != self.head + 1:
            raise LogOrderError(f"{self.run_id}: number {first} does not follow {self.head}")
        if not events:
            return
        self._events.extend(events)
        self._bytes += sum(map(len, events))
        self.head += len(events)
        if not self._strict and not hold:
            self._show(self.head)

    def end(self, terminal: bytes, *, durable: bool) -> None:
        """Write and show the terminal event, after everything before it."""
        self._events.append(terminal)
        self._bytes += len(terminal)
        self.head += 1
        if durable:
            self.durable = self.head
        self.ended = True
        self._show(self.head)

    def mark_durable(self, last: int) -> None:
        """Events up to `last` survive the process now."""
        self.durable = max(self.durable, last)
        if self._strict:
            self._show(self.durable)
        self._trim()

    def show(self) -> None:
        """Show what was held back, as far as it may be seen."""
        self._show(self.durable if self._strict else self.head)

    def relay(self, events: Sequence[bytes], first: int, *, ended: bool = False) -> None:
        """Events that another node has written and made durable; `first` must follow the head.

        ended: the last one is the terminal. Raises LogOrderError.
        """
        if first != self.head + 1:
            raise LogOrderError(f"{self.run_id}: number {first} does not follow {self.head}")
        self._events.extend(events)
        self._bytes += sum(map(len, events))
        self.head += len(events)
        self.durable = self.head
        self.ended = self.ended or ended
        self._show(self.head)
        self._trim()

    def fork(self, first: int, epochs: Epochs) -> None:
        """Another owner goes on at `first` in a new epoch: what stands here from there on is void."""
        self.epochs = epochs
        if first <= self.head:
            del self._events[max(0, first - self.first) :]
            self._bytes = sum(map(len, self._events))
            self.head = first - 1
            self.shown, self.durable = min(self.shown, self.head), min(self.durable, self.head)
            self.first = min(self.first, first)
            self.ended = False
        for listener, on_fork in list(self._listeners.items()):
            if on_fork is not None and listener in self._listeners:
                on_fork(first)

    def give_up(self) -> None:
        """Nobody knows how it goes on: every reader has to look for itself."""
        for listener, on_fork in list(self._listeners.items()):
            if on_fork is not None and listener in self._listeners:
                on_fork(BEFORE_FIRST)

    def skip(self, first: int) -> None:
        """Events before `first` are gone for good: whoever still needs them has to be told.

        Readers find out where they read on; those that wait are woken by the next batch.
        """
        self._events.clear()
        self._bytes = 0
        self.first = first
        self.head = self.shown = self.durable = first - 1

    def listen(self, listener: Listener, on_fork: ForkListener | None = None) -> None:
        """Call `listener` with each batch that is shown from now on, and `on_fork` when a part becomes void."""
        self._listeners[listener] = on_fork

    def unlisten(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def since(self, number: int) -> list[bytes]:
        """Events from `number` to the head that are still in memory, shown or not."""
        return self._events[max(0, number - self.first) :]

    def page(self, after: int, max_bytes: int) -> list[bytes] | None:
        """Shown events after `after`, about `max_bytes` of them; None if they are no longer in memory."""
        if after + 1 < self.first:
            return None
        start = after + 1 - self.first
        stop = self.shown + 1 - self.first
        page: list[bytes] = []
        size = 0
        for event in self._events[start:stop]:
            page.append(event)
            size += len(event)
            if size >= max_bytes:
                break
        return page

    def _show(self, last: int) -> None:
        if last <= self.shown:
            return
        begin = self.shown + 1
        self.shown = last
        if self._listeners:
            batch = Batch(begin, self._events[begin - self.first : last + 1 - self.first])
            for listener in list(self._listeners):
                if listener not in self._listeners:
                    continue  # one before it made it leave
                try:
                    listener(batch)
                except Exception:  # one reader must not stop the run or the others
                    log.exception("listener_crashed", response_id=self.run_id)
                    self.unlisten(listener)
        if not self._kept:
            self._trim()

    def _trim(self) -> None:
        """Let go of old events: durable ones that can be read back, any of a run that lives in memory only."""
        if self._bytes <= self._window_bytes:
            return
        # What nobody saw yet stays, and so does the newest of a run in memory: it may be the terminal event.
        limit = min(self.durable, self.shown) if self._kept else self.shown - 1
        dropped = 0
        # Half the window at once, so that a long run is not shifted event by event.
        while self._bytes > self._window_bytes // 2 and self.first + dropped <= limit:
            self._bytes -= len(self._events[dropped])
            dropped += 1
        del self._events[:dropped]
        self.first += dropped
