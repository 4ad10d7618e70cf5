"""The input of a custom tool, out of the arguments of the function that stands for it."""

from __future__ import annotations

import re

import orjson

from antiphon.upstream.chat.tools import INPUT

_START = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_LONGEST_START = 256
"""Characters; arguments that begin otherwise are of another shape."""

_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.", re.DOTALL)
_BODY = re.compile(
    r"""(?:[^"\\]+|\\u[0-9a-fA-F]{4}|\\u(?=[0-9a-fA-F]{0,3}[^0-9a-fA-F])|\\[^u])*""",
    re.DOTALL,
)
"""Text inside a JSON string up to its end or to an escape that is not complete yet."""

_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


class CustomInput:
    """Takes arguments as they come, gives the text of the input as far as it is clear.

    Wrong escapes, which models make when they write code, stand for themselves.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._pending = ""
        self._inside = False
        self._closed = False

    def add(self, piece: str) -> str:
        """More arguments; gives more of the input, perhaps nothing."""
        if not self._inside:
            self._pieces.append(piece)
        if self._closed:
            return ""
        self._pending += piece
        if not self._inside:
            start = _START.match(self._pending)
            if start is None:
                self._closed = len(self._pending) > _LONGEST_START
                return ""
            self._inside, self._pending = True, self._pending[start.end() :]
        body = _BODY.match(self._pending)
        assert body is not None  # it matches nothing as well
        self._pending = self._pending[body.end() :]
        self._closed = self._pending.startswith('"')
        return _ESCAPE.sub(_meant, body.group())

    def finish(self) -> str:
        """The end of the arguments; gives the rest. Arguments of another shape are the input as they are."""
        if self._inside:
            return ""
        text = "".join(self._pieces)
        try:
            given = orjson.loads(text)
        except (orjson.JSONDecodeError, TypeError):
            return text
        value = given
        if isinstance(given, dict):
            value = given.get(INPUT, next(iter(given.values())) if len(given) == 1 else None)
        return value if isinstance(value, str) else text


def _meant(escape: re.Match[str]) -> str:
    text = escape.group()
    if len(text) == 6:
        return chr(int(text[2:], 16))
    return _MEANT.get(text[1], text)
