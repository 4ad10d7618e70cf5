"""Errors that travel: what a handler on another node raised is raised again, whole, where it was asked."""

from __future__ import annotations

from typing import Any

import orjson

from antiphon.errors import AntiphonError


def encode_error(error: AntiphonError) -> bytes:
    """Everything a client or a caller can see of it, as JSON."""
    return orjson.dumps({"class": type(error).__name__, "fields": vars(error)}, default=str)


def decode_error(payload: bytes) -> AntiphonError:
    """The same error; of the nearest class that is known here, if the other node is of another version."""
    found: dict[str, Any] = orjson.loads(payload)
    fields: dict[str, Any] = found["fields"]
    kind = _classes().get(found["class"], AntiphonError)
    error = kind.__new__(kind, fields["message"])
    Exception.__init__(error, fields["message"])
    vars(error).update(fields)
    return error


def _classes() -> dict[str, type[AntiphonError]]:
    """By name; those of `errors.py` only, so that a class of another module cannot take the place of one."""
    found: dict[str, type[AntiphonError]] = {}
    left: list[type[AntiphonError]] = [AntiphonError]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if kind.__module__ == AntiphonError.__module__:
            found[kind.__name__] = kind
    return found
