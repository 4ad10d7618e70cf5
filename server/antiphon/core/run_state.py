"""The state of a run beside its log: what is not a Responses event (PROTOCOL "RunState").

Legal transitions stand in one table; `RunState.to` is the only writer of `state`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

State = Literal["queued", "running", "waiting_for_tool", "completed", "incomplete", "failed", "cancelled"]
Origin = Literal["websocket", "http", "sse", "background", "skill", "python"]

TERMINAL: frozenset[str] = frozenset({"completed", "incomplete", "failed", "cancelled"})

TRANSITIONS: dict[str, frozenset[str]] = {
    "queued": frozenset({"running"}) | TERMINAL,
    "running": frozenset({"waiting_for_tool"}) | TERMINAL,
    "waiting_for_tool": frozenset({"running"}) | TERMINAL,
    "completed": frozenset(),
    "incomplete": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}


class IllegalTransition(Exception):
    """A state change that the table does not allow: a fault of ours."""

    def __init__(self, response_id: str, old: str, new: str) -> None:
        super().__init__(f"run {response_id} cannot go from {old} to {new}")


@dataclass(slots=True)
class RunState:
    """One run as dashboards and attached clients see it. Never prompts, arguments or outputs.

    revision counts changes that are worth telling; head, usage and updated_at ride along.
    created_at, started_at, updated_at: Unix seconds. usage, cost: of all its model calls so far; cost in the
    currency of the prices, None where one is unknown. usage_estimated: not every upstream counted. feed_n,
    feed_fence are not part of the row: the number of the run's last lifecycle entry, and the fence under which its
    owner speaks in the feed that nodes share; nor is traceparent, the span of the caller that the run belongs to,
    as it came.
    """

    response_id: str
    conversation_id: str
    tenant: str
    principal: str
    model: str
    upstream: str
    origin: Origin
    epoch: str
    created_at: float
    updated_at: float
    labels: dict[str, str] = field(default_factory=dict)
    visibility: str = "tenant"
    agent: str | None = None
    agent_source: str | None = None
    state: State = "queued"
    revision: int = 0
    started_at: float | None = None
    step: int = 0
    current_tool: str | None = None
    head: int = -1
    pending_calls: list[dict[str, Any]] = field(default_factory=list)
    open_calls: list[str] = field(default_factory=list)
    resolved_calls: list[dict[str, Any]] = field(default_factory=list)
    participants: list[dict[str, Any]] = field(default_factory=list)
    steers: list[dict[str, Any]] = field(default_factory=list)
    stalled: bool = False
    degraded: bool = False
    fallback_from: str | None = None
    usage: dict[str, Any] | None = None
    usage_estimated: bool = False
    cost: float | None = None
    terminal: dict[str, Any] | None = None
    expires_at: float | None = None
    feed_n: int = 0
    feed_fence: int = 1
    traceparent: str | None = None

    def to(self, state: State, now: float) -> None:
        """Change state. Raises IllegalTransition."""
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransition(self.response_id, self.state, state)
        self.state = state
        self.touch(now)
        if state == "running" and self.started_at is None:
            self.started_at = now

    def touch(self, now: float) -> None:
        """Something worth telling changed."""
        self.revision += 1
        self.updated_at = now

    def row(self) -> dict[str, Any]:
        """The wire form, with the fields later releases fill."""
        return {
            "response_id": self.response_id,
            "conversation_id": self.conversation_id,
            "tenant": self.tenant,
            "labels": self.labels,
            "visibility": self.visibility,
            "epoch": self.epoch,
            "revision": self.revision,
            "stalled": self.stalled,
            "degraded": self.degraded,
            **({"fallback_from": self.fallback_from} if self.fallback_from else {}),
            "started_at": self.started_at,
            "state": self.state,
            "agent": self.agent,
            "agent_source": self.agent_source,
            "model": self.model,
            "upstream": self.upstream,
            "origin": self.origin,
            "principal": self.principal,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "step": self.step,
            "current_tool": self.current_tool,
            "head": self.head,
            "pending_calls": self.pending_calls,
            "open_calls": self.open_calls,
            "resolved_calls": self.resolved_calls,
            "participants": self.participants,
            "steers": self.steers,
            "usage": self.usage,
            **({"usage_estimated": True} if self.usage_estimated else {}),
            "cost": self.cost,
            "terminal": self.terminal,
            "expires_at": self.expires_at,
        }
