"""Arguments that fit a tool's JSON schema, for a demo call that looks sensible."""

from __future__ import annotations

import re
from typing import Any

_MAX_DEPTH = 6

_BY_NAME = {
    "city": "Paris",
    "location": "Paris",
    "place": "Paris",
    "country": "France",
    "path": "README.md",
    "file": "README.md",
    "filename": "README.md",
    "command": "echo hello",
    "cmd": "echo hello",
    "url": "https://example.com/",
    "email": "ada@example.com",
    "name": "Ada",
    "language": "en",
    "timezone": "Europe/Paris",
    "unit": "celsius",
    "date": "2030-01-01",
}
_NAMES_OF_THE_WORLD = {"city", "location", "place", "country", "name"}
"""Arguments that a name in the question fits better than the fixed example."""
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w-]+"
_NAMED = re.compile(rf"(?<=[^\s.?!:]\s){_CAPITAL}(?: {_CAPITAL})*")
"""Capitalised words that do not begin a sentence."""
_BY_FORMAT = {
    "date": "2030-01-01",
    "date-time": "2030-01-01T12:00:00Z",
    "time": "12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example(schema: Any, words: str) -> Any:
    """A value for the schema. words: what the user said, used for texts whose name says nothing better.

    Covers what tools use: types, enum, const, default, required, items, bounds, unions, `$ref` inside the
    schema. A schema it cannot read gives an empty object.
    """
    if not isinstance(schema, dict):
        return {}
    return _Maker(schema, words).make({"type": "object", **schema}, "", 0)


class _Maker:
    def __init__(self, root: dict[str, Any], words: str) -> None:
        self._root = root
        self._words = words
        self._named = _NAMED.search(words)

    def make(self, schema: Any, name: str, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return None
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if isinstance(schema.get(key), list) and schema[key]:
                return schema[key][0]
        inner = self._inner(schema)
        if inner is not None:
            return self.make(inner, name, depth + 1)
        return self._typed(schema, name, depth)

    def _inner(self, schema: dict[str, Any]) -> Any:
        """The schema this one stands for, if it only points to others."""
        if isinstance(schema.get("$ref"), str):
            found: Any = self._root
            for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
                found = found.get(step) if isinstance(found, dict) else None
            return found
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                return next((o for o in options if isinstance(o, dict) and o.get("type") != "null"), options[0])
        if isinstance(schema.get("allOf"), list):
            merged: dict[str, Any] = {}
            for part in schema["allOf"]:
                merged |= part if isinstance(part, dict) else {}
            return merged
        return None

    def _typed(self, schema: dict[str, Any], name: str, depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((k for k in kind if k != "null"), "null")
        match kind:
            case "string":
                return self._text(schema, name)
            case "integer" | "number":
                return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
            case "boolean":
                return True
            case "array":
                count = max(int(schema.get("minItems", 1)), 1)
                return [self.make(schema.get("items", {"type": "string"}), name, depth + 1) for _ in range(count)]
            case "null":
                return None
        return self._object(schema, depth)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return {}
        wanted = schema.get("required") or list(properties)
        return {key: self.make(properties.get(key, {}), key, depth + 1) for key in wanted}

    def _text(self, schema: dict[str, Any], name: str) -> str:
        known = _BY_FORMAT.get(str(schema.get("format"))) or self._known(name.lower())
        text = known or self._words.strip() or "hello"
        least, most = int(schema.get("minLength", 0)), int(schema.get("maxLength", 200))
        return text.ljust(least, ".")[:most]

    def _known(self, name: str) -> str | None:
        if self._named and name in _NAMES_OF_THE_WORLD:
            return self._named[0]
        return _BY_NAME.get(name)
