"""RunState: what is true about a run and not in its log (PROTOCOL 10.6). No prompt or output is in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from antiphon_protocol.base import Count, Id, Wire, opt
from antiphon_protocol.held import Participant, ParticipantCount, PendingCall, ResolvedCall
from antiphon_protocol.response import Usage

State = Literal["queued", "running", "waiting_for_tool", "completed", "incomplete", "failed", "cancelled"]
Origin = Literal["websocket", "http", "sse", "background", "skill", "python"]


class Terminal(Wire):
    """How the run ended."""

    status: Literal["completed", "incomplete", "failed", "cancelled"]
    code: str | None = opt("The reason of an incomplete run, the error code of a failed one.")
    by: str | None = opt("Principal that cancelled the run.")
    successor: Id | None = opt("The run that follows because this one was steered.")


class SteerState(Wire):
    """A steering message: `accepted` while the run goes on, `pending` while it waits for outputs of the client,
    `applied` in the input of another response, or `failed`."""

    id: Id
    stage: Literal["accepted", "pending", "applied", "failed"]
    principal: Id = Field(description="Who sent it.")


class RunState(Wire):
    """One run as its watchers see it. The one with the highest `revision` is the true one.

    Times are Unix seconds. Changes of `head`, `usage`, `cost` and `updated_at` alone do not raise `revision`.
    Fields of later releases are empty in this one.
    """

    response_id: Id
    conversation_id: Id | None = None
    tenant: Id
    labels: dict[str, str] = Field(default_factory=dict)
    visibility: Literal["tenant", "private"] = "tenant"
    epoch: Id = Field(description="The current epoch of the log.")
    revision: Count
    stalled: bool = Field(default=False, description="Nothing came from the upstream for a while.")
    degraded: bool = Field(default=False, description="The store is away; the end waits for it.")
    fallback_from: str | None = opt("The model that was asked first.")
    state: State
    agent: str | None = None
    agent_source: Literal["user", "community", "system"] | None = None
    model: Id
    upstream: str | None = Field(default=None, description="Name of the configured upstream.")
    origin: Origin
    principal: Id = Field(description="Who created the run.")
    created_at: float
    started_at: float | None = None
    updated_at: float
    step: Count = Field(default=0, description="Model calls begun so far.")
    current_tool: str | None = None
    head: int = Field(ge=-1, description="Number of the last event in the log, -1 while it is empty.")
    pending_calls: list[PendingCall] = Field(default_factory=list, description="Held calls without an answer.")
    open_calls: list[Id] = Field(default_factory=list, description="Calls a completed run left to answer.")
    resolved_calls: list[ResolvedCall] = Field(default_factory=list, description="The last 100, oldest first.")
    participants: list[Participant] | list[ParticipantCount] = Field(default_factory=list)
    steers: list[SteerState] = Field(default_factory=list)
    usage: Usage | None = None
    usage_estimated: Literal[True] | None = opt("`usage` and `cost` hold an estimate.")
    cost: float | None = None
    terminal: Terminal | None = None
    expires_at: float | None = opt("When the log can no longer be attached to.")
