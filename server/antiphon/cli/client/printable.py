"""Text from outside, made harmless for a terminal: no control character of it reaches the screen."""

from __future__ import annotations

import re
import unicodedata

_KEPT = "\n\t"
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Marks that let a line read as another than it is."""


def printable(text: str) -> str:
    """Lines stay lines; what could move the cursor, colour or retitle becomes a replacement character."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(c if c in _KEPT or not _is_control(c) else "\ufffd" for c in _BIDI.sub("", text))


def one_line(text: str, most: int = 200) -> str:
    """The same on one line, and no longer than `most` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
