"""A run that another node owns, as this node's clients see it: a mirror of its log and of its state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from antiphon.core.cursor import Epochs
from antiphon.core.history import Turn
from antiphon.core.run_state import RunState
from antiphon.journal.log import RunLog
from antiphon.runs.run import Followed

FindSuccessor = Callable[[str], Awaitable[Followed | None]]


class RemoteRun:
    """See `runs/run.py: Followed`. owner: id of the node that has it, empty while nobody does.

    log and state may be those of a run that was this node's own: its followers keep them.
    """

    turn: Turn | None = None
    lost = False

    def __init__(
        self, log: RunLog, state: RunState, owner: str, first: int, find_successor: FindSuccessor
    ) -> None:
        self.log = log
        self.state = state
        self.owner = owner
        self.first = first
        """Lowest number that can still be read."""
        self.left = asyncio.Event()
        self._find_successor = find_successor
        self._successor: asyncio.Task[Followed | None] | None = None

    @property
    def id(self) -> str:
        return self.log.run_id

    @property
    def stored(self) -> bool:
        return self.log.stored

    @property
    def holds(self) -> bool:
        return True  # it may wait for clients: whoever delivers it looks at its state

    @property
    def successor_id(self) -> str | None:
        successor: str | None = (self.state.terminal or {}).get("successor")
        return successor

    @property
    def successor(self) -> asyncio.Future[Followed | None] | None:
        """The run that follows, looked for once it was announced."""
        if self._successor is None and (successor_id := self.successor_id) is not None:
            self._successor = asyncio.ensure_future(self._find_successor(successor_id))
        return self._successor


def update(state: RunState, row: Mapping[str, Any]) -> bool:
    """Take over the row that the owner published; whether it is news."""
    if row["revision"] < state.revision or (row["revision"] == state.revision and row["state"] == state.state):
        state.head = max(state.head, row["head"])
        return False
    for name in RunState.__dataclass_fields__:
        if name in row:
            setattr(state, name, row[name])
    return True


def state_of(row: Mapping[str, Any]) -> RunState:
    """A state from its published row."""
    return RunState(**{name: row[name] for name in RunState.__dataclass_fields__ if name in row})


def extends(old: Epochs, new: Epochs) -> int | None:
    """Where an epoch that followed ours began, if the new list only goes on from the old one, else None."""
    known = len(old.entries)
    if len(new.entries) > known and new.entries[:known] == old.entries:
        return new.entries[known][1]
    return None
