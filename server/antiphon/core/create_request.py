"""A create, checked: what the fields of `response.create` or `POST /v1/responses` must look like.

Unknown fields are ignored at every level, except inside our own `antiphon` object. Item kinds nobody knows yet
are kept and passed on.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from antiphon.errors import RequestError

INCLUDES = frozenset(
    {
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
    }
)

Number = StrictInt | StrictFloat
Metadata = dict[Annotated[str, Field(max_length=64)], Annotated[StrictStr, Field(max_length=512)]]


class AntiphonOptions(BaseModel):
    """Our fields of a create. Unknown keys are refused: a misspelt wish must not be lost silently.

    on_disconnect: `continue`, or the seconds a run outlives its last listener. labels: set by the client for
    dashboards. visibility: `tenant` or `private` (creator and operators). upstream_authorization: the caller's
    own credential for an upstream that allows it; never stored or echoed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    on_disconnect: Literal["continue"] | Annotated[float, Field(ge=0, le=86_400)] | None = None
    labels: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=256)]] = Field(
        default_factory=dict, max_length=16
    )
    visibility: Literal["tenant", "private"] = "tenant"
    upstream_authorization: Annotated[str, Field(min_length=1, max_length=8192)] | None = None


class _Tool(BaseModel):
    type: StrictStr


class CreateRequest(BaseModel):
    """The fields the server itself reads. Everything else travels to the upstream in `raw`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: StrictStr = Field(min_length=1, max_length=256)
    input: StrictStr | list[dict[str, Any]] = Field(default_factory=list)
    previous_response_id: StrictStr | None = None
    conversation: StrictStr | dict[str, Any] | None = None
    instructions: StrictStr | list[Any] | None = None
    store: StrictBool | None = None
    stream: StrictBool | None = None
    background: StrictBool | None = None
    generate: StrictBool | None = None
    include: list[StrictStr] | None = None
    tools: list[_Tool] | None = None
    tool_choice: StrictStr | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    max_tool_calls: StrictInt | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=1)] | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    metadata: Annotated[Metadata, Field(max_length=16)] | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: StrictStr | None = None
    safety_identifier: StrictStr | None = None
    prompt_cache_key: StrictStr | None = None
    service_tier: StrictStr | None = None
    multi_agent: dict[str, Any] | None = None
    idempotency_key: Annotated[StrictStr, Field(min_length=1, max_length=256)] | None = None
    antiphon: AntiphonOptions = Field(default_factory=AntiphonOptions)

    @property
    def stored(self) -> bool:
        return self.store is not False

    @property
    def is_warm_up(self) -> bool:
        return self.generate is False

    def items(self) -> list[dict[str, Any]]:
        """The input as items, whatever form it was sent in."""
        if isinstance(self.input, str):
            return [{"type": "message", "role": "user", "content": self.input}]
        return self.input


def parse_create(raw: dict[str, Any]) -> CreateRequest:
    """Check a create body. Raises RequestError naming the field at fault."""
    try:
        request = CreateRequest.model_validate(raw)
    except ValidationError as error:
        raise _refusal(error, raw) from error
    for value in request.include or ():
        if value not in INCLUDES:
            raise RequestError(f"include does not know {value[:80]!r}.", param="include")
    if request.conversation is not None:
        if request.previous_response_id is not None:
            raise RequestError("Give previous_response_id or conversation, not both.", param="conversation")
        raise RequestError(
            "Named conversations are not offered yet; chain with previous_response_id.",
            code="unsupported_parameter",
            param="conversation",
        )
    if request.multi_agent and request.multi_agent.get("enabled"):
        raise RequestError("multi_agent is not offered.", code="unsupported_parameter", param="multi_agent")
    if not isinstance(request.input, str):
        _check_items(request.input)
    return request


def _check_items(items: list[dict[str, Any]]) -> None:
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if not isinstance(kind, str):
            raise RequestError("An item's type is a string.", param=f"input[{index}].type")
        if kind == "message" and not isinstance(item.get("role"), str):
            raise RequestError("A message needs a role.", param=f"input[{index}].role")
        if kind == "message" and not isinstance(item.get("content"), (str, list)):
            raise RequestError(
                "A message needs content: a string or a list of parts.", param=f"input[{index}].content"
            )
        if "call_id" in item and not isinstance(item["call_id"], (str, type(None))):
            raise RequestError("call_id is a string.", param=f"input[{index}].call_id")


def _refusal(error: ValidationError, raw: dict[str, Any]) -> RequestError:
    """The first fault, as a sentence with its place."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = [part for part in first["loc"] if not _is_branch(part)]
    param = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if first["type"] == "missing":
        message = f"{param} is required."
    elif first["type"] == "extra_forbidden":
        message = f"{param} is not a field of the antiphon object."
    else:
        message = f"{param}: {first['msg'].removeprefix('Input ')[:200]}."
    return RequestError(message, param=param or None)


def _is_branch(part: int | str) -> bool:
    """Names that pydantic puts into a path for the branch of a union, which no client wrote."""
    return isinstance(part, str) and (
        part.startswith(("constrained-", "function-", "literal[", "list[", "dict["))
        or part in ("str", "int", "float")
    )
