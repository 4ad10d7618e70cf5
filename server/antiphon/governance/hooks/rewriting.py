"""What a middleware may change of a request, and what it did change."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import orjson

from antiphon.hooks import Reply, RunRequest

_FREE = ("input", "agent", "model")


class Rewrite:
    """A request between two middlewares. Each gets a copy of the input, so that only what it passes on counts."""

    def __init__(self, request: RunRequest, encoded: bytes | None = None) -> None:
        self.request = request
        self._encoded = encoded if encoded is not None else orjson.dumps(request.input)

    def copy(self) -> RunRequest:
        """The request for one middleware, which may do with it what it likes."""
        return replace(self.request, input=orjson.loads(self._encoded))

    def accept(self, passed: Any) -> tuple[Rewrite, tuple[str, ...]]:
        """The request as it was passed on, and the fields that differ. Raises ValueError for what may not be."""
        if not isinstance(passed, RunRequest):
            raise ValueError(f"passed on {type(passed).__name__}")
        for field in fields(RunRequest):
            if field.name not in _FREE and getattr(passed, field.name) != getattr(self.request, field.name):
                raise ValueError(f"changed {field.name}")
        if not all(isinstance(name, (str, type(None))) for name in (passed.agent, passed.model)):
            raise ValueError("passed on a name that is no string")
        encoded = _encoded(passed.input)
        same = encoded == self._encoded
        changed = [name for name in ("agent", "model") if getattr(passed, name) != getattr(self.request, name)]
        if not same:
            changed.insert(0, "input")
        if not changed:
            return self, ()
        kept = self.request.input if same else orjson.loads(encoded)
        return Rewrite(replace(passed, input=kept), encoded), tuple(changed)


def checked_reply(reply: Reply) -> Reply:
    """The reply as it can be shown and kept. Raises ValueError if it is no JSON."""
    if reply.items is None:
        _encoded([{"text": reply.text}])
        return reply
    return Reply(items=orjson.loads(_encoded(reply.items)))


def _encoded(items: Any) -> bytes:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("the input is no list of items")
    try:
        return orjson.dumps(items)
    except TypeError as error:
        raise ValueError("something in it is no JSON") from error
