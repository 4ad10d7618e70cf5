"""Lanes of one connection (PROTOCOL "Lanes"): FIFO within a lane, lanes concurrent, a bound on running turns.

A ticket is whatever the caller queues. Methods return what to start now; they never wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from antiphon.errors import RequestError

Ticket = TypeVar("Ticket", bound=Hashable)
LaneName = str | None
"""None is the default lane, whose events carry no `stream_id`."""

MAX_NAME_CHARS = 256
_NAME_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def check_lane_name(name: object) -> str:
    """A legal `stream_id`. Raises RequestError `invalid_stream_id`."""
    if isinstance(name, str) and 1 <= len(name) <= MAX_NAME_CHARS and _NAME_CHARS.issuperset(name):
        return name
    raise RequestError(
        f"stream_id must be 1-{MAX_NAME_CHARS} characters of A-Z a-z 0-9 _ . -",
        code="invalid_stream_id",
        param="stream_id",
    )


@dataclass(slots=True)
class _Lane(Generic[Ticket]):
    running: Ticket | None = None
    waiting: deque[Ticket] = field(default_factory=deque)


class Lanes(Generic[Ticket]):
    """The queue of one connection."""

    def __init__(self, *, max_running: int, max_named: int, max_waiting: int) -> None:
        self._lanes: dict[LaneName, _Lane[Ticket]] = {}
        self._of: dict[Ticket, LaneName] = {}
        self._ready: deque[LaneName] = deque()
        """Idle lanes that have a turn waiting for a running slot, in order of arrival."""
        self._named = 0
        self._parked: set[Ticket] = set()
        """Started turns that wait for a client's tool: they take no running slot."""
        self._running = 0
        self._waiting = 0
        self._max_running = max_running
        self._max_named = max_named
        self._max_waiting = max_waiting

    @property
    def running(self) -> int:
        """Started turns that do not wait for a tool."""
        return self._running

    @property
    def waiting(self) -> int:
        return self._waiting

    def submit(self, lane: LaneName, ticket: Ticket) -> list[Ticket]:
        """Queue a turn; gives the tickets to start now (this one or none).

        Raises RequestError `websocket_stream_limit_reached` or `too_many_queued`; nothing is queued then.
        """
        if self._waiting >= self._max_waiting:
            raise RequestError(
                f"{self._waiting} turns of this connection are already waiting.", code="too_many_queued"
            )
        state = self._lanes.get(lane)
        if state is None:
            state = self._open(lane)
        state.waiting.append(ticket)
        self._of[ticket] = lane
        self._waiting += 1
        if state.running is None and len(state.waiting) == 1:
            self._ready.append(lane)
        return self._start()

    def finished(self, ticket: Ticket) -> list[Ticket]:
        """A started turn ended; gives the tickets to start now."""
        lane = self._of[ticket]
        state = self._lanes[lane]
        if state.running != ticket:
            raise ValueError("only a started turn can finish")
        del self._of[ticket]
        state.running = None
        self._unpark(ticket)
        self._running -= 1
        if state.waiting:
            self._ready.append(lane)
        return self._start()

    def park(self, ticket: Ticket) -> list[Ticket]:
        """A started turn waits for a tool: another may run meanwhile; gives the tickets to start now."""
        if ticket in self._of and ticket not in self._parked and self._lanes[self._of[ticket]].running == ticket:
            self._parked.add(ticket)
            self._running -= 1
        return self._start()

    def unpark(self, ticket: Ticket) -> None:
        """A parked turn goes on. It is not made to wait again, so that more than the limit may run for a while."""
        self._unpark(ticket)

    def _unpark(self, ticket: Ticket) -> None:
        if ticket in self._parked:
            self._parked.discard(ticket)
            self._running += 1

    def clear_waiting(self) -> list[Ticket]:
        """Take out every turn that has not started, in order of arrival within each lane."""
        gone = [ticket for state in self._lanes.values() for ticket in state.waiting]
        for state in self._lanes.values():
            state.waiting.clear()
        for ticket in gone:
            del self._of[ticket]
        self._ready.clear()
        self._waiting = 0
        return gone

    def knows(self, lane: LaneName) -> bool:
        return lane in self._lanes

    def _open(self, lane: LaneName) -> _Lane[Ticket]:
        if lane is not None:
            if self._named >= self._max_named:
                raise RequestError(
                    f"This connection used its {self._max_named} named lanes; reuse one or reconnect.",
                    code="websocket_stream_limit_reached",
                    param="stream_id",
                )
            self._named += 1
        state = self._lanes[lane] = _Lane()
        return state

    def _start(self) -> list[Ticket]:
        started = []
        while self._ready and self._running < self._max_running:
            state = self._lanes[self._ready.popleft()]
            state.running = state.waiting.popleft()
            self._waiting -= 1
            self._running += 1
            started.append(state.running)
        return started
