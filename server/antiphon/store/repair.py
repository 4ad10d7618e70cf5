"""Old events that no strict reader would take: what cannot be UTF-8 or JSON is mended on the way out."""

from __future__ import annotations

import json

import orjson

from antiphon.core.assembly.reading import mend


def repaired(payload: bytes) -> bytes:
    """Events joined by line feeds, each fit for a text frame. Sound ones stay as they are, byte for byte."""
    if b"\\u" not in payload and _is_utf8(payload):
        return payload
    return b"\n".join([_repaired_event(event) for event in payload.split(b"\n")])


def _repaired_event(event: bytes) -> bytes:
    try:
        orjson.loads(event)
        return event
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.dumps(mend(json.loads(event.decode("utf-8", "surrogatepass"))))
    except (ValueError, RecursionError, TypeError):
        return event.decode("utf-8", "replace").encode()


def _is_utf8(payload: bytes) -> bool:
    if payload.isascii():
        return True
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
