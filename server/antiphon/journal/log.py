"""The log of one run in its owner's memory: the newest events, who listens, and how much is durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.journal.frames import Batch

log = structlog.get_logger(__name__)

Listener = Callable[[Batch], None]


class LogOrderError(Exception):
    """Somebody tried to write a number that does not follow the head: a fault of ours."""


class RunLog:
    """Events `first`..`head` of one run.

    head: last number written. shown: last number readers may see (behind the head in strict mode).
    durable: last number that survives the process. ended: the terminal event is shown.
    """

    __slots__ = (
        "_bytes",
        "_events",
        "_listeners",
        "_strict",
        "_window_bytes",
        "durable",
        "ended",
        "epochs",
        "first",
        "head",
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
    ) -> None:
        self.run_id = run_id
        self.epochs = epochs
        self.stored = stored
        self.head = self.shown = self.durable = head
        self.first = head + 1
        self.ended = False
        self._events: list[bytes] = []
        self._bytes = 0
        self._window_bytes = window_bytes
        self._strict = strict
        self._listeners: dict[Listener, None] = {}

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

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each batch that is shown from now on."""
        self._listeners[listener] = None

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
        if not self.stored:
            self._trim()

    def _trim(self) -> None:
        """Let go of old events: durable ones of a stored run, any of a run that lives in memory only."""
        if self._bytes <= self._window_bytes:
            return
        # What nobody saw yet stays, and so does the newest of a run in memory: it may be the terminal event.
        limit = min(self.durable, self.shown) if self.stored else self.shown - 1
        dropped = 0
        # Half the window at once, so that a long run is not shifted event by event.
        while self._bytes > self._window_bytes // 2 and self.first + dropped <= limit:
            self._bytes -= len(self._events[dropped])
            dropped += 1
        del self._events[:dropped]
        self.first += dropped
