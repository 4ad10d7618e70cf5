"""Who hears what happens to runs: before the first call of a model, and ever after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from antiphon.errors import HookError
from antiphon.governance.hooks.calling import Failure
from antiphon.governance.hooks.dispatch import Dispatcher
from antiphon.governance.hooks.events import EVENTS
from antiphon.hooks import RunEvent, RunStarted

STARTED = "run.started"


class LifecycleEntry(Protocol):
    """What is read of an entry of the lifecycle log."""

    @property
    def event(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def row(self) -> dict[str, Any]: ...
    @property
    def data(self) -> Mapping[str, Any]: ...
    @property
    def at(self) -> float: ...


class Observers:
    """All observers of the server."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @property
    def await_starts(self) -> bool:
        """Whether anybody is told that a run starts."""
        return self._dispatcher.listens(STARTED)

    async def started(self, run: RunStarted) -> tuple[Failure, ...]:
        """Tell all at once that a run starts, and wait for each, at most its time; the barrier before the model.

        Gives what failed of optional observers. Raises HookError if a required one failed.
        """
        failures = await self._dispatcher.parallel(STARTED, run)
        if any(failure.required for failure in failures):
            raise HookError("An observer that has to know of every run did not take this one.")
        return failures

    def told(self, tenant: str, entry: LifecycleEntry) -> None:
        """Something happened; an observer of the lifecycle log. Never waits, never raises."""
        event = entry.event
        if event == STARTED or not self._dispatcher.listens(event):
            return
        payload: type[RunEvent] = EVENTS[event].payload
        self._dispatcher.emit(event, payload(event, tenant, entry.run_id, entry.row, entry.data, entry.at))
