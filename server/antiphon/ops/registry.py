"""The run registry: the state of every live run, and of ended ones for a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import structlog

from antiphon.core.run_state import TERMINAL, RunState, State
from antiphon.ops.lifecycle import Lifecycle, Told
from antiphon.ports import Clock

log = structlog.get_logger(__name__)

KEEP_ENDED_S = 60.0

StateListener = Callable[[RunState], None]


class RunRegistry:
    """Every change of a run's state goes through here, and from here to the lifecycle log and to listeners."""

    def __init__(self, lifecycle: Lifecycle, clock: Clock) -> None:
        self._lifecycle = lifecycle
        self._clock = clock
        self._states: dict[str, RunState] = {}
        self._ended: dict[str, float] = {}
        """When each run ended that is still listed."""
        self._listeners: dict[str, dict[StateListener, None]] = {}
        self.on_start: StateListener = lambda state: None
        """Called with each run that begins here."""
        self.on_give: StateListener = lambda state: None
        """Called with each run that goes on at another node."""
        self.on_change: StateListener = lambda state: None
        """Called after every change that listeners are told of."""

    def start(self, state: RunState) -> None:
        """A run exists from now on."""
        self._states[state.response_id] = state
        self._lifecycle.record("run.created", state)
        self.on_start(state)

    def adopt(self, state: RunState, told: Told, fence: int) -> None:
        """A run of another process is ours from now on, or is found to be over; what its feed lacks is said.

        told: what the feed has of it. fence: the one this node took the run with.
        """
        self._states[state.response_id] = state
        if state.state in TERMINAL:
            self._ended[state.response_id] = self._clock.now()
        self._lifecycle.take_over(state, told, fence)

    def give(self, state: RunState) -> None:
        """A run goes on elsewhere; its listeners are told by `tell` from here on."""
        self.on_give(state)
        self._states.pop(state.response_id, None)
        self._ended.pop(state.response_id, None)

    def tell_all(self, tenant: str) -> None:
        """The feed began anew: say again how each live run of the tenant stands."""
        for state in list(self._states.values()):
            if state.tenant == tenant and state.state not in TERMINAL:
                self._lifecycle.record("run.updated", state)

    def get(self, response_id: str) -> RunState:
        """Raises KeyError for a run that is not live and did not end within the last minute."""
        return self._states[response_id]

    def lists(self, response_id: str) -> bool:
        """Whether the run is live or ended within the last minute."""
        return response_id in self._states

    def change(
        self,
        state: RunState,
        to: State | None = None,
        *,
        event: str = "run.updated",
        data: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Change fields and perhaps the state, number it, tell listeners. Raises IllegalTransition."""
        now = self._clock.now()
        for name, value in fields.items():
            setattr(state, name, value)
        if to is not None:
            state.to(to, now)
            if to in TERMINAL and state.response_id in self._states:
                self._ended[state.response_id] = now
        else:
            state.touch(now)
        self._lifecycle.record(event, state, data)
        self.tell(state)
        self.on_change(state)

    def tell(self, state: RunState) -> None:
        """Call the listeners of a run whose state is what they should see now."""
        self._call(self._listeners.get(state.response_id, {}), state)

    def note(self, state: RunState, *, event: str, data: dict[str, Any] | None = None, **fields: Any) -> None:
        """Record an event that changes at most `usage` and `head`: no new revision, told with the next change."""
        for name, value in fields.items():
            setattr(state, name, value)
        self._lifecycle.record(event, state, data)

    def listen(self, response_id: str, listener: StateListener) -> None:
        """Call `listener` after every change of this run."""
        self._listeners.setdefault(response_id, {})[listener] = None

    def unlisten(self, response_id: str, listener: StateListener) -> None:
        listeners = self._listeners.get(response_id)
        if listeners is not None:
            listeners.pop(listener, None)
            if not listeners:
                del self._listeners[response_id]

    def _call(self, listeners: Iterable[StateListener], state: RunState) -> None:
        for listener in list(listeners):
            try:
                listener(state)
            except Exception:  # one watcher must not stop the run
                log.exception("state_listener_crashed", response_id=state.response_id)

    def prune(self) -> None:
        """Let go of runs that ended more than a minute ago, and of what happened to tenants that are long idle."""
        self._lifecycle.prune()
        now = self._clock.now()
        for response_id in [i for i, ended_at in self._ended.items() if ended_at + KEEP_ENDED_S <= now]:
            del self._states[response_id], self._ended[response_id]

    def __iter__(self) -> Iterator[RunState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)
