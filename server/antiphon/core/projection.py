"""Reading a log back: the output that its events add up to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from antiphon.core.assembly.item import OpenItem
from antiphon.core.assembly.wire import BY_DELTA


def project(events: Iterable[bytes]) -> list[dict[str, Any]]:
    """The output items of a log, in order. Items without their done are `incomplete`, with what they said."""
    items: dict[int, dict[str, Any]] = {}
    open_items: dict[int, OpenItem] = {}
    for raw in events:
        event = orjson.loads(raw)
        kind, index = event["type"], event.get("output_index")
        if kind == "response.output_item.added":
            given = event["item"]
            open_items[index] = OpenItem(given["id"], index, given, given.get("call_id"))
        elif kind == "response.output_item.done":
            items[index] = event["item"]
            open_items.pop(index, None)
        elif kind in BY_DELTA and index in open_items:
            channel = BY_DELTA[kind]
            item = open_items[index]
            part = event.get(channel.index_key, 0) if channel.place != "item" else 0
            text = item.texts.get((channel.place, part)) or item.open_text(channel, part)
            text.split.add(event["delta"])
    items |= {index: item.view("incomplete") for index, item in open_items.items()}
    return [items[index] for index in sorted(items)]
