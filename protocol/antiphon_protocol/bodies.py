"""Bodies of the HTTP routes that are not a response (PROTOCOL 11)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from antiphon_protocol.base import Count, Id, Metadata, Wire, opt
from antiphon_protocol.errors import ErrorBody
from antiphon_protocol.held import Lease
from antiphon_protocol.input_items import InputItem
from antiphon_protocol.notices import Steer
from antiphon_protocol.response import Response, Usage
from antiphon_protocol.runstate import RunState


class ErrorResponse(Wire):
    """Body of every refusal.

    `response` only with `cursor_expired`: the response as it now is. `input` only of an inject: what it brought.
    """

    error: ErrorBody
    response: Response | None = opt()
    input: list[Any] | None = opt()


class ResponseDeleted(Wire):
    """Body of DELETE."""

    id: Id
    object: Literal["response"]
    deleted: Literal[True]


class Injected(Wire):
    """Body of an inject that was taken."""

    object: Literal["response.inject"]
    response_id: Id
    sequence_number: Count = Field(description="The last logged one of the run.")
    duplicate: Literal[True] | None = opt("It had been taken from this sender before.")


class Inject(Wire):
    """Body of a POST that answers held calls."""

    input: list[Any]


class CallToClaim(Wire):
    """Body of a POST that claims a held call."""

    call_id: Id
    lease_ms: Lease | None = opt()
    fence: Count | None = opt()


class ClaimToKeep(Wire):
    """Body of a POST that renews or releases a claim."""

    call_id: Id
    fence: Count
    lease_ms: Lease | None = opt()


class Claimed(Wire):
    """Body of a claim, a renewal or a release. `expires_at`: Unix seconds, `null` after a release."""

    object: Literal["response.claim"]
    response_id: Id
    call_id: Id
    fence: Count
    expires_at: float | None


class Steered(Wire):
    """Body of a steer that was taken. `successor`: what the run that follows will be called, if one follows."""

    object: Literal["response.steer"]
    steer: Steer
    successor: Id


class InputItemList(Wire):
    """A page of a response's own input."""

    object: Literal["list"]
    data: list[InputItem]
    first_id: Id | None
    last_id: Id | None
    has_more: bool


class RunList(Wire):
    """A page of the runs of a conversation, newest first."""

    object: Literal["list"]
    data: list[RunState]
    has_more: bool


class Conversation(Wire):
    """A conversation that a client made. `created_at`: Unix seconds."""

    id: Id
    object: Literal["conversation"]
    created_at: Count
    metadata: Metadata


class ConversationDeleted(Wire):
    """Body of DELETE. Its responses stay."""

    id: Id
    object: Literal["conversation.deleted"]
    deleted: Literal[True]


class ConversationCreate(Wire):
    """Body of `POST /v1/conversations`."""

    items: Annotated[list[InputItem], Field(max_length=20)] | None = None
    metadata: Metadata | None = None


class ConversationUpdate(Wire):
    """Body of a POST to a conversation: what is in the place of its metadata from now on."""

    metadata: Metadata | None


class ConversationItemsCreate(Wire):
    """Body of a POST to the items of a conversation."""

    items: Annotated[list[InputItem], Field(min_length=1, max_length=20)]


class ConversationItemList(Wire):
    """A page of the items of a conversation."""

    object: Literal["list"]
    data: list[InputItem]
    first_id: Id | None
    last_id: Id | None
    has_more: bool


class CompactedResponse(Wire):
    """Body of `POST /v1/responses/compact`. `output` is the input of a new chain; the id cannot be continued."""

    id: Id
    object: Literal["response.compaction"]
    created_at: Count
    output: list[InputItem]
    usage: Usage


class InputTokens(Wire):
    """Body of `POST /v1/responses/input_tokens`, as the model's own upstream counts."""

    object: Literal["response.input_tokens"]
    input_tokens: Count


class Model(Wire):
    """A model a create can name. `created` is Unix seconds."""

    id: Id
    object: Literal["model"]
    created: Count
    owned_by: str


class ModelList(Wire):
    """Body of `GET /v1/models`."""

    object: Literal["list"]
    data: list[Model]


class Ticket(Wire):
    """Answer to `POST /v1/tickets`. `expires_at`: Unix seconds until which it can be used, once."""

    object: Literal["ticket"]
    ticket: Id
    expires_at: float


class Caller(Wire):
    """Body of `GET /v1/me`: who the credentials of the request stand for."""

    object: Literal["principal"]
    id: Id
    tenant: Id
    role: Literal["viewer", "driver", "operator", "admin"]


class TicketFor(Wire):
    """Body of `POST /v1/tickets`; it may be left out. `origin`: the page's, where a server asks for it."""

    origin: Annotated[str, Field(min_length=1, max_length=300)] | None = None


class SteerBody(Wire):
    """Body of a POST that steers: a text, or messages of the user."""

    model_config = ConfigDict(extra="forbid")

    input: str | list[Any]


class AgentShown(Wire):
    """An agent as the caller may see it: what it is told is for operators. `source`: user, community or system."""

    object: Literal["agent"]
    name: Id
    source: str


class AgentList(Wire):
    """Body of `GET /v1/agents`."""

    object: Literal["list"]
    data: list[AgentShown]


class AgentDeleted(Wire):
    """Body of DELETE of an agent."""

    object: Literal["agent"]
    name: Id
    deleted: Literal[True]


class Holding(Wire):
    """Body of a pause or an emergency stop; it may be left out. `cancel`: what runs ends too."""

    model_config = ConfigDict(extra="forbid")

    cancel: bool = False


class TenantStanding(Wire):
    """Body of a pause or a resume."""

    object: Literal["tenant"]
    id: Id
    paused: bool


class ServerStanding(Wire):
    """Body of an emergency stop or its end."""

    object: Literal["server"]
    stopped: bool


class UsageTotal(Wire):
    """What calls of models used. `cost`: of those whose price is known, `null` where none is."""

    calls: Count
    input_tokens: Count
    cached_tokens: Count
    output_tokens: Count
    reasoning_tokens: Count
    total_tokens: Count
    cost: float | None
    unpriced_calls: Count
    estimated_calls: Count


class UsageGroup(UsageTotal):
    """The same for one tenant, agent, model or day (`YYYY-MM-DD`, UTC), whichever was asked for."""

    tenant: str | None = opt()
    agent: str | None = opt()
    model: str | None = opt()
    day: str | None = opt()
    runs: Count


class UsageReport(Wire):
    """Body of `GET /v1/usage`."""

    object: Literal["usage"]
    by: Literal["tenant", "agent", "model", "day"]
    from_: str = Field(alias="from")
    to: str
    data: list[UsageGroup]
    total: UsageTotal


class AuditEntry(Wire):
    """Who did what, when, on what. `at`: Unix seconds. `tenant`: of who did it."""

    id: Id
    at: float
    tenant: str
    principal: str
    action: str
    target: str
    detail: dict[str, Any]


class AuditLog(Wire):
    """Body of `GET /v1/admin/audit`, the newest first."""

    object: Literal["list"]
    data: list[AuditEntry]


class Health(Wire):
    """Body of `/health` and `/ready`."""

    status: Literal["ok", "ready", "starting", "draining", "unavailable"]
