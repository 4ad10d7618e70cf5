"""One output item as the gap checker sees it grow: its parts, its texts, its done event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Event = Mapping[str, Any]


class GapError(AssertionError):
    """A promise of the event log is broken."""


@dataclass(frozen=True)
class TextKind:
    """A text that comes in deltas: the field of its done event, and the index that tells several apart."""

    name: str
    done_field: str
    index_field: str | None
    part_type: str | None = None


TEXTS: dict[str, TextKind] = {
    "response.output_text": TextKind("text", "text", "content_index", "output_text"),
    "response.refusal": TextKind("refusal", "refusal", "content_index", "refusal"),
    "response.reasoning_text": TextKind("reasoning", "text", "content_index", "reasoning_text"),
    "response.reasoning_summary_text": TextKind("summary", "text", "summary_index", "summary_text"),
    "response.function_call_arguments": TextKind("arguments", "arguments", None),
    "response.mcp_call_arguments": TextKind("arguments", "arguments", None),
    "response.custom_tool_call_input": TextKind("input", "input", None),
    "response.code_interpreter_call_code": TextKind("code", "code", None),
}
PARTS = {"response.content_part": "content_index", "response.reasoning_summary_part": "summary_index"}
PART_FIELD = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
WHOLE_TEXT = {"function_call": "arguments", "custom_tool_call": "input"}
"""Item types that carry one text, and must have streamed it before their done event."""


@dataclass
class Text:
    """Deltas, then one done. late: its first deltas may have come before we listened."""

    name: str
    late: bool = False
    got: str = ""
    done: str | None = None

    def delta(self, delta: object) -> None:
        if not isinstance(delta, str):
            raise GapError(f"{self.name}: the delta is {delta!r}, not a string")
        if self.done is not None:
            raise GapError(f"{self.name}: a delta came after the done event")
        self.got += delta

    def finish(self, text: object) -> None:
        if self.done is not None:
            raise GapError(f"{self.name}: a second done event")
        if not isinstance(text, str):
            raise GapError(f"{self.name}: the done text is {text!r}, not a string")
        same = text.endswith(self.got) if self.late else text == self.got
        if not same:
            raise GapError(f"{self.name}: the deltas add up to {self.got!r}, but done says {text!r}")
        self.done = text


@dataclass
class Part:
    """A content or summary part; `done` is the part of its done event."""

    index_field: str
    type: str | None
    text: Text
    done: dict[str, Any] | None = None
    annotations: int = 0


@dataclass
class Item:
    """From `response.output_item.added` to `response.output_item.done`."""

    id: str
    type: str | None
    start: dict[str, Any] | None
    parts: dict[tuple[str, int], Part] = field(default_factory=dict)
    whole: dict[str, Text] = field(default_factory=dict)
    done: dict[str, Any] | None = None

    @classmethod
    def added(cls, event: Event) -> Item:
        item = event.get("item")
        if not isinstance(item, dict) or not isinstance(item.get("id"), str) or not item["id"]:
            raise GapError("the added item has no id")
        return cls(item["id"], item["type"], item)

    @classmethod
    def seen_late(cls, event: Event) -> Item:
        """An item that was added before we listened."""
        item = event.get("item")
        item_id = item.get("id") if isinstance(item, dict) else event.get("item_id")
        return cls(str(item_id), None, None)

    @property
    def late(self) -> bool:
        return self.start is None

    def feed(self, event: Event, kind: str) -> None:
        """Check one event of this item. Raises GapError."""
        if self.done is not None:
            raise GapError(f"{kind} came after item {self.id} was done")
        if kind == "response.output_item.done":
            self._finish(event.get("item"))
            return
        if "item_id" in event and event["item_id"] != self.id:
            at = event["output_index"]
            raise GapError(f"item_id is {event['item_id']!r}, but output_index {at} is {self.id}")
        base, _, verb = kind.rpartition(".")
        if base in TEXTS and verb in ("delta", "done"):
            self._text_event(event, TEXTS[base], verb)
        elif base in PARTS:
            self._part_event(event, PARTS[base], verb)
        elif kind == "response.output_text.annotation.added":
            self._annotation(event)

    def _text_event(self, event: Event, kind: TextKind, verb: str) -> None:
        if "item_id" not in event:
            raise GapError("the event has no item_id")
        if kind.index_field is None:
            name = f"{kind.name} of {self.id}"
            text = self.whole.setdefault(kind.name, Text(name, late=self.late))
        else:
            text = self._part(event, kind.index_field, kind.part_type).text
        if verb == "delta":
            text.delta(event.get("delta"))
        else:
            text.finish(event.get(kind.done_field))

    def _part(self, event: Event, index_field: str, part_type: str | None) -> Part:
        index = event.get(index_field)
        if not isinstance(index, int):
            raise GapError(f"{index_field} is {index!r}")
        part = self.parts.get((index_field, index))
        if part is None:
            if not self.late:
                raise GapError(f"item {self.id} has no part added at {index_field} {index}")
            part = Part(index_field, part_type, Text(f"{index_field} {index} of {self.id}", late=True))
            self.parts[index_field, index] = part
        if part.type not in (None, part_type) and part_type is not None:
            raise GapError(f"a text of {part_type} for a part of type {part.type}")
        if part.done is not None:
            raise GapError(f"an event for {index_field} {index} of {self.id} after that part was done")
        return part

    def _part_event(self, event: Event, index_field: str, verb: str) -> None:
        part = event.get("part")
        if not isinstance(part, dict):
            raise GapError("the event has no part")
        if verb == "done":
            self._finish_part(self._part(event, index_field, part.get("type")), part)
            return
        index = event.get(index_field)
        expected = 1 + max((i for name, i in self.parts if name == index_field), default=-1)
        if index != expected and not (self.late and expected == 0):
            raise GapError(f"{index_field} is {index!r}, expected {expected}: they are dense, in order")
        assert isinstance(index, int)
        first = part.get(PART_FIELD.get(str(part.get("type")), ""), "")
        text = Text(f"{index_field} {index} of {self.id}", got=first or "")
        self.parts[index_field, index] = Part(index_field, part.get("type"), text)

    def _finish_part(self, part: Part, done: dict[str, Any]) -> None:
        name = PART_FIELD.get(str(done.get("type")))
        if name is not None:
            if part.text.done is None and part.text.late and not part.text.got:
                part.text.done = done.get(name)  # its text was done before we listened
            if part.text.done is None:
                raise GapError(f"{part.text.name}: the part is done before its text")
            said, text = done.get(name), part.text.done
            if said != text:
                raise GapError(f"{part.text.name}: the part says {said!r}, its text {text!r}")
        part.done = done

    def _annotation(self, event: Event) -> None:
        part = self._part(event, "content_index", "output_text")
        index = event.get("annotation_index")
        if index != part.annotations and not self.late:
            raise GapError(f"annotation_index is {index!r}, expected {part.annotations}")
        part.annotations += 1

    def _finish(self, item: object) -> None:
        if not isinstance(item, dict):
            raise GapError("the done event has no item")
        if item.get("id") != self.id:
            raise GapError(f"the done item's id is {item.get('id')!r}, it was added as {self.id}")
        for name in ("type", "call_id", "name", "role"):
            if self.start is None:
                continue
            before, now = self.start.get(name), item.get(name)
            if now != before:
                raise GapError(f"{name} of {self.id} was {before!r} and is {now!r} when done")
        self._check_whole(item)
        self._check_parts(item, "content", "content_index")
        self._check_parts(item, "summary", "summary_index")
        self.done = item

    def _check_whole(self, item: dict[str, Any]) -> None:
        name = WHOLE_TEXT.get(str(item.get("type")))
        if name is not None and name not in self.whole and not self.late:
            raise GapError(f"item {self.id} is done, but its {name} were never streamed")
        for name, text in self.whole.items():
            if text.done is None:
                raise GapError(f"{text.name}: the item is done before it")
            said = item.get(name)
            if said != text.done:
                raise GapError(f"{text.name}: streamed as {text.done!r}, but the item says {said!r}")

    def _check_parts(self, item: dict[str, Any], name: str, index_field: str) -> None:
        """The item's list is the parts that were streamed, and nothing else."""
        listed = item.get(name) or []
        if not isinstance(listed, list):
            raise GapError(f"{name} of {self.id} is {listed!r}")
        mine = {i: part for (field_name, i), part in self.parts.items() if field_name == index_field}
        if not self.late and item.get("type") in ("message", "reasoning") and len(listed) != len(mine):
            raise GapError(f"{name} of {self.id} has {len(listed)} parts, but {len(mine)} were streamed")
        for index, part in mine.items():
            if part.done is None:
                raise GapError(f"{part.text.name}: the item is done before this part")
            if index >= len(listed) or listed[index] != part.done:
                raise GapError(
                    f"{name}[{index}] of {self.id} differs from its done part\n"
                    f"  item: {listed[index : index + 1]!r}\n  part: {part.done!r}"
                )
