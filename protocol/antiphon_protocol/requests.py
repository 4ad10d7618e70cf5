"""What a client sends in the standard vocabulary: the create, and the small frames beside it (PROTOCOL 5, 7)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from antiphon_protocol.base import Count, Id, JsonObject, Metadata, StreamId, Wire, opt, type_names
from antiphon_protocol.extension import AnyCommand
from antiphon_protocol.input_items import InputItem
from antiphon_protocol.response import ConversationRef
from antiphon_protocol.tools import ToolChoice, ToolParam

Short = Annotated[str, Field(max_length=64)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=256)]


class CreateExtras(Wire):
    """Our own object in a create. It is never sent upstream, and an unknown key in it is refused."""

    model_config = ConfigDict(extra="forbid")

    client_tools: Literal["return", "hold"] | None = opt(
        "`return`: the response completes with the client's calls open. `hold`: the run waits for their outputs."
    )
    deadline_s: Annotated[float, Field(gt=0, le=604_800)] | None = opt("How long a held call waits, seconds.")
    on_expiry: Literal["fail", "cancel", "wait"] | None = opt("What happens then.")
    side_effects: list[str] | None = opt("Tools of the client whose calls stay with who was asked first.")
    on_disconnect: Literal["continue"] | Annotated[float, Field(ge=0, le=86_400)] | None = opt(
        "`continue`, or seconds after which a run that nobody listens to is cancelled."
    )
    labels: dict[Short, Annotated[str, Field(max_length=256)]] | None = opt("Shown in RunState.", max_length=16)
    visibility: Literal["tenant", "private"] | None = opt("`private`: only the creator and operators see the run.")
    agent: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$")] | None = opt(
        'The agent of the run; the same as `model: "agent:<name>"`.'
    )
    context: list[Short] | None = opt(
        "Names of configured context providers, in place of the agent's.", max_length=64
    )
    upstream_authorization: str | None = opt("The caller's own upstream credential. Never echoed, logged, stored.")
    traceparent: Annotated[str, Field(max_length=512)] | None = opt(
        "The span of the caller that the run belongs to (W3C Trace Context)."
    )


class CompactionRule(Wire):
    """When a history is compacted. compact_threshold: tokens."""

    type: Literal["compaction"]
    compact_threshold: Annotated[int, Field(ge=1000)] | None = None


class PromptTemplate(Wire):
    """A prompt kept by the upstream. variables: a text or an input part for each name."""

    id: Id
    version: str | None = None
    variables: JsonObject | None = None


class StreamOptions(Wire):
    """Events are never padded."""

    include_obfuscation: Literal[False] | None = None


class BackgroundOptions(Wire):
    """A run begins at once."""

    completion_window: Literal["soonest"] | None = None


class CreateRequest(Wire):
    """The body of a create, the same on HTTP and on the socket. Unknown fields are ignored."""

    model: Id | None = None
    input: str | list[InputItem] = Field(default_factory=list)
    instructions: str | list[Any] | None = None
    previous_response_id: Id | None = None
    conversation: Id | ConversationRef | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    generate: bool | None = None
    tools: list[ToolParam] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[int, Field(ge=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=16)] | None = None
    text: JsonObject | None = None
    reasoning: JsonObject | None = None
    include: list[str] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: Metadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    prompt: PromptTemplate | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: JsonObject | None = None
    image: JsonObject | None = None
    access_programs: JsonObject | None = None
    service_tier: str | None = None
    stream_options: StreamOptions | None = None
    background_options: BackgroundOptions | None = None
    context_management: list[CompactionRule] | None = None
    antiphon: CreateExtras | None = None


class ResponseCreate(CreateRequest):
    """A create on a socket."""

    type: Literal["response.create"]
    stream_id: StreamId | None = opt()
    idempotency_key: IdempotencyKey | None = opt()


class ResponseCancel(Wire):
    """End this run. Its terminal event is the answer."""

    type: Literal["response.cancel"]
    response_id: Id


class ResponseProcessed(Wire):
    """Older clients say that they have read a response. Ignored."""

    type: Literal["response.processed"]
    response_id: str | None = opt()


class ResponseSteer(Wire):
    """Words for a run in progress."""

    type: Literal["response.steer"]
    previous_response_id: Id
    input: str | list[Any]


class AnswerExtras(Wire):
    """Our own object in an injected output. It is taken out; an unknown key in it is refused."""

    model_config = ConfigDict(extra="forbid")

    result_id: Annotated[str, Field(min_length=1, max_length=256)] | None = opt(
        "The sender's name of this result: a repeat under it is recognised from any connection."
    )
    fence: Count | None = opt("Of the claim under which it was made.")


class ResponseInject(Wire):
    """Outputs for the held calls of a run in progress: all of them are taken, or none. See `AnswerExtras`."""

    type: Literal["response.inject"]
    response_id: Id
    input: list[Any]


AnyRequest = ResponseCreate | ResponseCancel | ResponseProcessed | ResponseSteer | ResponseInject

ClientRequest = Annotated[AnyRequest, Field(discriminator="type")]
ClientEvent = Annotated[AnyRequest | AnyCommand, Field(discriminator="type")]
"""Every frame from client to server."""

REQUEST_TYPES: frozenset[str] = type_names(ClientRequest)

client_request: TypeAdapter[AnyRequest] = TypeAdapter(ClientRequest)
client_event: TypeAdapter[AnyRequest | AnyCommand] = TypeAdapter(ClientEvent)
create_request: TypeAdapter[CreateRequest] = TypeAdapter(CreateRequest)
