"""Output items on their way out: announced, filled with texts, finished, each step as numbered events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from antiphon.core.assembly.item import OpenItem, Text, final_status
from antiphon.core.assembly.matching import Items
from antiphon.core.assembly.reading import usable_annotations, usable_logprobs
from antiphon.core.assembly.server_call import ServerTool, start_event
from antiphon.core.assembly.sink import EventSink
from antiphon.core.assembly.wire import ITEM_CHANNEL, Channel, to_keep

_EMPTY_TAIL = b',"logprobs":[]}'


class ItemWriter:
    """The items of one response and the events that tell of them.

    server_tools: by the name the model calls them; calls of these are answered by the server and shown in its own
    kinds of items.
    """

    def __init__(self, mint: Callable[[str], str]) -> None:
        self.server_tools: Mapping[str, ServerTool] = {}
        self._mint = mint
        self._items = Items()
        self._sink = EventSink()

    @property
    def next_number(self) -> int:
        """The sequence number of the next event."""
        return self._sink.next_number

    @next_number.setter
    def next_number(self, number: int) -> None:
        self._sink.next_number = number

    @property
    def round_items(self) -> list[OpenItem]:
        """The items of this round."""
        return self._items.of_round

    @property
    def has_open_items(self) -> bool:
        """Whether the model is in the middle of an item."""
        return any(item.done is None and not item.status for item in self._items.of_round)

    @property
    def items(self) -> list[OpenItem]:
        return self._items.all

    def _announce(self, item: OpenItem) -> None:
        """`output_item.added`. A call that needs approval is announced when it is complete."""
        custom = any(i.type == "custom_tool_call" for i in self.round_items)
        server_owned = item.owner == "server"
        self._sink.item_begins(item.index, server_owned=server_owned, start_waits=server_owned and custom)
        if item.owner == "approver":
            self._sink.announced_later(item.index)
        else:
            self._start(item)

    def _start(self, item: OpenItem) -> None:
        fields = {"output_index": item.index, "item": item.started()}
        self._emit(item.index, "response.output_item.added", fields)
        if item.tool is not None and item.owner == "server":
            self._emit(item.index, start_event(item.tool), {"item_id": item.id, "output_index": item.index})

    def _open_text(self, item: OpenItem, channel: Channel, key: int) -> Text:
        text = item.open_text(channel, key)
        if channel.place != "item":
            fields = {**item.event_fields(text), "part": text.part()}
            self._emit(item.index, f"response.{channel.part_name}.added", fields)
        return text

    def _emit_delta(self, index: int, text: Text, delta: str, logprobs: Any = None) -> None:
        if not delta or text.silent:
            return
        tail = b"}"
        if text.channel.name == "output_text":
            tail = _EMPTY_TAIL
            if logprobs and (usable := usable_logprobs(logprobs)):
                text.logprobs.extend(usable)
                tail = b',"logprobs":' + orjson.dumps(usable) + b"}"
        self._sink.put(index, text.head, b"%b%b%b" % (text.middle, orjson.dumps(delta), tail))

    def _close_text(self, item: OpenItem, text: Text, given: Any = None) -> None:
        """End a text once: what `given` has beyond the deltas becomes one more delta; what was shown wins."""
        if text.closed:
            return
        self._emit_delta(item.index, text, text.split.finish(given if isinstance(given, str) else None))
        text.closed = True
        if text.silent:
            return
        fields = item.event_fields(text)
        fields[text.channel.field] = text.split.text
        if text.channel.name == "output_text":
            fields["logprobs"] = text.logprobs
        if text.channel.name == "function_call_arguments":
            fields["name"] = item.upstream["name"]
        self._emit(item.index, text.channel.done_type, fields)

    def _close_part(self, item: OpenItem, text: Text, part: dict[str, Any] | None = None) -> None:
        """End a text and its part once, with what came with the part and not before."""
        part = part or {}
        if text.channel.name == "output_text" and not text.part_closed:
            text.annotations = text.annotations or usable_annotations(part.get("annotations"))
            text.logprobs = text.logprobs or usable_logprobs(part.get("logprobs"))
        self._close_text(item, text, part.get(text.channel.field))
        if text.channel.place != "item" and not text.part_closed:
            text.part_closed = True
            fields = {**item.event_fields(text), "part": text.part()}
            self._emit(item.index, f"response.{text.channel.part_name}.done", fields)

    def _finish(self, item: OpenItem, status: Any, given: dict[str, Any] | None = None) -> None:
        """Close every text of the item and the item itself. Without `given` it has what it was announced with."""
        if item.done is not None or (item.tool is not None and item.status):
            return
        self._take_given(item, item.upstream if given is None else given)
        for text in list(item.texts.values()):
            self._close_part(item, text)
        channel = ITEM_CHANNEL.get(item.type)
        if channel is not None and not item.texts and channel.field != "code":
            self._close_text(item, item.open_text(channel, 0))
        if item.tool is not None:
            self._finish_call(item, status)
            return
        item.status = final_status(item.type, status)
        item.done = to_keep(orjson.dumps(item.view(status)))
        self._emit_done(item)

    def _take_given(self, item: OpenItem, given: dict[str, Any]) -> None:
        """Merge the finished item of the upstream: texts it did not stream are streamed now."""
        channel = ITEM_CHANNEL.get(item.type)
        value = given.get(channel.field) if channel is not None else None
        if channel is not None and value not in (None, ""):
            text = item.texts.get((channel.name, 0)) or self._open_text(item, channel, 0)
            self._close_text(item, text, value if isinstance(value, str) else orjson.dumps(value).decode())
        if item.type in ("message", "reasoning"):
            for place in ("summary", "content"):
                for key, part_channel, part, known in item.streamed(place, given.get(place)):
                    self._close_part(item, known or self._open_text(item, part_channel, key), part)
        item.merge(given)

    def _finish_call(self, item: OpenItem, status: str) -> None:
        """The model has written a call of a tool of the server; its item stays open until it was made."""
        assert item.tool is not None
        item.status = final_status("function_call", status)
        if item.owner != "approver":
            return
        if item.status != "completed":
            self._start_half(item)
            return
        self._start(item)
        item.done = to_keep(orjson.dumps(item.view(status)))
        self._emit_done(item)
        self._sink.announced(item.index)

    def _start_half(self, item: OpenItem) -> None:
        """Half a call is nothing to approve: it is shown as a call that was not made."""
        assert item.tool is not None
        item.tool = replace(item.tool, needs_approval=False)
        self._start(item)
        self._sink.announced(item.index)

    def _emit_done(self, item: OpenItem) -> None:
        fields = {"output_index": item.index, "item": orjson.Fragment(item.done or b"null")}
        self._emit(item.index, "response.output_item.done", fields)

    def _emit(self, index: int | None, event_type: str, fields: dict[str, Any]) -> None:
        self._sink.emit(index, event_type, fields)
