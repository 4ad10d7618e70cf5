"""Where the output of an answer begins, and how an answer ended.

Nothing has been delivered as long as an upstream only said that it took the call. Until then the call may be
made again, or another model be asked, and nobody can tell the difference.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall, Upstream
from antiphon.upstream.failures import error_inside, error_of, said_by

_QUIET = frozenset({b"response.created", b"response.queued", b"response.in_progress", b"keepalive"})
_TYPE_FIRST = re.compile(rb'\s*\{\s*"type"\s*:\s*"([^"\\]+)"')
_LAST = re.compile(
    rb'"type"\s*:\s*"(?:response\.(?:completed|incomplete|cancelled|failed)|error|antiphon\.whole_response)"'
)
_WHOLE = b"antiphon.whole_response"
_MAY_FAIL = frozenset((b"error", b"response.failed", _WHOLE))
_ENDED_WELL = frozenset((b"response.completed", b"response.incomplete"))


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """An answer whose output has begun. first: its events so far, output among them. rest: what follows."""

    first: Sequence[bytes]
    rest: AsyncGenerator[Sequence[bytes], None]


async def open_answer(upstream: Upstream, call: ModelCall) -> OpenAnswer:
    """Make the call and wait for its first output; what comes before is held back.

    Raises UpstreamError, also for an error event that comes first, and for an answer that ends without a word.
    """
    stream = cast("AsyncGenerator[Sequence[bytes], None]", upstream.stream(call))
    held: dict[bytes, bytes] = {}
    try:
        async for batch in stream:
            for position, event in enumerate(batch):
                kind = _type_of(event)
                if kind in _QUIET:
                    held[kind] = event
                    continue
                error = _failure_in(event, kind, upstream.name, call)
                if error is not None:
                    raise error
                return OpenAnswer([*held.values(), *batch[position:]], stream)
        sentence = f"Upstream {upstream.name!r} ended its answer before it began."
        raise UpstreamError(sentence, http_status=200, is_upstreams_fault=True)
    except BaseException:
        await stream.aclose()
        raise


def has_ended(batch: Sequence[bytes]) -> bool:
    """Whether an answer says in this batch, its last one, how it ended. Without that it was cut off."""
    return any(_LAST.search(event) for event in reversed(batch))


def failure_in(batch: Sequence[bytes], name: str, call: ModelCall) -> UpstreamError | None:
    """The failure that an answer ends with, if it does. batch: its last one. name: of the upstream."""
    for event in reversed(batch):
        kind = _type_of(event)
        if kind in _ENDED_WELL:
            return None
        error = _failure_in(event, kind, name, call, begun=True)
        if error is not None:
            return error
    return None


def _failure_in(
    event: bytes, kind: bytes, name: str, call: ModelCall, *, begun: bool = False
) -> UpstreamError | None:
    """begun: there is output, so that output beside the error does not matter any more."""
    if kind not in _MAY_FAIL:
        return None
    parsed = _parsed(event)
    given: Any = error_of(parsed)
    if kind != b"error":
        response = parsed.get("response")
        response = response if isinstance(response, dict) else {}
        if kind == _WHOLE and response.get("status") != "failed":
            return None
        if response.get("output") and not begun:
            return None
        given = response.get("error")
    said = said_by(given if isinstance(given, dict) else {}).without(call.caller_token)
    return error_inside(name, said, callers_token=call.caller_token is not None, answered=200)


def _type_of(event: bytes) -> bytes:
    """The type of an event; nothing for one that has none or cannot be read."""
    match = _TYPE_FIRST.match(event)
    if match is not None:
        return match[1]
    kind = _parsed(event).get("type")
    return kind.encode("utf-8", "replace") if isinstance(kind, str) else b""


def _parsed(event: bytes) -> dict[str, Any]:
    try:
        parsed = orjson.loads(event)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
