"""The last look at a log line: what has the name or the shape of a secret does not leave the process.

No line is meant to hold one. This is for the day on which a library, an exception's text or one of us does it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

MASK = "[masked]"

_SECRET_WORDS = frozenset(
    {"authorization", "cookie", "credential", "key", "passwd", "password", "secret", "ticket", "token"}
)
"""A field is masked if a word of its name is one of these: `api_key` and `x-upstream-token`, not `tokens`."""

_WORDS = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_NAMED = r"(?:[\w-]*[_-])?(?:authorization|cookie|passwd|password|secret|ticket|token|key)"

_SHAPES = re.compile(
    rf"""
      (?P<scheme> \bbearer\s+ | \bbasic\s+ (?=[\w+/]{{8}}) ) [^\s"',;]+      # a header's value
    | (?P<query> [?&;\s"'] {_NAMED} = ) [^\s&;"']+                         # a query, a connection string
    | (?P<item> ["'] {_NAMED} ["'] \s*:\s* ["'] ) [^"']+                  # JSON, or what Python shows of a dict
    | (?P<login> \b[a-z][a-z0-9+.-]*:// [^\s/@:"']* : ) [^\s/@"']+ (?=@)    # the password in a URL
    | \beyJ[\w-]{{5,}}\.[\w-]+\.[\w-]*                                     # a JSON Web Token
    | \b(?:ak|sk)[-_][\w-]{{8,}}                                           # keys of ours and of OpenAI's form
    """,
    re.VERBOSE | re.IGNORECASE,
)

_DEEPEST = 6
"""Levels of lists and objects that are looked into; what is nested deeper is masked whole."""


def mask_secrets(logger: Any, method: str, line: Mapping[str, Any]) -> dict[str, Any]:
    """A processor of structlog: the line with secrets replaced. It stands right before the renderer."""
    return {name: _masked(name, value, 0) for name, value in line.items()}


def mask_text(text: str) -> str:
    """Text with everything replaced that has the shape of a secret. What introduces it stays."""
    return _SHAPES.sub(_mask_match, text) if _may_hold_one(text) else text


def _may_hold_one(text: str) -> bool:
    """False for most names and ids, which have nothing that any shape needs: the pattern costs ten times this."""
    if " " in text or "=" in text or ":" in text or not text.isprintable():
        return True
    text = text.lower()
    return "eyj" in text or "k_" in text or "k-" in text


def _mask_match(found: re.Match[str]) -> str:
    return f"{found['scheme'] or found['query'] or found['item'] or found['login'] or ''}{MASK}"


def _masked(name: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if _names_secret(name):
        return MASK
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, bytes):
        return mask_text(value.decode("utf-8", "replace"))
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _masked_inside(value, depth + 1)
    return value


def _masked_inside(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return MASK
    if isinstance(value, Mapping):
        return {name: _masked(str(name), inner, depth) for name, inner in value.items()}
    return [_masked("", inner, depth) for inner in value]


@functools.lru_cache(maxsize=1024)
def _names_secret(name: str) -> bool:
    return not _SECRET_WORDS.isdisjoint(_WORDS.findall(_CAMEL.sub("_", name).lower()))
