"""A response's own input as `GET .../input_items` lists it: every item with an id, a type and a status."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import orjson

from antiphon.core.assembly.wire import id_prefix
from antiphon.errors import RequestError

_WITH_STATUS = frozenset({"message", "function_call", "function_call_output"})


def list_items(response_id: str, encoded: bytes) -> list[dict[str, Any]]:
    """All items, oldest first. encoded: items joined by commas. Ids that clients did not give are derived."""
    items: list[dict[str, Any]] = orjson.loads(b"[" + encoded + b"]")
    made_in = response_id.removeprefix("resp_")
    return complete_items(items, lambda kind, index: f"{id_prefix(kind)}_{made_in}{index:04x}")


def complete_items(items: Sequence[dict[str, Any]], name: Callable[[str, int], str]) -> list[dict[str, Any]]:
    """Items with what clients may leave out. name: gives an id to the item of this type at this place."""
    seen: set[str] = set()
    return [_complete(item, index, seen, name) for index, item in enumerate(items)]


def find_items(response_id: str, encoded: bytes, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """The items that are listed under these ids, as the client sent them."""
    listed = list_items(response_id, encoded)
    sent: list[dict[str, Any]] = orjson.loads(b"[" + encoded + b"]")
    return {shown["id"]: item for shown, item in zip(listed, sent, strict=True) if shown["id"] in ids}


def _complete(item: dict[str, Any], index: int, seen: set[str], name: Callable[[str, int], str]) -> dict[str, Any]:
    """seen: ids given so far. One that is used twice, or is no text, would lead `after` astray."""
    kind = item.get("type") or "message"
    whole = {"id": None, **item, "type": kind}
    if not isinstance(whole["id"], str) or not whole["id"] or whole["id"] in seen:
        whole["id"] = name(kind, index)
    seen.add(whole["id"])
    if kind in _WITH_STATUS:
        whole.setdefault("status", "completed")
    if kind == "message" and isinstance(whole.get("content"), str):
        part = "output_text" if whole.get("role") == "assistant" else "input_text"
        extra: dict[str, Any] = {"annotations": [], "logprobs": []} if part == "output_text" else {}
        whole["content"] = [{"type": part, "text": whole["content"], **extra}]
    return whole


def page(items: list[dict[str, Any]], *, limit: int, order: str, after: str | None) -> dict[str, Any]:
    """One page of a list. Raises RequestError if `after` is not in it."""
    ordered = items if order == "asc" else items[::-1]
    start = 0
    if after is not None:
        position = next((i for i, item in enumerate(ordered) if item["id"] == after), None)
        if position is None:
            raise RequestError(f"No item {after[:80]!r} in this list.", param="after")
        start = position + 1
    shown = ordered[start : start + limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": start + limit < len(ordered),
    }
