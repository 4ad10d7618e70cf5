"""A create, checked: what the fields of `response.create` or `POST /v1/responses` must look like.

Unknown fields are ignored at every level, except inside our own `antiphon` object. Item kinds nobody knows yet
are kept and passed on.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    field_validator,
    model_validator,
)

from antiphon.core.assembly.item import CALL_TYPES, OUTPUT_TYPES
from antiphon.core.compaction import has_trigger, threshold_tokens
from antiphon.core.faults import refusal
from antiphon.core.tool_registry import check_schema
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
Name = Annotated[StrictStr, Field(min_length=1)]
Metadata = dict[Annotated[str, Field(max_length=64)], Annotated[StrictStr, Field(max_length=512)]]


_CODEX_TRACEPARENT = "ws_request_header_traceparent"


class AntiphonOptions(BaseModel):
    """Our fields of a create. Unknown keys are refused: a misspelt wish must not be lost silently.

    client_tools: `return` (the response completes with open calls) or `hold` (the run waits for their outputs).
    deadline_s: how long a held call waits; on_expiry: what happens then: `fail` (an error output for the model),
    `cancel` (the run ends) or `wait`. side_effects: tools of the client whose calls stay with who was asked first.
    on_disconnect: `continue`, or the seconds a run outlives its last listener. labels: set by the client for
    dashboards. visibility: `tenant` or `private` (creator and operators). upstream_authorization: the caller's
    own credential for an upstream that allows it; never stored or echoed. agent: its name. context: names of the
    context providers to ask, None for those of the agent. traceparent: the span of the caller (W3C Trace Context).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    client_tools: Literal["return", "hold"] = "return"
    deadline_s: Annotated[float, Field(strict=True, gt=0, le=604_800)] = 600.0
    on_expiry: Literal["fail", "cancel", "wait"] = "fail"
    side_effects: list[Annotated[str, Field(max_length=256)]] = Field(default_factory=list, max_length=1024)
    on_disconnect: Literal["continue"] | Annotated[float, Field(strict=True, ge=0, le=86_400)] | None = None
    labels: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=256)]] = Field(
        default_factory=dict, max_length=16
    )
    visibility: Literal["tenant", "private"] = "tenant"
    upstream_authorization: Annotated[str, Field(min_length=1, max_length=8192)] | None = None
    agent: StrictStr | None = None
    context: tuple[Annotated[StrictStr, Field(max_length=64)], ...] | None = Field(None, max_length=64)
    traceparent: Annotated[StrictStr, Field(max_length=512)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, given: Any) -> Any:
        return (
            {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else given
        )


class _Tool(BaseModel):
    type: Name


class _Format(BaseModel):
    type: Name


class _Text(BaseModel):
    format: _Format | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class _Reasoning(BaseModel):
    effort: StrictStr | None = None
    summary: StrictStr | None = None


class _Prompt(BaseModel):
    id: Name
    version: StrictStr | None = None
    variables: dict[str, Any] | None = None


class _StreamOptions(BaseModel):
    include_obfuscation: StrictBool | None = None


class _BackgroundOptions(BaseModel):
    completion_window: Literal["soonest", "2h", "8h"] | None = None
    continuation_id: StrictStr | None = None


class CreateRequest(BaseModel):
    """The fields the server itself reads. Everything else travels to the upstream in `raw`.

    model: absent it is the agent's, or the server's default; the create of a run always has one.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: StrictStr | None = Field(None, min_length=1, max_length=256)
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
    max_tool_calls: Annotated[StrictInt, Field(ge=1)] | None = None
    max_output_tokens: Annotated[StrictInt, Field(ge=16)] | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0, le=20)] | None = None
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] | None = None
    metadata: Annotated[Metadata, Field(max_length=16)] | None = None
    text: _Text | None = None
    reasoning: _Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: StrictStr | None = None
    safety_identifier: StrictStr | None = None
    prompt_cache_key: StrictStr | None = None
    prompt_cache_retention: StrictStr | None = None
    prompt_cache_options: dict[str, Any] | None = None
    service_tier: StrictStr | None = None
    prompt: _Prompt | None = None
    image: dict[str, Any] | None = None
    access_programs: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None
    stream_options: _StreamOptions | None = None
    background_options: _BackgroundOptions | None = None
    multi_agent: dict[str, Any] | None = None
    context_management: list[Any] | None = None
    idempotency_key: Annotated[StrictStr, Field(min_length=1, max_length=256)] | None = None
    client_metadata: Any = None
    antiphon: AntiphonOptions = Field(default_factory=AntiphonOptions)

    @field_validator("antiphon", mode="before")
    @classmethod
    def _null_is_absent(cls, given: Any) -> Any:
        return {} if given is None else given

    @property
    def traceparent(self) -> str | None:
        """The span of the caller: in our object, or where Codex has it on sockets."""
        if self.antiphon.traceparent is not None:
            return self.antiphon.traceparent
        given = self.client_metadata.get(_CODEX_TRACEPARENT) if isinstance(self.client_metadata, dict) else None
        return given if isinstance(given, str) else None

    @property
    def conversation_id(self) -> str | None:
        """The conversation of the client that this turn belongs to, None where it names none."""
        named = self.conversation
        given = named.get("id") if isinstance(named, dict) else named
        return given if isinstance(given, str) else None

    @property
    def stored(self) -> bool:
        return self.store is not False

    @property
    def is_warm_up(self) -> bool:
        return self.generate is False

    @property
    def wants_compaction(self) -> bool:
        """Whether the input ends with a `compaction_trigger`: the history is compacted, nothing is answered."""
        return isinstance(self.input, list) and has_trigger(self.input)

    def items(self) -> list[dict[str, Any]]:
        """The input as items, whatever form it was sent in."""
        if isinstance(self.input, str):
            return [{"type": "message", "role": "user", "content": self.input}]
        if not any(_is_bare_reference(item) for item in self.input):
            return self.input
        return [{**item, "type": "item_reference"} if _is_bare_reference(item) else item for item in self.input]


def parse_create(raw: dict[str, Any]) -> CreateRequest:
    """Check a create body. Raises RequestError naming the field at fault."""
    try:
        request = CreateRequest.model_validate(raw)
    except ValidationError as error:
        raise refusal(error, raw) from error
    check_includes(request.include or ())
    if request.conversation is not None:
        _check_conversation(request)
    if (param := not_offered(request)) is not None:
        raise RequestError(f"{param} is not offered.", code="unsupported_parameter", param=param)
    for index, tool in enumerate(raw.get("tools") or ()):
        _check_tool(tool, f"tools[{index}]")
    _check_choice(request.tool_choice)
    if not isinstance(request.input, str):
        check_items(request.input, "input")
    threshold_tokens(request.context_management)
    if request.wants_compaction and request.is_warm_up:
        raise RequestError("A compaction_trigger asks for a model call; leave generate out.", param="generate")
    return request


def not_offered(request: CreateRequest) -> str | None:
    """The first field that asks for what no run here can have; None if none does.

    A moderation's findings would have no place in our response. A run begins at once, whatever its window, and
    events are as long as what they say.
    """
    stream, background = request.stream_options, request.background_options
    asked = {
        "multi_agent": request.multi_agent is not None and bool(request.multi_agent.get("enabled")),
        "moderation": request.moderation is not None,
        "stream_options.include_obfuscation": stream is not None and bool(stream.include_obfuscation),
        "background_options.completion_window": background is not None
        and background.completion_window not in (None, "soonest"),
        "background_options.continuation_id": background is not None and background.continuation_id is not None,
    }
    return next((param for param, is_asked in asked.items() if is_asked), None)


def check_includes(names: Iterable[str]) -> None:
    """Raises RequestError for what cannot be included."""
    for name in names:
        if name not in INCLUDES:
            raise RequestError(f"include does not know {name[:80]!r}.", param="include")


def _check_conversation(request: CreateRequest) -> None:
    if not request.conversation_id:
        raise RequestError("conversation is an id, or an object that has one.", param="conversation")
    if request.previous_response_id is not None:
        raise RequestError("Give previous_response_id or conversation, not both.", param="conversation")
    if not request.stored:
        raise RequestError("A conversation keeps what is said in it; leave store out.", param="store")
    if request.antiphon.visibility == "private":
        raise RequestError("What is said in a conversation is visible to its tenant.", param="antiphon.visibility")


def _check_tool(tool: dict[str, Any], place: str) -> None:
    """What a response echoes of a client's own tools. Those of an upstream are its business."""
    if tool["type"] not in ("function", "custom"):
        return
    _check_name(tool, place)
    if not isinstance(tool.get("description"), (str, type(None))):
        raise RequestError("A description is a string.", param=f"{place}.description")
    if tool["type"] == "function":
        check_schema(tool.get("parameters"), f"{place}.parameters")
    if tool["type"] == "function" and not isinstance(tool.get("strict"), (bool, type(None))):
        raise RequestError("strict is a boolean.", param=f"{place}.strict")


def _check_choice(choice: str | dict[str, Any] | None) -> None:
    if isinstance(choice, str) and choice not in ("none", "auto", "required"):
        raise RequestError("tool_choice is none, auto, required or an object.", param="tool_choice")
    if isinstance(choice, dict):
        if not isinstance(choice.get("type"), str) or not choice["type"]:
            raise RequestError("The tool to choose needs a type.", param="tool_choice.type")
        if choice["type"] in ("function", "custom"):
            _check_name(choice, "tool_choice")


def _check_name(named: dict[str, Any], place: str) -> None:
    if not isinstance(named.get("name"), str) or not named["name"]:
        raise RequestError("This needs a name.", param=f"{place}.name")


_MAX_ID_BYTES = 1024
"""Items are found by their ids, and no index takes much more."""

_TEXT_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def check_items(items: list[dict[str, Any]], field: str) -> None:
    """Whether items look like what they say they are. field: where they were sent. Raises RequestError."""
    for index, item in enumerate(items):
        place = f"{field}[{index}]"
        kind = "item_reference" if _is_bare_reference(item) else item.get("type", "message")
        if not isinstance(kind, str):
            raise RequestError("An item's type is a string.", param=f"{place}.type")
        if not isinstance(item.get("id"), (str, type(None))):
            raise RequestError("An item's id is a string.", param=f"{place}.id")
        if len((item.get("id") or "").encode()) > _MAX_ID_BYTES:
            raise RequestError(f"An item's id has at most {_MAX_ID_BYTES} bytes.", param=f"{place}.id")
        if kind == "message":
            _check_message(item, place)
        if kind == "compaction" and not (isinstance(sealed := item.get("encrypted_content"), str) and sealed):
            raise RequestError("A compaction needs its encrypted_content.", param=f"{place}.encrypted_content")
        _check_call(kind, item, place)


def _is_bare_reference(item: dict[str, Any]) -> bool:
    """The vendor takes an item with nothing but an id as a reference."""
    return item.get("id") is not None and item.keys() <= {"id", "type"} and item.get("type") is None


def _check_message(item: dict[str, Any], place: str) -> None:
    if not isinstance(item.get("role"), str):
        raise RequestError("A message needs a role.", param=f"{place}.role")
    if not isinstance(item.get("content"), (str, list)):
        raise RequestError("A message needs content: a string or a list of parts.", param=f"{place}.content")
    if isinstance(item["content"], list):
        _check_parts(item["content"], f"{place}.content")


def _check_call(kind: str, item: dict[str, Any], place: str) -> None:
    if kind in CALL_TYPES or (kind in OUTPUT_TYPES and kind != "local_shell_call_output"):
        if not isinstance(item.get("call_id"), str) or not item["call_id"]:
            raise RequestError("A call and its output need a call_id.", param=f"{place}.call_id")
    elif not isinstance(item.get("call_id"), (str, type(None))):
        raise RequestError("call_id is a string.", param=f"{place}.call_id")
    if kind in _TEXT_OUTPUTS and not isinstance(item.get("output"), (str, list)):
        raise RequestError("An output is a string or a list of parts.", param=f"{place}.output")


def _check_parts(parts: list[Any], place: str) -> None:
    for index, part in enumerate(parts):
        if not isinstance(part, dict):
            raise RequestError("A part is an object.", param=f"{place}[{index}]")
        if not isinstance(part.get("type"), str) or not part["type"]:
            raise RequestError("A part needs a type.", param=f"{place}[{index}].type")
