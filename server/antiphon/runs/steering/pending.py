"""Steers whose target ended on open calls: they wait for the create that answers those (PROTOCOL 7.3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from antiphon.core.run_state import RunState
from antiphon.core.steering import SteerBook
from antiphon.runs.run import Create, CreatorConnection, Run

_KEPT = 1024
"""Targets whose steers are kept; the oldest make room. A client that never answers its calls costs no more."""


@dataclass(slots=True, eq=False)
class Pending:
    """The steers of one ended run. claimed: a create that may still be refused holds them."""

    steers: SteerBook
    state: RunState
    creator: CreatorConnection | None
    lane: Any
    claimed: bool = False

    def may_be_taken_by(self, create: Create) -> bool:
        """While the creator's connection lives they are for its lane; after that for whoever goes on."""
        if self.creator is None or not self.creator.open:
            return True
        return create.connection is self.creator and create.raw.get("stream_id") == self.lane


class PendingSteers:
    """Pending steers by the response they were for. In memory only."""

    def __init__(self) -> None:
        self._by_target: OrderedDict[str, Pending] = OrderedDict()
        self.on_change: Callable[[Pending], None] = lambda pending: None
        """Called when steers were applied or had to be given up."""

    def keep(self, run: Run) -> None:
        """The run ended on open calls."""
        create = run.create
        self._by_target[run.id] = Pending(run.steers, run.state, create.connection, create.raw.get("stream_id"))
        if len(self._by_target) > _KEPT:
            self.give_up(next(iter(self._by_target)))

    def give_up(self, response_id: str) -> None:
        """Nobody will continue this response."""
        pending = self._by_target.pop(response_id, None)
        if pending is not None:
            pending.steers.fail()
            self.on_change(pending)

    def claim(self, create: Create) -> Pending | None:
        """The steers that this create takes with it, until `release` or `commit`."""
        parent = create.request.previous_response_id
        pending = self._by_target.get(parent) if parent is not None else None
        if pending is None or pending.claimed or create.request.is_warm_up:
            return None
        if not pending.may_be_taken_by(create):
            return None
        pending.claimed = True
        return pending

    def release(self, pending: Pending | None) -> None:
        """The create was refused; the steers wait on."""
        if pending is not None:
            pending.claimed = False

    def commit(self, pending: Pending | None) -> None:
        """The create became a run, with the steers in its input."""
        if pending is not None and self._by_target.pop(pending.state.response_id, None) is not None:
            pending.steers.apply()
            self.on_change(pending)
