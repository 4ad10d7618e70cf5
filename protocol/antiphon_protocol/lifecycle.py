"""One entry of the lifecycle feed (PROTOCOL 16)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from antiphon_protocol.base import Id, Wire
from antiphon_protocol.runstate import RunState

LIFECYCLE_EVENTS: dict[str, str] = {
    "run.created": "The run exists.",
    "run.started": "Its work began.",
    "run.step.started": "A call of the model begins. `data`: `step`, `model`.",
    "run.degraded": "Another model answers than the one asked for. `data`: `fallback_from`, `fallback_to`.",
    "run.usage": "A call of the model was charged. `data`: `step`, `input`, `output`, `total`, `cached`, "
    "`reasoning`, `cost`, `estimated`.",
    "run.loop_detected": "The model repeats itself. `data`: `repeats`, `action` (`warn`, `force`, `halt`), `kind` "
    "(`text`, `call`).",
    "run.tool.called": "A tool was called. `data`: `call_id`, `name`, `owner`.",
    "run.tool.waiting": "It waits for a client to answer. `data`: `call_id`, `name`, `owner`, `deadline`.",
    "run.tool.resolved": "A call has its answer. `data`: `call_id`, `name`, `owner`, `by`, `ok`, `duration_ms`.",
    "run.steered": "Something was said to the run, or is heard now. `data`: `steer_id`, `by`, `stage`.",
    "run.updated": "Its state changed in another way, or is said again.",
    "run.completed": "The end. `data` of all four: `usage`, `cost`, `code`, `by`.",
    "run.incomplete": "The end: cut by the model, or ended on purpose.",
    "run.failed": "The end: by a fault.",
    "run.cancelled": "The end: somebody stopped it.",
}
"""Every event this release writes, and what it says."""


class LifecycleEntry(Wire):
    """What is published on a tenant's channel, and kept in its stream."""

    epoch: Id = Field(description="Of the feed, not of the run.")
    rev: int = Field(ge=1, description="Counts the tenant's entries within the epoch, without a hole.")
    event: str = Field(pattern=r"^run\.[a-z_.]+$")
    run: RunState = Field(description="The run after the event.")
    data: dict[str, Any]
    at: float = Field(description="Unix seconds.")
