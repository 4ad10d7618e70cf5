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
from antiphon.core.assembly.item import CALL_TYPES, OUTPUT_TYPES, OpenItem, Text
from antiphon.core.assembly.outcome import Outcome
from antiphon.core.assembly.reading import mend, read_event
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.core.assembly.wire import (
    BY_DELTA,
    BY_DONE,
    ITEM_CHANNEL,
    PASS_THROUGH,
    Channel,
    channel_of_part,
    encode,
    id_prefix,
)
from antiphon.core.json_input import mend_text

_EMPTY_TAIL = b',"logprobs":[]}'


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
        self._items: list[OpenItem] = []
        self._by_index: dict[int, OpenItem] = {}
        self._by_id: dict[str, OpenItem] = {}
        self._out: list[bytes] = []
        self._handlers: dict[str, Callable[[dict[str, Any]], None]] = {
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.content_part.added": self._part_added,
            "response.content_part.done": self._part_done,
            "response.reasoning_summary_part.added": self._part_added,
            "response.reasoning_summary_part.done": self._part_done,
            "response.output_text.annotation.added": self._annotation,
            "response.completed": self._terminal,
            "response.incomplete": self._terminal,
            "response.failed": self._terminal,
            "response.cancelled": self._terminal,
            "antiphon.whole_response": self._whole_response,
            "error": self._error,
        }

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
        for item in self._items:
            if item.done is None:
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
        return [i.done if i.done is not None else orjson.dumps(i.view("incomplete")) for i in self._items]

    @property
    def items(self) -> list[OpenItem]:
        return self._items

    # Upstream events

    def _other(self, kind: str, event: dict[str, Any]) -> None:
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(event)
        elif kind in BY_DONE:
            self._text_done(BY_DONE[kind], event)
        elif kind in PASS_THROUGH:
            self._pass(kind, event)
        elif kind not in ("response.created", "response.in_progress", "response.queued", "keepalive"):
            self.dropped += 1

    def _delta(self, channel: Channel, event: dict[str, Any]) -> None:
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            return
        item = self._by_index.get(event.get("output_index"))  # type: ignore[arg-type]
        if item is None or item.done is not None:
            item = self._item_for(event, channel)
        index = event.get(channel.index_key, 0) if channel.place != "item" else 0
        text = item.texts.get((channel.place, index))
        if text is None or text.channel is not channel:
            text = self._open_text(item, channel, index)
        if text.closed:
            self.dropped += 1
            return
        self._emit_delta(text, text.split.add(delta), event.get("logprobs"))

    def _emit_delta(self, text: Text, delta: str, logprobs: Any = None) -> None:
        if not delta:
            return
        number = self.next_number
        self.next_number = number + 1
        tail = b"}"
        if text.channel.name == "output_text":
            tail = _EMPTY_TAIL
            if logprobs:
                text.logprobs.extend(logprobs)
                tail = b',"logprobs":' + orjson.dumps(mend(logprobs)) + b"}"
        self._out.append(b"%b%d%b%b%b" % (text.head, number, text.middle, orjson.dumps(delta), tail))

    def _text_done(self, channel: Channel, event: dict[str, Any]) -> None:
        item = self._item_for(event, channel)
        index = event.get(channel.index_key, 0) if channel.place != "item" else 0
        text = item.texts.get((channel.place, index)) or self._open_text(item, channel, index)
        if channel.name == "output_text" and not text.logprobs and isinstance(event.get("logprobs"), list):
            text.logprobs = event["logprobs"]
        self._close_text(item, text, event.get(channel.field))

    def _item_added(self, event: dict[str, Any]) -> None:
        given = event.get("item")
        if not isinstance(given, dict):
            self.dropped += 1
            return
        known = self._by_index.get(event.get("output_index"))  # type: ignore[arg-type]
        if known is not None and known.done is None:
            self.dropped += 1
            return
        self._add(mend(given), event.get("output_index"))

    def _item_done(self, event: dict[str, Any]) -> None:
        given = event.get("item")
        if not isinstance(given, dict):
            self.dropped += 1
            return
        item = self._find(event, given.get("id"))
        if item is None:
            item = self._add(mend(given), event.get("output_index"))
        self._finish(item, str(given.get("status") or "completed"), mend(given))

    def _part_added(self, event: dict[str, Any]) -> None:
        channel = channel_of_part(event.get("part"))
        if channel is None:
            self.dropped += 1
            return
        item = self._item_for(event, channel)
        index = event.get(channel.index_key, 0)
        if (channel.place, index) not in item.texts:
            self._open_text(item, channel, index)

    def _part_done(self, event: dict[str, Any]) -> None:
        """Parts are closed with their text; here only what came with the part and not before is taken."""
        part = event.get("part")
        channel = channel_of_part(part)
        if channel is None or not isinstance(part, dict):
            return
        item = self._item_for(event, channel)
        index = event.get(channel.index_key, 0)
        text = item.texts.get((channel.place, index)) or self._open_text(item, channel, index)
        self._close_text(item, text, part.get(channel.field), part)

    def _annotation(self, event: dict[str, Any]) -> None:
        item = self._find(event, event.get("item_id"))
        text = item.texts.get(("content", event.get("content_index", 0))) if item else None
        if item is None or text is None or text.closed:
            self.dropped += 1
            return
        annotation = mend(event.get("annotation"))
        text.annotations.append(annotation)
        fields = {
            **item.event_fields(text),
            "annotation_index": len(text.annotations) - 1,
            "annotation": annotation,
        }
        self._emit("response.output_text.annotation.added", fields)

    def _pass(self, kind: str, event: dict[str, Any]) -> None:
        item = self._find(event, event.get("item_id"))
        if item is None or item.done is not None:
            self.dropped += 1
            return
        hidden = ("type", "sequence_number", "item_id", "output_index", "obfuscation", "stream_id")
        rest = {key: value for key, value in event.items() if key not in hidden}
        self._emit(kind, {"item_id": item.id, "output_index": item.index, **mend(rest)})

    def _terminal(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        response = mend(response) if isinstance(response, dict) else {}
        self._conclude(verdict.from_response(response, str(event.get("type"))), response)

    def _whole_response(self, event: dict[str, Any]) -> None:
        response = mend(event.get("response") or {})
        self._conclude(verdict.from_response(response, f"response.{response.get('status')}"), response)

    def _error(self, event: dict[str, Any]) -> None:
        self.outcome = verdict.from_error_event(mend(event))

    def _conclude(self, outcome: Outcome, response: dict[str, Any]) -> None:
        """Take from the upstream's terminal what its stream left out, then close what is open."""
        if outcome.status != "failed":
            output = response.get("output")
            for index, given in enumerate(output if isinstance(output, list) else []):
                self._reconcile(index, given)
            status = "incomplete" if outcome.status == "incomplete" else "completed"
            for item in self._items:
                if item.done is None:
                    self._finish(item, status)
        self.outcome = outcome

    def _reconcile(self, index: int, given: Any) -> None:
        if not isinstance(given, dict):
            return
        if index < len(self._items):
            item = self._items[index]
            if item.done is None:
                self._finish(item, str(given.get("status") or "completed"), given)
            return
        self._finish(self._add(given, index), str(given.get("status") or "completed"), given)

    # Items and texts

    def _find(self, event: dict[str, Any], item_id: Any) -> OpenItem | None:
        item = self._by_index.get(event.get("output_index"))  # type: ignore[arg-type]
        if item is not None and item.done is None:
            return item
        by_id = self._by_id.get(item_id) if isinstance(item_id, str) else None
        return by_id or item

    def _item_for(self, event: dict[str, Any], channel: Channel) -> OpenItem:
        """The item an event is about; one that was never announced is announced now."""
        item = self._find(event, event.get("item_id"))
        if item is not None and item.done is None:
            return item
        kinds = {c.name: kind for kind, c in ITEM_CHANNEL.items()}
        fallback = "reasoning" if "reasoning" in channel.name else "message"
        kind = kinds.get(channel.name, fallback)
        return self._add({"type": kind, "id": event.get("item_id")}, event.get("output_index"))

    def _add(self, given: dict[str, Any], upstream_index: Any) -> OpenItem:
        kind = str(given.get("type"))
        call_id = self._call_id(kind, given)
        item = OpenItem(self._mint(id_prefix(kind)), len(self._items), given, call_id)
        if kind == "function_call":
            given.setdefault("name", "")
        self._items.append(item)
        self._by_index[upstream_index if isinstance(upstream_index, int) else item.index] = item
        if item.upstream_id:
            self._by_id[item.upstream_id] = item
        self._emit("response.output_item.added", {"output_index": item.index, "item": item.started()})
        return item

    def _call_id(self, kind: str, given: dict[str, Any]) -> str | None:
        """Ours for a call; for an output in the same response, that of the call it answers."""
        if kind in CALL_TYPES:
            return self._mint("call")
        if kind in OUTPUT_TYPES:
            for item in reversed(self._items):
                if item.type in CALL_TYPES and item.upstream.get("call_id") == given.get("call_id"):
                    return item.call_id
        return None

    def _open_text(self, item: OpenItem, channel: Channel, index: int) -> Text:
        text = item.open_text(channel, index)
        if channel.place != "item":
            name = "content_part" if channel.place == "content" else "reasoning_summary_part"
            self._emit(f"response.{name}.added", {**item.event_fields(text), "part": text.part()})
        return text

    def _close_text(self, item: OpenItem, text: Text, given: Any, part: dict[str, Any] | None = None) -> None:
        """End a text once: what `given` has beyond the deltas becomes one more delta; what was shown wins."""
        if text.closed:
            return
        self._emit_delta(text, text.split.flush())
        shown = text.split.text
        whole = mend_text(given) if isinstance(given, str) else shown
        if len(whole) > len(shown) and whole.startswith(shown):
            self._emit_delta(text, text.split.add(whole[len(shown) :]))
        if part is not None and text.channel.name == "output_text":
            text.annotations = text.annotations or part.get("annotations") or []
            text.logprobs = text.logprobs or part.get("logprobs") or []
        text.closed = True
        fields = item.event_fields(text)
        fields[text.channel.field] = text.split.text
        if text.channel.name == "output_text":
            fields["logprobs"] = text.logprobs
        if text.channel.name == "function_call_arguments":
            fields["name"] = item.upstream.get("name", "")
        self._emit(text.channel.done_type, fields)
        if text.channel.place != "item":
            name = "content_part" if text.channel.place == "content" else "reasoning_summary_part"
            self._emit(f"response.{name}.done", {**item.event_fields(text), "part": text.part()})

    def _finish(self, item: OpenItem, status: str, given: dict[str, Any] | None = None) -> None:
        """Close every text of the item and the item itself."""
        if item.done is not None:
            return
        if given is not None:
            self._take_given(item, given)
        for text in list(item.texts.values()):
            self._close_text(item, text, None)
        channel = ITEM_CHANNEL.get(item.type)
        if channel is not None and ("item", 0) not in item.texts and channel.field != "code":
            self._close_text(item, item.open_text(channel, 0), None)
        if status not in ("completed", "incomplete", "failed"):
            status = "completed"
        item.done = orjson.dumps(item.view(status))
        self._emit("response.output_item.done", {"output_index": item.index, "item": orjson.Fragment(item.done)})

    def _take_given(self, item: OpenItem, given: dict[str, Any]) -> None:
        """Merge the finished item of the upstream: texts it did not stream are streamed now."""
        channel = ITEM_CHANNEL.get(item.type)
        if channel is not None and given.get(channel.field) is not None:
            value = given[channel.field]
            whole = value if isinstance(value, str) else orjson.dumps(value).decode()
            text = item.texts.get(("item", 0)) or self._open_text(item, channel, 0)
            self._close_text(item, text, whole)
        if item.type in ("message", "reasoning"):
            for place in ("summary", "content"):
                parts = given.get(place)
                for index, part in enumerate(parts if isinstance(parts, list) else []):
                    self._take_part(item, index, part)
        item.upstream = {**item.upstream, **given}

    def _take_part(self, item: OpenItem, index: int, part: Any) -> None:
        channel = channel_of_part(part)
        if channel is None:
            return
        text = item.texts.get((channel.place, index)) or self._open_text(item, channel, index)
        self._close_text(item, text, part.get(channel.field), part)

    def _emit(self, event_type: str, fields: dict[str, Any]) -> None:
        self._out.append(self._encode(event_type, fields))

    def _encode(self, event_type: str, fields: dict[str, Any]) -> bytes:
        number = self.next_number
        self.next_number = number + 1
        return encode(event_type, number, fields)
