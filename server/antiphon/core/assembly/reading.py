"""Reading upstream events whatever they hold: surrogates are mended or joined, depth is bounded."""

from __future__ import annotations

import json
from typing import Any

import orjson

from antiphon.core.json_input import mend_text

_HIGH_FIRST, _HIGH_LAST = "\ud800", "\udbff"

MAX_DEPTH = 128
"""Nesting an upstream's event may have; what lies deeper becomes null. The encoder stops at 254 levels."""


def read_event(raw: bytes) -> dict[str, Any] | None:
    """One upstream event as an object that can be encoded; None if it is not one.

    Only its `delta` may still hold surrogates: halves of a pair that is split over deltas are joined later.
    """
    try:
        event = orjson.loads(raw)
        sound = raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH or _is_shallow(event)
    except orjson.JSONDecodeError:
        try:
            # parse_int: an integer of more than 64 bits becomes a float, as with the fast parser.
            event = json.loads(raw.decode("utf-8", "replace"), parse_int=orjson.loads)
            sound = False  # the fast parser refuses lone surrogates, this one does not
        except (ValueError, RecursionError):
            return None
    if not isinstance(event, dict):
        return None
    if sound:
        return event
    return {mend_text(key): value if key == "delta" else mend(value) for key, value in event.items()}


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return True
    return False


def mend(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The same value without lone surrogates, cut off (null) below `depth` levels."""
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, (list, dict)) and depth <= 0:
        return None
    if isinstance(value, list):
        return [mend(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {mend_text(key): mend(item, depth - 1) for key, item in value.items()}
    return value


def read_item(given: Any) -> dict[str, Any] | None:
    """An item that says what it is, without the fields the upstream left empty; None if it is no item."""
    if not isinstance(given, dict) or not _is_name(given.get("type")):
        return None
    return {key: value for key, value in given.items() if value is not None}


def usable_annotations(given: Any) -> list[dict[str, Any]]:
    """The annotations in `given` that say what they are."""
    return [a for a in _listed(given) if isinstance(a, dict) and _is_name(a.get("type"))]


def usable_logprobs(given: Any) -> list[dict[str, Any]]:
    """The log probabilities in `given` that can be read, with every field clients require."""
    return [
        {
            **_token(entry),
            "top_logprobs": [_token(top) for top in _listed(entry.get("top_logprobs")) if _is_token(top)],
        }
        for entry in _listed(given)
        if _is_token(entry)
    ]


def _token(entry: dict[str, Any]) -> dict[str, Any]:
    given = _listed(entry.get("bytes"))
    return {**entry, "bytes": given if all(type(byte) is int for byte in given) else []}


def _is_token(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        return False
    value = entry.get("logprob")
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


class SplitText:
    """Deltas of one text. A high surrogate at the end of a delta waits for its other half."""

    __slots__ = ("_held", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._held = ""

    def add(self, delta: str) -> str:
        """Take a delta; gives what may be shown now (perhaps nothing)."""
        if self._held or not delta.isascii():
            delta = self._join(delta)
        if delta:
            self.pieces.append(delta)
        return delta

    def finish(self, whole: str | None = None) -> str:
        """The end; gives the last delta: what `whole` (without surrogates) has beyond what was shown.

        What was shown wins over a `whole` that contradicts it. A half without its other half becomes U+FFFD.
        """
        shown, held = self.text, self._held
        self._held = ""
        rest = "\ufffd" if held else ""
        if whole is not None and len(whole) > len(shown) and whole.startswith(shown):
            rest = whole[len(shown) :]
        if rest:
            self.pieces.append(rest)
        return rest

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def _join(self, delta: str) -> str:
        delta = self._held + delta
        self._held = ""
        if _HIGH_FIRST <= delta[-1:] <= _HIGH_LAST:
            self._held = delta[-1]
            delta = delta[:-1]
        return mend_text(delta)
