"""Who is attached to which run, told to everybody else in time and not one by one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from antiphon.core.participants import MAX_ROWS
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock
from antiphon.runs.run import Run

_SOON_S = 0.05
_CROWD_S = 1.0
"""How long changes are collected: longer where thousands come at once."""


def shown_calls(run: Run, now: float) -> list[dict[str, Any]]:
    """The pending calls as RunState shows them, with the connections that are asked at this moment."""
    held = run.held
    if held is None or held.over:
        return []
    eligible: dict[str, list[str]] = {}
    for call in held.pending:
        could = run.roster.asked(call.tool, run.state.labels)
        asked = held.ask(call.call_id, [participant.identity for participant in could])
        eligible[call.call_id] = [p.connection for p in could if p.identity in asked][:MAX_ROWS]
    return held.pending_rows(now, eligible)


@dataclass(slots=True)
class _Notice:
    """A change that is still to be told. revision: of the state when it began. more: others followed."""

    timer: asyncio.TimerHandle
    revision: int
    more: bool = False


class Attendance:
    """Keeps `RunState.participants` true. A change that comes with another one costs no revision of its own.

    The state is true at once, so that who asks for it is told right; telling those who wait takes its time. In a
    crowd, where each change would cost as much as the crowd is large, both do.
    """

    def __init__(self, registry: RunRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._notices: dict[str, _Notice] = {}

    def changed(self, run: Run) -> None:
        """Somebody came, went or does something else: tell it soon, and with anything that is told before."""
        if run.phase != "streaming":
            return
        notice = self._notices.get(run.id)
        crowd = len(run.roster) > MAX_ROWS
        if notice is None or not crowd:
            self._show(run)
        if notice is not None:
            notice.more = True
            return
        wait_s = _CROWD_S if crowd else _SOON_S
        timer = asyncio.get_running_loop().call_later(wait_s, self._tell, run)
        self._notices[run.id] = _Notice(timer, run.state.revision)

    def close(self, run: Run) -> None:
        """The run ends; what is not told yet goes with its last state."""
        notice = self._notices.pop(run.id, None)
        if notice is not None:
            notice.timer.cancel()
            self._show(run)

    def _tell(self, run: Run) -> None:
        notice = self._notices.pop(run.id)
        if run.phase != "streaming" or (run.state.revision > notice.revision and not notice.more):
            return
        self._show(run)
        self._registry.change(run.state)

    def _show(self, run: Run) -> None:
        run.state.participants = run.roster.rows()
        run.state.pending_calls = shown_calls(run, self._clock.now())
