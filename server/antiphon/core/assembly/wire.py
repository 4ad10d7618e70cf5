"""Bytes of events. An event is encoded once and never parsed again on its way to a socket or the journal."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import orjson

ID_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "local_shell_call": "lsh",
    "shell_call": "sh",
    "apply_patch_call": "apc",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "tool_search_call": "tsc",
    "compaction": "cmp",
}

TERMINAL_TYPES = frozenset({"response.completed", "response.incomplete", "response.failed"})


def id_prefix(item_type: str) -> str:
    """The id prefix in use for an item type; `item` for kinds nobody has named yet."""
    return ID_PREFIXES.get(item_type, "item")


_CONTENT = ("content_part", "content_index")


@dataclass(frozen=True, slots=True)
class Channel:
    """One kind of streamed text: its events, and where the text ends up.

    of: the type of the items that have it. place: `content` and `summary` are parts of the item, `item` is a
    field of it. field: name of the whole text in the done event and in the part or item.
    """

    name: str
    of: str
    field: str
    place: Literal["content", "summary", "item"]
    part_type: str = ""
    delta_type: str = dataclasses.field(init=False)
    done_type: str = dataclasses.field(init=False)
    part_name: str = dataclasses.field(init=False)
    index_key: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        # Made once: they are needed with each event.
        part = ("reasoning_summary_part", "summary_index") if self.place == "summary" else _CONTENT
        made = (f"response.{self.name}.delta", f"response.{self.name}.done", *part)
        for key, value in zip(("delta_type", "done_type", "part_name", "index_key"), made, strict=True):
            object.__setattr__(self, key, value)


OUTPUT_TEXT = Channel("output_text", "message", "text", "content", "output_text")
REFUSAL = Channel("refusal", "message", "refusal", "content", "refusal")
REASONING_TEXT = Channel("reasoning_text", "reasoning", "text", "content", "reasoning_text")
SUMMARY_TEXT = Channel("reasoning_summary_text", "reasoning", "text", "summary", "summary_text")
ARGUMENTS = Channel("function_call_arguments", "function_call", "arguments", "item")
CUSTOM_INPUT = Channel("custom_tool_call_input", "custom_tool_call", "input", "item")
MCP_ARGUMENTS = Channel("mcp_call_arguments", "mcp_call", "arguments", "item")
CODE = Channel("code_interpreter_call_code", "code_interpreter_call", "code", "item")

CHANNELS = (OUTPUT_TEXT, REFUSAL, REASONING_TEXT, SUMMARY_TEXT, ARGUMENTS, CUSTOM_INPUT, MCP_ARGUMENTS, CODE)
BY_DELTA = {channel.delta_type: channel for channel in CHANNELS}
BY_DONE = {channel.done_type: channel for channel in CHANNELS}
BY_PART = {channel.part_type: channel for channel in CHANNELS if channel.part_type}
ITEM_CHANNEL = {channel.of: channel for channel in CHANNELS if channel.place == "item"}


def channel_of_part(part: Any) -> Channel | None:
    """The channel that streams a content or summary part, None for parts that do not stream."""
    kind = part.get("type") if isinstance(part, dict) else None
    return BY_PART.get(kind) if isinstance(kind, str) else None


def part_index(event: dict[str, Any], channel: Channel) -> int:
    """The index an upstream gives the part an event is about; 0 where it gives none that can be used."""
    index = event.get(channel.index_key) if channel.place != "item" else 0
    return index if type(index) is int else 0


PASS_THROUGH = frozenset(
    f"response.{name}"
    for name in (
        "audio.delta",
        "audio.done",
        "audio.transcript.delta",
        "audio.transcript.done",
        "code_interpreter_call.completed",
        "code_interpreter_call.in_progress",
        "code_interpreter_call.interpreting",
        "compaction.compacting",
        "file_search_call.completed",
        "file_search_call.in_progress",
        "file_search_call.searching",
        "shell_call_command.added",
        "shell_call_command.delta",
        "shell_call_command.done",
        "shell_call_output_content.delta",
        "shell_call_output_content.done",
        "web_search_call.completed",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "image_generation_call.completed",
        "image_generation_call.generating",
        "image_generation_call.in_progress",
        "image_generation_call.partial_image",
        "mcp_call.completed",
        "mcp_call.failed",
        "mcp_call.in_progress",
        "mcp_list_tools.completed",
        "mcp_list_tools.failed",
        "mcp_list_tools.in_progress",
    )
)
"""Events of known types whose ids and indices are replaced and whose rest is kept."""

UNSEEN = frozenset({"response.created", "response.in_progress", "response.queued", "keepalive"})
"""Events that clients get from us, not from the upstream."""

HIDDEN = ("type", "sequence_number", "item_id", "output_index", "obfuscation", "stream_id", "response_id")
"""Fields of passed events that are the upstream's own."""

NEEDED = {
    "function_call": ("name",),
    "custom_tool_call": ("name",),
    "mcp_call": ("name", "server_label"),
    "code_interpreter_call": ("container_id",),
}
"""Fields an item cannot be announced without, because they must not change later."""


def to_keep(encoded: bytes) -> bytes:
    """A copy of encoded JSON that takes only its own size: what the encoder gives holds 4 kB each."""
    return b"%b" % encoded


def encode(event_type: str, number: int, fields: dict[str, Any]) -> bytes:
    """One event. `fields` may hold `orjson.Fragment` for what is already encoded."""
    return orjson.dumps({"type": event_type, "sequence_number": number, **fields})


def event_type_of(event: bytes) -> str:
    """The type of an event this module encoded, without parsing it."""
    return event[9 : event.index(b'"', 9)].decode()
