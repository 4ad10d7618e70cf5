"""The response object, its usage, its ways to end."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from antiphon_protocol.base import Count, Id, JsonObject, Wire, opt, other_than, type_names, type_of
from antiphon_protocol.items import Item
from antiphon_protocol.tools import Tool, ToolChoice

Status = Literal["queued", "in_progress", "completed", "failed", "cancelled", "incomplete"]


class InputTokensDetails(Wire):
    """Where input tokens came from."""

    cached_tokens: Count
    cache_write_tokens: Count


class OutputTokensDetails(Wire):
    """What output tokens went into."""

    reasoning_tokens: Count


class Usage(Wire):
    """Tokens of all model calls of the run."""

    input_tokens: Count
    input_tokens_details: InputTokensDetails
    output_tokens: Count
    output_tokens_details: OutputTokensDetails
    total_tokens: Count


class ResponseError(Wire):
    """Why a run failed: a run code of PROTOCOL 12, or the upstream's own code."""

    code: Id
    message: str


class IncompleteDetails(Wire):
    """Why a run ended early: a reason of PROTOCOL 8.2, or the upstream's own."""

    reason: Id


class TextFormat(Wire):
    """Free text."""

    type: Literal["text"]


class JsonObjectFormat(Wire):
    """Some JSON object."""

    type: Literal["json_object"]


class JsonSchemaFormat(Wire):
    """JSON after a schema."""

    type: Literal["json_schema"]
    name: Id
    schema_: JsonObject | None = Field(alias="schema")
    description: str | None = opt()
    strict: bool | None = opt()


class UnknownFormat(Wire):
    """A format this version does not know. It is passed on as it is."""

    model_config = other_than(lambda: FORMAT_TYPES)

    type: Id


KnownFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]
FORMAT_TYPES: frozenset[str] = type_names(KnownFormat)


def _format_kind(value: Any) -> str:
    return "known" if type_of(value) in FORMAT_TYPES else "unknown"


Format = Annotated[
    Annotated[KnownFormat, Tag("known")] | Annotated[UnknownFormat, Tag("unknown")],
    Discriminator(_format_kind),
]


class TextConfig(Wire):
    """How text is to look, as a response echoes it."""

    format: Format
    verbosity: Literal["low", "medium", "high"] | None = opt()


class ReasoningConfig(Wire):
    """How hard the model thinks, as a response echoes it."""

    effort: str | None
    summary: str | None


class ConversationRef(Wire):
    """The conversation a client named."""

    id: Id


class Response(Wire):
    """A response: what GET answers and what lifecycle events carry.

    Times are Unix seconds. Everything required here is always sent, `null` where there is nothing to say;
    `usage` and `completed_at` are `null` until the end.
    """

    id: Id
    object: Literal["response"]
    created_at: Count
    completed_at: Count | None
    status: Status
    background: bool
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | list[Any] | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: Id
    output: list[Item]
    parallel_tool_calls: bool
    previous_response_id: Id | None
    prompt_cache_key: str | None
    reasoning: ReasoningConfig | None
    safety_identifier: str | None
    service_tier: str
    store: bool
    temperature: float
    text: TextConfig
    tool_choice: ToolChoice
    tools: list[Tool]
    top_logprobs: Count
    top_p: float
    presence_penalty: float
    frequency_penalty: float
    truncation: Literal["auto", "disabled"]
    usage: Usage | None
    user: str | None = opt()
    conversation: ConversationRef | None = opt()
