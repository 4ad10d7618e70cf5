"""One output item while it is being streamed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from antiphon.core.assembly.reading import SplitText, mend
from antiphon.core.assembly.wire import BY_PART, ITEM_CHANNEL, Channel

TextKey = tuple[str, int]
"""(channel place, index): which text of an item."""

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

_TYPES_WITH_STATUS = CALL_TYPES | {"message", "reasoning", "web_search_call", "file_search_call", "mcp_call"}


@dataclass(slots=True)
class Text:
    """A streamed text: its channel, its pieces, and the prepared bytes around a delta."""

    channel: Channel
    index: int
    split: SplitText = field(default_factory=SplitText)
    head: bytes = b""
    middle: bytes = b""
    closed: bool = False
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

    upstream: the item as the upstream last gave it, with the upstream's ids. done: the finished item as
    clients see it, encoded; None while it is open.
    """

    id: str
    index: int
    upstream: dict[str, Any]
    call_id: str | None
    texts: dict[TextKey, Text] = field(default_factory=dict)
    done: bytes | None = None

    @property
    def type(self) -> str:
        return str(self.upstream.get("type"))

    @property
    def upstream_id(self) -> str | None:
        value = self.upstream.get("id")
        return value if isinstance(value, str) else None

    def open_text(self, channel: Channel, index: int) -> Text:
        """Start a text and prepare the bytes that surround each of its deltas."""
        text = Text(channel, index)
        fields: dict[str, Any] = {"item_id": self.id, "output_index": self.index}
        if channel.place != "item":
            fields[channel.index_key] = index
        text.head = b'{"type":"%b","sequence_number":' % channel.delta_type.encode()
        text.middle = b"," + orjson.dumps(fields)[1:-1] + b',"delta":'
        self.texts[(channel.place, index)] = text
        return text

    def event_fields(self, text: Text) -> dict[str, Any]:
        """The fields that say which text of which item an event is about."""
        fields: dict[str, Any] = {"item_id": self.id, "output_index": self.index}
        if text.channel.place != "item":
            fields[text.channel.index_key] = text.index
        return fields

    def started(self) -> dict[str, Any]:
        """The item as `output_item.added` shows it: no text yet."""
        item = self._ours(self.upstream)
        if "status" in item or self.type in _TYPES_WITH_STATUS:
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

    def view(self, status: str) -> dict[str, Any]:
        """The item as clients see it, with every text as streamed so far."""
        return self._ours(self.as_upstream(status))

    def as_upstream(self, status: str) -> dict[str, Any]:
        """The item as the upstream will get it back: its own ids, the texts that clients saw."""
        item = dict(self.upstream)
        if "status" in item or self.type in _TYPES_WITH_STATUS:
            item["status"] = status
        if self.type == "message":
            item["role"] = item.get("role") or "assistant"
            item["content"] = self._parts("content", item.get("content"))
        elif self.type == "reasoning":
            item["summary"] = self._parts("summary", item.get("summary"))
            content = self._parts("content", item.get("content"))
            if content:
                item["content"] = content
            else:
                item.pop("content", None)
        channel = ITEM_CHANNEL.get(self.type)
        if channel is not None:
            text = self.texts.get(("item", 0))
            item[channel.field] = text.split.text if text else ""
        return item

    def _parts(self, place: str, given: Any) -> list[Any]:
        """Parts in order: streamed ones as streamed, kinds that do not stream as given."""
        listed = given if isinstance(given, list) else []
        parts: dict[int, Any] = {
            i: mend(p) for i, p in enumerate(listed) if isinstance(p, dict) and p.get("type") not in BY_PART
        }
        for (where, index), text in self.texts.items():
            if where == place:
                parts[index] = text.part()
        return [parts[index] for index in sorted(parts)]

    def _ours(self, item: dict[str, Any]) -> dict[str, Any]:
        ours = {"id": self.id, **item}
        ours["id"] = self.id
        if self.call_id is not None:
            ours["call_id"] = self.call_id
        return ours
