"""Where events get their numbers, and where those of a mixed round wait for the server's own calls.

A round in which the server has calls to execute is shown in this order: what came before the first such call goes
out at once, and so do the starts of the unbroken run of such calls that it begins. Everything behind waits until
the calls were executed, and follows in the order of the output. What stands behind a request for approval waits
until that is complete, because only then it is announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

MAX_HELD_EVENTS = 10_000
MAX_HELD_BYTES = 32 * 1024 * 1024

_OF_NO_ITEM = 1 << 60


class HeldTooMuch(Exception):
    """More waits behind a call than a round may hold back."""


class EventSink:
    """Numbers events and collects them. next_number: the sequence number of the next one."""

    __slots__ = (
        "_held",
        "_held_bytes",
        "_held_events",
        "_hold_from",
        "_limit",
        "_out",
        "_unannounced",
        "_unbroken",
        "next_number",
    )

    def __init__(self) -> None:
        self.next_number = 0
        self._out: list[bytes] = []
        self._hold_from: int | None = None
        """Events of items from this output index on wait for calls of the server; None: none does."""
        self._unannounced: list[int] = []
        """Items that are announced when they are complete; those behind wait, so that indices come in order."""
        self._limit: int | None = None
        """The lowest index whose events wait, for either reason."""
        self._unbroken = False
        self._held: dict[int, list[tuple[bytes, bytes]]] = {}
        self._held_events = self._held_bytes = 0

    def put(self, index: int | None, head: bytes, rest: bytes) -> None:
        """An event of the item at output index `index` (None: of no item), in two parts: its number comes between.

        Raises HeldTooMuch.
        """
        if self._limit is not None and (index is None or index >= self._limit):
            self._hold(_OF_NO_ITEM if index is None else index, head, rest)
            return
        number = self.next_number
        self._out.append(b"%b%d%b" % (head, number, rest))
        self.next_number = number + 1

    def emit(self, index: int | None, event_type: str, fields: dict[str, Any]) -> None:
        """As `put`, for an event that is not prepared. `fields` may hold `orjson.Fragment`."""
        self.put(index, b'{"type":"%b","sequence_number":' % event_type.encode(), b"," + orjson.dumps(fields)[1:])

    def holds(self, index: int) -> bool:
        """Whether events of the item at `index` wait."""
        return self._limit is not None and index >= self._limit

    def take(self) -> list[bytes]:
        """What was numbered since the last call."""
        out, self._out = self._out, []
        return out

    def item_begins(self, index: int, *, server_owned: bool, start_waits: bool) -> None:
        """An item is about to be announced. start_waits: so does the start of a first server-owned call."""
        if self._hold_from is None:
            if server_owned:
                self._hold_from = index if start_waits else index + 1
                self._unbroken = not start_waits
        elif server_owned and self._unbroken:
            self._hold_from = index + 1
        else:
            self._unbroken = False
        self._set_limit()

    def announced_later(self, index: int) -> None:
        """The item at `index` is announced when it is complete: the items behind it wait until `announced`."""
        self._unannounced.append(index)
        self._set_limit()

    def announced(self, index: int) -> None:
        """That happened: what waited for it follows. Raises HeldTooMuch."""
        self._unannounced.remove(index)
        self._set_limit()
        limit = self._limit
        for waiting in sorted(self._held):
            if limit is not None and waiting >= limit:
                break
            for head, rest in self._held.pop(waiting):
                self._held_events -= 1
                self._held_bytes -= len(rest)
                self.put(None if waiting == _OF_NO_ITEM else waiting, head, rest)

    def release(self, indices: Iterable[int], finish: Callable[[int], None]) -> None:
        """Number everything that waits in the order of the output, with `finish(index)` behind each item's events.

        Events of no item come last.
        """
        held, self._held = self._held, {}
        self._hold_from, self._unbroken = None, False
        self._unannounced.clear()
        self._limit = None
        self._held_events = self._held_bytes = 0
        for index in indices:
            for head, rest in held.pop(index, ()):
                self.put(index, head, rest)
            finish(index)
        for index in sorted(held):
            for head, rest in held[index]:
                self.put(None if index == _OF_NO_ITEM else index, head, rest)

    def _set_limit(self) -> None:
        behind = self._unannounced[0] + 1 if self._unannounced else None
        if behind is None or self._hold_from is None:
            self._limit = self._hold_from if behind is None else behind
        else:
            self._limit = min(behind, self._hold_from)

    def _hold(self, index: int, head: bytes, rest: bytes) -> None:
        self._held.setdefault(index, []).append((head, rest))
        self._held_events += 1
        self._held_bytes += len(rest)
        if self._held_bytes > MAX_HELD_BYTES or self._held_events > MAX_HELD_EVENTS:
            raise HeldTooMuch
