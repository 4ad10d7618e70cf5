"""Reading JSON that clients send: exact, bounded, never fatal (PROTOCOL "Bad input").

Numbers are kept exactly or refused, nesting and the number of values are bounded, lone surrogates become U+FFFD.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import from_json

from antiphon.errors import RequestError

_MAX_INT = 2**64 - 1
_MIN_INT = -(2**63)
_INFINITE = float("inf")

_MAX_VALUES = 1_000_000
"""A body of 64 MiB can be one long text, which costs nothing, or 30 million numbers, on which the loop would stand
still for seconds."""

_MAX_STRINGS = 2 * _MAX_VALUES
"""Each is a value or the key of one."""

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""With its end or without, so that every quote is looked at once, whatever is sent."""
_STRING_OF_TEXT = re.compile(_STRING, re.DOTALL)
_STRING_OF_BYTES = re.compile(_STRING.encode(), re.DOTALL)


def parse_object(data: bytes | str, max_depth: int) -> dict[str, Any]:
    """One JSON object. Raises RequestError `invalid_json` with the reason."""
    if _holds_too_many(data):
        raise RequestError(f"The JSON has more than {_MAX_VALUES} values.", code="invalid_json")
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        value = _parse_surrogates(data, error)
    if not isinstance(value, dict):
        raise RequestError("Send one JSON object.", code="invalid_json")
    _check(value, max_depth)
    return value


def _holds_too_many(data: bytes | str) -> bool:
    """Whether there are more values than may be, found before any of them is built. Text is one, however long."""
    if len(data) <= 2 * _MAX_VALUES:  # each takes two bytes, itself and its comma
        return False
    if _values(data) <= _MAX_VALUES:
        return False
    if isinstance(data, str):
        rest, strings = _STRING_OF_TEXT.subn("", data, _MAX_STRINGS)
        return strings == _MAX_STRINGS or _values(rest) > _MAX_VALUES
    raw, strings = _STRING_OF_BYTES.subn(b"", data, _MAX_STRINGS)
    return strings == _MAX_STRINGS or _values(raw) > _MAX_VALUES


def _values(data: bytes | str) -> int:
    """No less than the values in it: each comes after a comma or what opens an array or object."""
    if isinstance(data, str):
        return sum(map(data.count, (",", "[", "{")))
    return sum(map(data.count, (b",", b"[", b"{")))


def _parse_surrogates(data: bytes | str, error: ValueError) -> Any:
    """The fast parser refuses lone surrogate escapes; read them with the standard one and mend them."""
    if "hex escape" not in str(error) and "surrogate" not in str(error):
        raise RequestError(f"The JSON cannot be read: {_reason(error)}.", code="invalid_json") from error
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        return json.loads(text, object_pairs_hook=_mend_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as second:
        raise RequestError("The JSON cannot be read.", code="invalid_json") from second


def _mend_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {mend_text(key): _mend_value(value) for key, value in pairs}


def _mend_value(value: Any) -> Any:
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, list):
        return [_mend_value(item) for item in value]
    return value  # objects were mended when they were built


def mend_text(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _reason(error: ValueError) -> str:
    return str(error).removeprefix("Error: ")[:200]


def _check(root: dict[str, Any], max_depth: int) -> None:
    """Bound nesting and numbers without recursion: hostile input must not decide our stack."""
    level: list[Any] = [root]
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise RequestError(f"The JSON is nested deeper than {max_depth} levels.", code="invalid_json")
        deeper: list[Any] = []
        for container in level:
            for value in container.values() if type(container) is dict else container:
                kind = type(value)
                if kind is str or kind is bool or value is None:
                    continue
                if kind is dict or kind is list:
                    deeper.append(value)
                elif kind is int:
                    if not _MIN_INT <= value <= _MAX_INT:
                        raise RequestError(
                            "An integer has more than 64 bits; send it as a string.", code="invalid_json"
                        )
                elif value in (_INFINITE, -_INFINITE):
                    raise RequestError("A number is too large to be kept.", code="invalid_json")
        level = deeper
