"""Held calls and who takes part in a run (PROTOCOL 7.4, 10.6): the rows of RunState, and what losers are told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon_protocol.base import Count, Id, Wire, opt

Lease = Annotated[int, Field(ge=100, le=600_000)]
"""Milliseconds."""


class CallClaim(Wire):
    """Somebody works on a call. `instance` tells clients of one principal apart."""

    holder: Id = Field(description="The principal.")
    instance: Id | None = opt()
    expires_at: float = Field(description="Unix seconds; the claim ends then unless it is renewed.")


class PendingCall(Wire):
    """A call the run waits for. Its arguments are in the log only."""

    call_id: Id
    name: Id
    arguments_sha256: Id = Field(description="Of the arguments as they were shown, hex.")
    kind: Literal["function", "custom", "computer", "local_shell", "shell", "apply_patch", "approval"]
    eligible: list[Id] = Field(description="Connections that are asked to answer and may claim it, at most 100.")
    claim: CallClaim | None
    deadline: float = Field(description="Unix seconds.")


class ResolvedCall(Wire):
    """A call that has its answer. `by`: the principal who gave it, or `system:deadline`."""

    call_id: Id
    by: Id
    instance: Id | None = opt()
    at: float = Field(description="Unix seconds.")


class Participant(Wire):
    """A connection that is attached to the run."""

    connection: Id
    principal: Id
    role: Literal["viewer", "driver", "operator", "admin"]
    state: Literal["watching", "typing", "executing"]
    label: str | None


class ParticipantCount(Wire):
    """In the place of names where more than 100 are attached."""

    role: Literal["viewer", "driver", "operator", "admin"]
    state: Literal["watching", "typing", "executing"]
    count: Count


class CallConflict(Wire):
    """The fields that stand beside the codes of held calls."""

    winner: ResolvedCall | None = opt("With `already_resolved`: who answered the call.")
    holder: Id | None = opt("With `claim_held`: the principal who works on the call.")
    instance: Id | None = opt("With `claim_held`: its instance, if it named one.")
    expires_at: float | None = opt("With `claim_held`: when the claim ends, Unix seconds.")
