"""Reading a log back: the output that its events add up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from antiphon.core.assembly.item import OpenItem
from antiphon.core.assembly.wire import BY_DELTA, BY_DONE, OUTPUT_TEXT, channel_of_part, part_index


def project(events: Iterable[bytes]) -> list[dict[str, Any]]:
    """The output items of a log, in order. Items without their done are `incomplete`, with what they said."""
    done: dict[int, dict[str, Any]] = {}
    half: dict[int, OpenItem] = {}
    for raw in events:
        event = orjson.loads(raw)
        kind, index = event["type"], event.get("output_index")
        if kind == "response.output_item.added":
            given = event["item"]
            half[index] = OpenItem(given["id"], index, given, given.get("call_id"))
        elif kind == "response.output_item.done":
            done[index] = event["item"]
            half.pop(index, None)
        elif index in half:
            _grow(half[index], kind, event)
    done |= {index: item.view("incomplete") for index, item in half.items()}
    return [done[index] for index in sorted(done)]


def _grow(item: OpenItem, kind: str, event: dict[str, Any]) -> None:
    """One event of an item that has no done yet."""
    channel = BY_DELTA.get(kind) or BY_DONE.get(kind) or channel_of_part(event.get("part"))
    if channel is None and kind == "response.output_text.annotation.added":
        channel = OUTPUT_TEXT
    if channel is None:
        return
    key = part_index(event, channel)
    text = item.texts.get((channel.name, key)) or item.open_text(channel, key)
    if kind in BY_DELTA:
        text.split.add(event["delta"])
    if kind == "response.output_text.annotation.added":
        text.annotations.append(event["annotation"])
    elif channel is OUTPUT_TEXT:
        part = event.get("part", {})
        text.annotations = part.get("annotations") or text.annotations
        said = event.get("logprobs") or part.get("logprobs") or []
        text.logprobs = [*text.logprobs, *said] if kind in BY_DELTA else said or text.logprobs
