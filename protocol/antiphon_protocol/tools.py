"""Tools a create offers, tools a response echoes, and the choice among them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from antiphon_protocol.base import Count, Id, JsonObject, Wire, opt, other_than, type_names, type_of


class FunctionToolParam(Wire):
    """A function of the client, as a create offers it. `parameters` is a JSON Schema."""

    type: Literal["function"]
    name: Id
    description: str | None = opt()
    parameters: JsonObject | None = opt()
    strict: bool | None = opt()


class FunctionTool(Wire):
    """The same as a response echoes it: all five fields are there."""

    type: Literal["function"]
    name: Id
    description: str | None
    parameters: JsonObject | None
    strict: bool | None


class CustomTool(Wire):
    """A tool with free text as input, possibly held to a grammar."""

    type: Literal["custom"]
    name: Id
    description: str | None = opt()
    format: JsonObject | None = opt()


class NamespaceTool(Wire):
    """A group of function and custom tools under one name."""

    type: Literal["namespace"]
    name: Id
    description: str
    tools: list[JsonObject]


class McpToolParam(Wire):
    """Tools of an MCP server. `authorization` and `headers` are secrets: never echoed, logged or stored."""

    type: Literal["mcp"]
    server_label: Id
    server_url: str | None = opt()
    server_description: str | None = opt()
    authorization: str | None = opt()
    headers: dict[str, str] | None = opt()
    allowed_tools: list[str] | JsonObject | None = opt()
    require_approval: str | JsonObject | None = opt()


class FileSearchTool(Wire):
    """Search in uploaded files."""

    type: Literal["file_search"]
    vector_store_ids: list[str]
    filters: JsonObject | None = opt()
    max_num_results: Count | None = opt()
    ranking_options: JsonObject | None = opt()


class ComputerTool(Wire):
    """A computer to click in."""

    type: Literal["computer"]


class ComputerUsePreviewTool(Wire):
    """The older computer tool. Sizes in pixels."""

    type: Literal["computer_use_preview"]
    display_height: Count
    display_width: Count
    environment: Literal["windows", "mac", "linux", "ubuntu", "browser"]


class WebSearchTool(Wire):
    """Search on the web."""

    type: Literal["web_search", "web_search_2025_08_26"]
    external_web_access: bool | None = opt()
    filters: JsonObject | None = opt()
    search_context_size: Literal["low", "medium", "high"] | None = opt()
    user_location: JsonObject | None = opt()


class WebSearchPreviewTool(Wire):
    """The older web search."""

    type: Literal["web_search_preview", "web_search_preview_2025_03_11"]
    search_content_types: list[str] | None = opt()
    search_context_size: Literal["low", "medium", "high"] | None = opt()
    user_location: JsonObject | None = opt()


class CodeInterpreterTool(Wire):
    """Code in a container, named by id or described."""

    type: Literal["code_interpreter"]
    container: str | JsonObject


class ImageGenerationTool(Wire):
    """Make images."""

    type: Literal["image_generation"]


class LocalShellTool(Wire):
    """A shell on the client's machine."""

    type: Literal["local_shell"]


class ShellTool(Wire):
    """A shell, local or in a container."""

    type: Literal["shell"]
    environment: JsonObject | None = opt()


class ApplyPatchTool(Wire):
    """Change files by patches."""

    type: Literal["apply_patch"]


class ToolSearchTool(Wire):
    """Find tools that are not loaded."""

    type: Literal["tool_search"]
    execution: Literal["server", "client"] | None = opt()
    description: str | None = opt()
    parameters: Any = opt()


class ProgrammaticToolCallingTool(Wire):
    """Programs that call tools."""

    type: Literal["programmatic_tool_calling"]


class UnknownTool(Wire):
    """A tool of a kind this version does not know. It is passed on as it is."""

    model_config = other_than(lambda: TOOL_TYPES)

    type: Id


HostedTool = (
    CustomTool
    | NamespaceTool
    | McpToolParam
    | FileSearchTool
    | ComputerTool
    | ComputerUsePreviewTool
    | WebSearchTool
    | WebSearchPreviewTool
    | CodeInterpreterTool
    | ImageGenerationTool
    | LocalShellTool
    | ShellTool
    | ApplyPatchTool
    | ToolSearchTool
    | ProgrammaticToolCallingTool
)
KnownToolParam = Annotated[FunctionToolParam | HostedTool, Field(discriminator="type")]
KnownTool = Annotated[FunctionTool | HostedTool, Field(discriminator="type")]
TOOL_TYPES: frozenset[str] = type_names(KnownTool)


def _tool_kind(value: Any) -> str:
    return "known" if type_of(value) in TOOL_TYPES else "unknown"


ToolParam = Annotated[
    Annotated[KnownToolParam, Tag("known")] | Annotated[UnknownTool, Tag("unknown")], Discriminator(_tool_kind)
]
"""Any tool, as a client offers it."""

Tool = Annotated[
    Annotated[KnownTool, Tag("known")] | Annotated[UnknownTool, Tag("unknown")], Discriminator(_tool_kind)
]
"""Any tool, as a response echoes it."""


class ChooseNamed(Wire):
    """The model must call this tool."""

    type: Literal["function", "custom"]
    name: Id


class ChooseMcp(Wire):
    """The model must call a tool of this MCP server, or the one named."""

    type: Literal["mcp"]
    server_label: Id
    name: str | None = opt()


class ChooseAmong(Wire):
    """The model may (`auto`) or must (`required`) call one of these."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[JsonObject]


class ChooseHosted(Wire):
    """The model must call the hosted tool of this type."""

    model_config = other_than(lambda: CHOICE_TYPES)

    type: Id


KnownChoice = Annotated[ChooseNamed | ChooseMcp | ChooseAmong, Field(discriminator="type")]
CHOICE_TYPES: frozenset[str] = type_names(KnownChoice)


def _choice_kind(value: Any) -> str:
    if isinstance(value, str):
        return "mode"
    return "known" if type_of(value) in CHOICE_TYPES else "hosted"


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("mode")]
    | Annotated[KnownChoice, Tag("known")]
    | Annotated[ChooseHosted, Tag("hosted")],
    Discriminator(_choice_kind),
]
"""Which tool, if any, the model has to call."""
