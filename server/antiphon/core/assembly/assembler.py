"""The assembler: upstream events in, the canonical log of one run out.

Whatever order, ids, numbers or omissions an upstream has, clients get `response.created`, then for each item
one added, its parts and deltas, their dones, one done, then one terminal event; numbers without a hole, dense
output indices, texts that add up. `feed` does not emit the terminal event: the upstream's verdict is kept
in `outcome`, and `terminal()` encodes it when the run's owner has decided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from antiphon.core.assembly import outcome as verdict
from antiphon.core.assembly.item import CALL_TYPES, OpenItem, Text, final_status
from antiphon.core.assembly.matching import Items
from antiphon.core.assembly.outcome import Outcome
from antiphon.core.assembly.reading import (
    read_event,
    read_item,
    usable_annotations,
    usable_logprobs,
)
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.core.assembly.wire import (
    BY_DELTA,
    BY_DONE,
    HIDDEN,
    ID_PREFIXES,
    ITEM_CHANNEL,
    NEEDED,
    OUTPUT_TEXT,
    PASS_THROUGH,
    UNSEEN,
    Channel,
    channel_of_part,
    encode,
    id_prefix,
    part_index,
)

_EMPTY_TAIL = b',"logprobs":[]}'

_MAX_EARLY = 10_000
"""Texts of calls that are kept until the call is announced. Nobody sends so many before."""


class Assembler:
    """State of one response.

    next_number: the sequence number of the next event. outcome: how the upstream said it ended, None so far.
    dropped: upstream events that were no use to a client (unknown types, broken ones).
    """

    def __init__(self, response: ResponseObject, mint: Callable[[str], str]) -> None:
        self.response = response
        self.next_number = 0
        self.outcome: Outcome | None = None
        self.dropped = 0
        self._mint = mint
        self._items = Items()
        self._early: list[dict[str, Any]] = []
        """Texts of calls that were not announced yet."""
        self._out: list[bytes] = []

    # Lifecycle events

    def lifecycle(self, event_type: str, status: str) -> bytes:
        """`response.created`, `.queued` or `.in_progress`."""
        return self._encode(event_type, {"response": orjson.Fragment(self.response.encode(status, b"[]"))})

    def feed(self, raw: bytes) -> list[bytes]:
        """Take one upstream event; gives the events for the log, in order. Nothing after the outcome."""
        if self.outcome is not None:
            return []
        event = read_event(raw)
        if event is None:
            self.dropped += 1
            return []
        try:
            channel = BY_DELTA.get(event["type"])
            if channel is not None:
                self._delta(channel, event)
            else:
                self._other(event["type"], event)
        except (KeyError, TypeError, ValueError, AttributeError):
            # A field of a wrong type costs the client this one event, never the run.
            self.dropped += 1
        out, self._out = self._out, []
        return out

    def close_items(self, status: str) -> list[bytes]:
        """Finish every open item with `status` (completed or incomplete)."""
        for item in self._items.all:
            self._finish(item, status)
        out, self._out = self._out, []
        return out

    def terminal(self, outcome: Outcome) -> bytes:
        """The one terminal event. Open items appear in its output as `incomplete`."""
        body = self.snapshot(outcome)
        return self._encode(outcome.event_type, {"response": orjson.Fragment(body)})

    def snapshot(self, outcome: Outcome | None = None) -> bytes:
        """The response object as it stands, encoded."""
        output = b"[" + b",".join(self.output_items()) + b"]"
        if outcome is None:
            return self.response.encode("in_progress", output)
        return self.response.encode(outcome.status, output, outcome)

    def output_items(self) -> list[bytes]:
        """The output items as clients see them, encoded."""
        return [i.done if i.done is not None else orjson.dumps(i.view("incomplete")) for i in self.items]

    @property
    def items(self) -> list[OpenItem]:
        return self._items.all

    # Upstream events

    def _other(self, kind: str, event: dict[str, Any]) -> None:
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, event)
        elif kind in BY_DONE:
            self._text_done(BY_DONE[kind], event)
        elif kind in PASS_THROUGH:
            self._pass(kind, event)
        elif kind not in UNSEEN:
            self.dropped += 1

    def _delta(self, channel: Channel, event: dict[str, Any]) -> None:
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        item = self._items.at(event.get("output_index"))
        text = None
        if item is not None and item.done is None and item.upstream_id == event.get("item_id"):
            text = item.texts.get((channel.name, part_index(event, channel)))
        if text is None:
            item, text = self._text_for(channel, event)
        if text is None or text.closed:
            self.dropped += text is not None
            return
        self._emit_delta(text, text.split.add(delta), event.get("logprobs"))

    def _emit_delta(self, text: Text, delta: str, logprobs: Any = None) -> None:
        if not delta:
            return
        tail = b"}"
        if text.channel.name == "output_text":
            tail = _EMPTY_TAIL
            if logprobs and (usable := usable_logprobs(logprobs)):
                text.logprobs.extend(usable)
                tail = b',"logprobs":' + orjson.dumps(usable) + b"}"
        number = self.next_number
        self._out.append(b"%b%d%b%b%b" % (text.head, number, text.middle, orjson.dumps(delta), tail))
        self.next_number = number + 1

    def _text_done(self, channel: Channel, event: dict[str, Any]) -> None:
        item, text = self._text_for(channel, event)
        if item is None or text is None:
            return
        if channel.name == "output_text" and not text.logprobs and not text.closed:
            text.logprobs = usable_logprobs(event.get("logprobs"))
        self._close_text(item, text, event.get(channel.field))

    def _item_added(self, event: dict[str, Any]) -> None:
        given = read_item(event.get("item"))
        if given is None:
            self.dropped += 1
            return
        known = self._items.repeated(event.get("output_index"), given)
        if known is not None:
            self._items.announced(known, given)
            self.dropped += 1
        elif all(isinstance(given.get(key), str) and given[key] for key in NEEDED.get(given["type"], ())):
            self._add(given, event.get("output_index"))

    def _item_done(self, event: dict[str, Any]) -> None:
        given = read_item(event.get("item"))
        if given is None:
            self.dropped += 1
            return
        item = self._items.find(event.get("output_index"), given.get("id"), given["type"])
        if item is None:
            item = self._add(given, event.get("output_index"))
        self._finish(item, given.get("status"), given)

    def _part_added(self, event: dict[str, Any]) -> None:
        channel = channel_of_part(event.get("part"))
        if channel is None:
            self.dropped += 1
            return
        self._text_for(channel, event)

    def _part_done(self, event: dict[str, Any]) -> None:
        part = event.get("part")
        channel = channel_of_part(part)
        if channel is None:
            self.dropped += 1
            return
        item, text = self._text_for(channel, event)
        if item is not None and text is not None:
            self._close_part(item, text, part)

    def _annotation(self, event: dict[str, Any]) -> None:
        item = self._items.find(event.get("output_index"), event.get("item_id"), "message")
        text = item.texts.get(("output_text", part_index(event, OUTPUT_TEXT))) if item else None
        usable = usable_annotations([event.get("annotation")])
        if item is None or text is None or text.part_closed or not usable:
            self.dropped += 1
            return
        text.annotations += usable
        index = {"annotation_index": len(text.annotations) - 1, "annotation": usable[0]}
        self._emit("response.output_text.annotation.added", {**item.event_fields(text), **index})

    def _pass(self, kind: str, event: dict[str, Any]) -> None:
        rest = {key: value for key, value in event.items() if key not in HIDDEN}
        name = kind.split(".")[1]
        if name == "audio":
            self._emit(kind, rest)  # it is of the response, not of an item
            return
        item = self._items.find(
            event.get("output_index"), event.get("item_id"), name if name in ID_PREFIXES else None
        )
        if item is None or item.done is not None:
            self.dropped += 1
            return
        self._emit(kind, {"item_id": item.id, "output_index": item.index, **rest})

    def _terminal(self, event: dict[str, Any]) -> None:
        self._conclude(event.get("response"), str(event.get("type")))

    def _whole_response(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        status = response.get("status") if isinstance(response, dict) else None
        self._conclude(response, f"response.{status}")

    def _error(self, event: dict[str, Any]) -> None:
        self.outcome = verdict.from_error_event(event)

    def _conclude(self, response: Any, event_type: str) -> None:
        """Take from the upstream's terminal what its stream left out, then close what is open."""
        response = response if isinstance(response, dict) else {}
        outcome = verdict.from_response(response, event_type)
        if outcome.status != "failed":
            output = response.get("output")
            readable = [read_item(given) for given in output] if isinstance(output, list) else []
            for index, (given, item) in enumerate(self._items.match([given for given in readable if given])):
                self._finish(item or self._add(given, index), given.get("status"), given)
            for item in self._items.all:
                self._finish(item, outcome.status)
        self.outcome = outcome

    # Items and texts

    def _text_for(self, channel: Channel, event: dict[str, Any]) -> tuple[OpenItem | None, Text | None]:
        """The text an event is about, announced now if it never was; (None, None) if it cannot be shown."""
        item = self._items.find(event.get("output_index"), event.get("item_id"), channel.of)
        if item is None and channel.place == "item":
            if len(self._early) < _MAX_EARLY:
                self._early.append(event)
            return None, None
        if item is None:
            given = {"type": channel.of, "id": event.get("item_id")}
            item = self._add({key: v for key, v in given.items() if isinstance(v, str)}, event.get("output_index"))
            item.implied = True
        if item.done is not None:
            self.dropped += 1
            return None, None
        key = part_index(event, channel)
        return item, item.texts.get((channel.name, key)) or self._open_text(item, channel, key)

    def _add(self, given: dict[str, Any], upstream_index: Any) -> OpenItem:
        kind = given["type"]
        if kind == "message":
            given["role"] = "assistant"
        if kind in ("function_call", "custom_tool_call") and not (
            isinstance(given.get("name"), str) and given["name"]
        ):
            given["name"] = "unknown"  # so that the client can say that there is no such tool
        item = OpenItem(
            id=self._mint(id_prefix(kind)),
            index=len(self.items),
            upstream=given,
            call_id=self._mint("call") if kind in CALL_TYPES else self._items.answered_by(given),
            upstream_index=upstream_index if type(upstream_index) is int else None,
            upstream_id=given["id"] if isinstance(given.get("id"), str) else None,
        )
        self._items.add(item)
        self._emit("response.output_item.added", {"output_index": item.index, "item": item.started()})
        if kind in ITEM_CHANNEL:
            early, self._early = self._early, []
            for event in early:
                channel = BY_DELTA.get(event["type"])
                if channel is not None:
                    self._delta(channel, event)
                else:
                    self._text_done(BY_DONE[event["type"]], event)
        return item

    def _open_text(self, item: OpenItem, channel: Channel, key: int) -> Text:
        text = item.open_text(channel, key)
        if channel.place != "item":
            self._emit(f"response.{channel.part_name}.added", {**item.event_fields(text), "part": text.part()})
        return text

    def _close_text(self, item: OpenItem, text: Text, given: Any = None) -> None:
        """End a text once: what `given` has beyond the deltas becomes one more delta; what was shown wins."""
        if text.closed:
            return
        self._emit_delta(text, text.split.finish(given if isinstance(given, str) else None))
        text.closed = True
        fields = item.event_fields(text)
        fields[text.channel.field] = text.split.text
        if text.channel.name == "output_text":
            fields["logprobs"] = text.logprobs
        if text.channel.name == "function_call_arguments":
            fields["name"] = item.upstream["name"]
        self._emit(text.channel.done_type, fields)

    def _close_part(self, item: OpenItem, text: Text, part: dict[str, Any] | None = None) -> None:
        """End a text and its part once, with what came with the part and not before."""
        part = part or {}
        if text.channel.name == "output_text" and not text.part_closed:
            text.annotations = text.annotations or usable_annotations(part.get("annotations"))
            text.logprobs = text.logprobs or usable_logprobs(part.get("logprobs"))
        self._close_text(item, text, part.get(text.channel.field))
        if text.channel.place != "item" and not text.part_closed:
            text.part_closed = True
            self._emit(f"response.{text.channel.part_name}.done", {**item.event_fields(text), "part": text.part()})

    def _finish(self, item: OpenItem, status: Any, given: dict[str, Any] | None = None) -> None:
        """Close every text of the item and the item itself. Without `given` it has what it was announced with."""
        if item.done is not None:
            return
        self._take_given(item, item.upstream if given is None else given)
        for text in list(item.texts.values()):
            self._close_part(item, text)
        channel = ITEM_CHANNEL.get(item.type)
        if channel is not None and not item.texts and channel.field != "code":
            self._close_text(item, item.open_text(channel, 0))
        item.status = final_status(item.type, status)
        item.done = orjson.dumps(item.view(status))
        self._emit("response.output_item.done", {"output_index": item.index, "item": orjson.Fragment(item.done)})

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

    def _emit(self, event_type: str, fields: dict[str, Any]) -> None:
        self._out.append(self._encode(event_type, fields))

    def _encode(self, event_type: str, fields: dict[str, Any]) -> bytes:
        """An event with the next number, which is used up only if the event could be encoded."""
        event = encode(event_type, self.next_number, fields)
        self.next_number += 1
        return event


# Of the class, not of its objects: bound methods would tie each run into a cycle that only the collector ends.
_HANDLERS: dict[str, Callable[[Assembler, dict[str, Any]], None]] = {
    "response.output_item.added": Assembler._item_added,
    "response.output_item.done": Assembler._item_done,
    "response.content_part.added": Assembler._part_added,
    "response.content_part.done": Assembler._part_done,
    "response.reasoning_summary_part.added": Assembler._part_added,
    "response.reasoning_summary_part.done": Assembler._part_done,
    "response.output_text.annotation.added": Assembler._annotation,
    "response.completed": Assembler._terminal,
    "response.incomplete": Assembler._terminal,
    "response.failed": Assembler._terminal,
    "response.cancelled": Assembler._terminal,
    "antiphon.whole_response": Assembler._whole_response,
    "error": Assembler._error,
}
