"""Events of audio and of tools that run at the upstream. We number them, map their ids and pass them on."""

from __future__ import annotations

from typing import Literal

from antiphon_protocol.base import Count, Id, Wire, opt
from antiphon_protocol.events_response import Event, OfItem
from antiphon_protocol.items_shell import ShellOutput


class AudioDelta(Event):
    """More audio, base64."""

    type: Literal["response.audio.delta"]
    delta: str


class AudioDone(Event):
    """The audio is finished."""

    type: Literal["response.audio.done"]


class AudioTranscriptDelta(Event):
    """More of the audio's words."""

    type: Literal["response.audio.transcript.delta"]
    delta: str


class AudioTranscriptDone(Event):
    """The words are finished."""

    type: Literal["response.audio.transcript.done"]


class CodeInterpreterState(OfItem):
    """A code interpreter call moved on."""

    type: Literal[
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
    ]


class CodeInterpreterCodeDelta(OfItem):
    """More code."""

    type: Literal["response.code_interpreter_call_code.delta"]
    delta: str


class CodeInterpreterCodeDone(OfItem):
    """All the code."""

    type: Literal["response.code_interpreter_call_code.done"]
    code: str


class CompactionCompacting(OfItem):
    """The history is being compacted."""

    type: Literal["response.compaction.compacting"]


class FileSearchState(OfItem):
    """A file search moved on."""

    type: Literal[
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
    ]


class WebSearchState(OfItem):
    """A web search moved on."""

    type: Literal[
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
    ]


class ImageGenerationState(OfItem):
    """An image moved on."""

    type: Literal[
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.completed",
    ]


class ImageGenerationPartialImage(OfItem):
    """An early look at the image, base64."""

    type: Literal["response.image_generation_call.partial_image"]
    partial_image_b64: str
    partial_image_index: Count
    background: str | None = opt()
    output_format: str | None = opt()
    quality: str | None = opt()
    size: str | None = opt()


class McpCallState(OfItem):
    """An MCP call moved on."""

    type: Literal["response.mcp_call.in_progress", "response.mcp_call.completed", "response.mcp_call.failed"]


class McpCallArgumentsDelta(OfItem):
    """More of an MCP call's arguments."""

    type: Literal["response.mcp_call_arguments.delta"]
    delta: str


class McpCallArgumentsDone(OfItem):
    """The whole arguments."""

    type: Literal["response.mcp_call_arguments.done"]
    arguments: str


class McpListToolsState(OfItem):
    """A listing of MCP tools moved on."""

    type: Literal[
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.mcp_list_tools.failed",
    ]


class ShellCommandAdded(Event):
    """A shell call got a command, at `command_index` of its list."""

    type: Literal["response.shell_call_command.added"]
    output_index: Count
    command_index: Count
    command: str


class ShellCommandDelta(Event):
    """More of the command."""

    type: Literal["response.shell_call_command.delta"]
    output_index: Count
    command_index: Count
    delta: str
    obfuscation: str | None = opt()


class ShellCommandDone(Event):
    """The whole command."""

    type: Literal["response.shell_call_command.done"]
    output_index: Count
    command_index: Count
    command: str


class ShellOutputPiece(Wire):
    """What a command printed since the last piece."""

    stdout: str | None = opt()
    stderr: str | None = opt()


class ShellOutputDelta(Event):
    """More output of a command."""

    type: Literal["response.shell_call_output_content.delta"]
    item_id: Id
    output_index: Count
    command_index: Count
    delta: ShellOutputPiece


class ShellOutputDone(Event):
    """All output of a command."""

    type: Literal["response.shell_call_output_content.done"]
    item_id: Id
    output_index: Count
    command_index: Count
    output: list[ShellOutput]
