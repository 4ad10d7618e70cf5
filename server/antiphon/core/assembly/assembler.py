"""The assembler: upstream events in, the canonical log of one run out.

Whatever order, ids, numbers or omissions an upstream has, clients get `response.created`, then for each item
one added, its parts and deltas, their dones, one done, then one terminal event; numbers without a hole, dense
output indices, texts that add up. A response may take several model calls: `begin_round` starts the next one, and
numbers, indices and items go on. `feed` does not emit the terminal event: the upstream's verdict is kept in
`outcome`, and `terminal()` encodes it when the run's owner has decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from antiphon.core.assembly import outcome as verdict
from antiphon.core.assembly.item import CALL_TYPES, OpenItem, Text
from antiphon.core.assembly.outcome import Outcome
from antiphon.core.assembly.own_items import OwnItems
from antiphon.core.assembly.reading import read_event, read_item, usable_annotations, usable_logprobs
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.core.assembly.server_call import ServerTool
from antiphon.core.assembly.sink import HeldTooMuch
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
    id_prefix,
    part_index,
)

_MAX_EARLY = 10_000
"""Texts of calls that are kept until the call is announced. Nobody sends so many before."""


class Assembler(OwnItems):
    """State of one response.

    outcome: how the upstream said this round ended, None so far. dropped: upstream events that were no use to a
    client (unknown types, broken ones).
    """

    def __init__(self, response: ResponseObject, mint: Callable[[str], str]) -> None:
        super().__init__(mint)
        self.response = response
        self.outcome: Outcome | None = None
        self.dropped = 0
        self._early: list[dict[str, Any]] = []
        """Texts of calls that were not announced yet."""

    def begin_round(self) -> None:
        """Another model call follows; what was said so far stays."""
        self._items.next_round()
        self._early.clear()
        self.outcome = None

    # Lifecycle events

    def lifecycle(self, event_type: str, status: str) -> bytes:
        """`response.created`, `.queued` or `.in_progress`."""
        self._emit(None, event_type, {"response": orjson.Fragment(self.response.encode(status, b"[]"))})
        return self._sink.take()[0]

    def feed(self, batch: Sequence[bytes]) -> list[bytes]:
        """Take upstream events; gives the events for the log, in order. Nothing after the outcome."""
        for raw in batch:
            if self.outcome is not None:
                break
            self._feed(raw)
        return self._sink.take()

    def _feed(self, raw: bytes) -> None:
        event = read_event(raw)
        if event is None:
            self.dropped += 1
            return
        try:
            channel = BY_DELTA.get(event["type"])
            if channel is not None:
                self._delta(channel, event)
            else:
                self._other(event["type"], event)
        except (KeyError, TypeError, ValueError, AttributeError):
            # A field of a wrong type costs the client this one event, never the run.
            self.dropped += 1
        except HeldTooMuch:
            self.outcome = verdict.failed(
                "upstream_error", "The model said too much behind a tool call.", http_status=502
            )

    def terminal(self, outcome: Outcome) -> bytes:
        """The one terminal event. Open items appear in its output as `incomplete`."""
        body = self.snapshot(outcome)
        self._emit(None, outcome.event_type, {"response": orjson.Fragment(body)})
        return self._sink.take()[-1]

    def snapshot(self, outcome: Outcome | None = None) -> bytes:
        """The response object as it stands, encoded."""
        output = b"[" + b",".join(self.output_items()) + b"]"
        if outcome is None:
            return self.response.encode("in_progress", output)
        return self.response.encode(outcome.status, output, outcome)

    def output_items(self) -> list[bytes]:
        """The output items as clients see them, encoded."""
        return [i.done if i.done is not None else orjson.dumps(i.view("incomplete")) for i in self.items]

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
        assert item is not None
        self._emit_delta(item.index, text, text.split.add(delta), event.get("logprobs"))

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
        self._emit(item.index, "response.output_text.annotation.added", {**item.event_fields(text), **index})

    def _pass(self, kind: str, event: dict[str, Any]) -> None:
        rest = {key: value for key, value in event.items() if key not in HIDDEN}
        name = kind.split(".")[1]
        if name == "audio":
            self._emit(None, kind, rest)  # it is of the response, not of an item
            return
        item = self._items.find(
            event.get("output_index"), event.get("item_id"), name if name in ID_PREFIXES else None
        )
        if item is None or item.done is not None:
            self.dropped += 1
            return
        self._emit(item.index, kind, {"item_id": item.id, "output_index": item.index, **rest})

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
            for item in self._items.of_round:
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
        tool = None
        if kind == "function_call" and self.server_tools and not given.get("namespace"):
            tool = self.server_tools.get(given["name"])
        item_id = self._mint(id_prefix(_shown_type(kind, tool)))
        item = OpenItem(
            id=item_id,
            index=len(self.items),
            upstream=given,
            call_id=self._call_id(given, item_id, tool),
            upstream_index=upstream_index if type(upstream_index) is int else None,
            upstream_id=given["id"] if isinstance(given.get("id"), str) else None,
            tool=tool,
        )
        self._announce(item)
        self._items.add(item)
        if kind in ITEM_CHANNEL:
            early, self._early = self._early, []
            for event in early:
                channel = BY_DELTA.get(event["type"])
                if channel is not None:
                    self._delta(channel, event)
                else:
                    self._text_done(BY_DONE[event["type"]], event)
        return item

    def _call_id(self, given: dict[str, Any], item_id: str, tool: ServerTool | None) -> str | None:
        """The id by which a call is answered: an approval names the request itself."""
        if given["type"] not in CALL_TYPES:
            return self._items.answered_by(given)
        return item_id if tool is not None and tool.needs_approval else self._mint("call")


def _shown_type(kind: str, tool: ServerTool | None) -> str:
    if tool is None:
        return kind
    return "mcp_approval_request" if tool.needs_approval else tool.item_type


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
