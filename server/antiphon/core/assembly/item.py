"""One output item while it is being streamed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from antiphon.core.assembly.reading import SplitText
from antiphon.core.assembly.server_call import CallResult, ServerTool, shown_item
from antiphon.core.assembly.wire import BY_PART, ITEM_CHANNEL, MCP_ARGUMENTS, Channel, channel_of_part

TextKey = tuple[str, int]
"""(channel name, the upstream's index): which text of an item an event means."""

CALL_TYPES = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
    }
)
"""Items that a client must answer with an output, keyed by `call_id`."""

OUTPUT_TYPES = frozenset(f"{kind}_output" for kind in CALL_TYPES)
"""Items that answer a call."""

_TYPES_WITH_STATUS = (
    CALL_TYPES | OUTPUT_TYPES | {"message", "reasoning", "web_search_call", "file_search_call"}
) | {
    "mcp_call",
    "image_generation_call",
    "code_interpreter_call",
}

_WITHOUT_START = frozenset({"apply_patch_call_output", "program_output"})
"""Kinds whose status cannot be `in_progress`."""

_ENDS_FAILED = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "computer_call_output",
        "apply_patch_call_output",
    }
)
"""Kinds whose status may be `failed`."""

_WITHOUT_INCOMPLETE = {
    "apply_patch_call": "in_progress",
    "apply_patch_call_output": "failed",
    "image_generation_call": "failed",
}
"""Kinds that do not know `incomplete`, and what they say instead."""


_IDENTITY: tuple[str, ...] = ("type", "name", "role", "server_label")
"""Fields that stay as they were announced."""


def final_status(kind: str, status: Any) -> str:
    """The status of a finished item in the words its kind knows."""
    if status == "failed" and kind not in _ENDS_FAILED and kind in _TYPES_WITH_STATUS:
        status = "incomplete"
    if status == "incomplete":
        return _WITHOUT_INCOMPLETE.get(kind, "incomplete")
    return "failed" if status == "failed" else "completed"


@dataclass(slots=True)
class Text:
    """A streamed text: its channel, its pieces, and the prepared bytes around a delta.

    index: ours, dense among the parts of its place. closed: its done was sent. part_closed: its part's as well.
    silent: clients get it with the item only.
    """

    channel: Channel
    index: int
    split: SplitText = field(default_factory=SplitText)
    head: bytes = b""
    middle: bytes = b""
    closed: bool = False
    silent: bool = False
    part_closed: bool = False
    annotations: list[Any] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)

    def part(self) -> dict[str, Any]:
        """The content or summary part as it stands."""
        part: dict[str, Any] = {"type": self.channel.part_type, self.channel.field: self.split.text}
        if self.channel.name == "output_text":
            part["annotations"] = self.annotations
            part["logprobs"] = self.logprobs
        return part


@dataclass(slots=True)
class OpenItem:
    """An item: what the upstream called it, what we call it, and its texts so far.

    upstream: the item as the upstream last gave it, with the upstream's ids. upstream_index: the upstream's
    `output_index`, None if it gave none. implied: announced by its first text, not by the upstream.
    done: the finished item as clients see it, encoded; None while it is open. status: how it ended, empty
    while it is open. tool: the tool of the server that it calls; result: what that gave; approval_request_id: who
    asked for it was told yes. to_model: what the model reads of it in the next round: the whole item, only its
    result, or nothing. kept: what it reads of an item that was brought back from a checkpoint.
    """

    id: str
    index: int
    upstream: dict[str, Any]
    call_id: str | None
    upstream_index: int | None = None
    upstream_id: str | None = None
    implied: bool = False
    texts: dict[TextKey, Text] = field(default_factory=dict)
    done: bytes | None = None
    status: str = ""
    tool: ServerTool | None = None
    result: CallResult | None = None
    approval_request_id: str | None = None
    to_model: Literal["whole", "result", "nothing"] = "whole"
    kept: dict[str, Any] | None = None
    type: str = field(init=False)
    """Of the upstream's item; it does not change."""

    def __post_init__(self) -> None:
        self.type = str(self.upstream.get("type"))

    @property
    def owner(self) -> Literal["server", "approver", "client", "nobody"]:
        """Who has to answer it: the server, a client that approves, a client, or nobody because it is no call."""
        if self.tool is not None:
            return "approver" if self.tool.needs_approval else "server"
        return "client" if self.type in CALL_TYPES else "nobody"

    @property
    def is_written(self) -> bool:
        """Whether the model has finished it. (A call of the server's own is done only when it was made.)"""
        return self.done is not None or self.status != ""

    @property
    def arguments(self) -> str:
        """The arguments of a function call as far as they were written."""
        text = self.texts.get(("function_call_arguments", 0))
        return text.split.text if text is not None else str(self.upstream.get("arguments") or "")

    def open_text(self, channel: Channel, key: int) -> Text:
        """Start a text and prepare the bytes that surround each of its deltas. key: the upstream's index of it."""
        text = Text(channel, sum(other.channel.place == channel.place for other in self.texts.values()))
        if self.tool is not None:
            text.channel = MCP_ARGUMENTS
            text.silent = self.tool.needs_approval or self.tool.item_type != "mcp_call"
        text.head = b'{"type":"%b","sequence_number":' % text.channel.delta_type.encode()
        text.middle = b"," + orjson.dumps(self.event_fields(text))[1:-1] + b',"delta":'
        self.texts[(channel.name, key)] = text
        return text

    def merge(self, given: dict[str, Any]) -> None:
        """Take over the finished item of the upstream. What clients were shown of its identity stays."""
        shown = {key: self.upstream[key] for key in _IDENTITY if key in self.upstream}
        self.upstream = {**self.upstream, **given, **shown}

    def streamed(self, place: str, given: Any) -> list[tuple[int, Channel, dict[str, Any], Text | None]]:
        """The parts in the list `given` that stream: index, channel, part, and its text if it was streamed.

        Some upstreams number the parts of their stream otherwise than those of the item.
        """
        parts = [
            (key, channel_of_part(part), part) for key, part in enumerate(given if isinstance(given, list) else ())
        ]
        wanted = [
            (key, c, part) for key, c, part in parts if c is not None and c.of == self.type and c.place == place
        ]
        taken = {(channel.name, key) for key, channel, _ in wanted}
        free = [text for key, text in self.texts.items() if key not in taken]
        found: list[tuple[int, Channel, dict[str, Any], Text | None]] = []
        for key, channel, part in wanted:
            text = self.texts.get((channel.name, key)) or next((t for t in free if t.channel is channel), None)
            free = [other for other in free if other is not text]
            found.append((key, channel, part, text))
        return found

    def event_fields(self, text: Text) -> dict[str, Any]:
        """The fields that say which text of which item an event is about."""
        fields: dict[str, Any] = {"item_id": self.id, "output_index": self.index}
        if text.channel.place != "item":
            fields[text.channel.index_key] = text.index
        return fields

    def started(self) -> dict[str, Any]:
        """The item as `output_item.added` shows it: no text yet."""
        if self.tool is not None:
            return self._shown("in_progress", "")
        item = self._ours(self.upstream)
        if self._has_status(item) and self.type not in _WITHOUT_START:
            item["status"] = "in_progress"
        if self.type == "message":
            item["content"] = []
        if self.type == "reasoning":
            item["summary"] = []
            item.pop("content", None)
        channel = ITEM_CHANNEL.get(self.type)
        if channel is not None:
            item[channel.field] = ""
        return item

    def view(self, status: Any) -> dict[str, Any]:
        """The item as clients see it, with every text as streamed so far. status: as the upstream or we put it."""
        if self.tool is not None:
            return self._shown(final_status("mcp_call", status), self.arguments)
        status = final_status(self.type, status)
        item = self.as_upstream(status)
        if self._has_status(item):
            item["status"] = status
        return self._ours(item)

    def for_model(self) -> dict[str, Any]:
        """The item as the next model call has it, with the upstream's own ids."""
        if self.kept is not None:
            return self.kept
        return self.as_upstream("completed" if self.tool is not None else self.status or "incomplete")

    def as_upstream(self, status: str) -> dict[str, Any]:
        """The item as the upstream will get it back: its own ids, the texts that clients saw.

        Only what the upstream itself gives has a status there: some refuse one on items they sent without.
        """
        item = dict(self.upstream)
        if "status" in item:
            item["status"] = status
        if not (isinstance(item.get("id"), str) and item["id"]):
            item.pop("id", None)
        if self.call_id is not None and not (isinstance(item.get("call_id"), str) and item["call_id"]):
            item["call_id"] = self.call_id
        if self.type == "message":
            item["content"] = [*self._parts("content"), *self._silent_parts()]
        elif self.type == "reasoning":
            item["summary"] = self._parts("summary")
            item["content"] = self._parts("content")
            if not item["content"]:
                del item["content"]
        channel = ITEM_CHANNEL.get(self.type)
        if channel is not None:
            text = self.texts.get((channel.name, 0))
            item[channel.field] = text.split.text if text else ""
        return item

    def _shown(self, status: str, arguments: str) -> dict[str, Any]:
        assert self.tool is not None
        if self.tool.needs_approval:
            return {
                "id": self.id,
                "type": "mcp_approval_request",
                "arguments": self.arguments,
                "name": self.tool.name,
                "server_label": self.tool.server_label,
            }
        return shown_item(self.tool, self.id, arguments, status, self.result, self.approval_request_id)

    def _has_status(self, item: dict[str, Any]) -> bool:
        return "status" in item or self.type in _TYPES_WITH_STATUS

    def _parts(self, place: str) -> list[dict[str, Any]]:
        """Parts that were streamed, in the order in which they were announced."""
        texts = [text for text in self.texts.values() if text.channel.place == place]
        return [text.part() for text in sorted(texts, key=lambda text: text.index)]

    def _silent_parts(self) -> list[dict[str, Any]]:
        """Parts of kinds that do not stream, as given: behind the others, whose indices clients have seen."""
        listed = self.upstream.get("content")
        parts = [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []
        return [p for p in parts if isinstance(p.get("type"), str) and p["type"] and p["type"] not in BY_PART]

    def _ours(self, item: dict[str, Any]) -> dict[str, Any]:
        ours = {"id": self.id, **item}
        ours["id"] = self.id
        if self.call_id is not None:
            ours["call_id"] = self.call_id
        return ours
