"""Every event that extensions hear, how it is dispatched, and what it carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from antiphon.hooks import RunEnded, RunEvent, RunRequest, RunStarted, RunUsage, SkillDispatch

Mode = Literal["waterfall", "parallel", "bail", "emit"]
"""waterfall: each handler stands around the next one. parallel: all at once, all awaited. bail: one after the
other until one gives something. emit: nobody waits."""


@dataclass(frozen=True, slots=True)
class Event:
    """How one event is dispatched."""

    mode: Mode
    payload: type


EVENTS: dict[str, Event] = {
    "agent.run": Event("waterfall", RunRequest),
    "skill.find": Event("bail", SkillDispatch),
    "run.started": Event("parallel", RunStarted),
    "run.created": Event("emit", RunEvent),
    "run.step.started": Event("emit", RunEvent),
    "run.tool.called": Event("emit", RunEvent),
    "run.tool.waiting": Event("emit", RunEvent),
    "run.tool.resolved": Event("emit", RunEvent),
    "run.usage": Event("emit", RunUsage),
    "run.loop_detected": Event("emit", RunEvent),
    "run.degraded": Event("emit", RunEvent),
    "run.steered": Event("emit", RunEvent),
    "run.updated": Event("emit", RunEvent),
    "run.completed": Event("emit", RunEnded),
    "run.incomplete": Event("emit", RunEnded),
    "run.failed": Event("emit", RunEnded),
    "run.cancelled": Event("emit", RunEnded),
}


class IllegalDispatch(Exception):
    """An event that does not exist, or one that is dispatched as another kind or with another payload."""


def check(event: str, mode: Mode, payload: object) -> None:
    """Raises IllegalDispatch unless the table has the event in this mode with this payload."""
    known = EVENTS.get(event)
    if known is None:
        raise IllegalDispatch(f"there is no event {event!r}")
    if known.mode != mode:
        raise IllegalDispatch(f"{event} is dispatched by {known.mode}, not by {mode}")
    if not isinstance(payload, known.payload):
        raise IllegalDispatch(f"{event} carries {known.payload.__name__}, not {type(payload).__name__}")
