"""Reading upstream events whatever they hold: lone surrogates are mended, split pairs are joined."""

from __future__ import annotations

import json
from typing import Any

import orjson

from antiphon.core.json_input import mend_text

_HIGH_FIRST, _HIGH_LAST = "\ud800", "\udbff"


def read_event(raw: bytes) -> dict[str, Any] | None:
    """One upstream event as an object; None if it is not one. Texts may still hold surrogates."""
    try:
        event = orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            event = json.loads(raw.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return event if isinstance(event, dict) else None


def mend(value: Any) -> Any:
    """The same value without lone surrogates."""
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, list):
        return [mend(item) for item in value]
    if isinstance(value, dict):
        return {mend_text(key): mend(item) for key, item in value.items()}
    return value


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

    def flush(self) -> str:
        """The end: a half that never got its other half is shown as U+FFFD."""
        rest = "\ufffd" if self._held else ""
        self._held = ""
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
