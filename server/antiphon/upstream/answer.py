"""What an upstream's answer is, judged by its first bytes, and its events made fit for the assembler."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson

from antiphon.upstream.failures import error_of
from antiphon.upstream.sse import SseEvent, SseReader

_TERMINAL = re.compile(rb'"type"\s*:\s*"response\.(?:completed|failed|incomplete|cancelled)"')
_TERMINAL_NAMES = frozenset(
    (b"response.completed", b"response.failed", b"response.incomplete", b"response.cancelled")
)
_EVENT_STREAM = "text/event-stream"
_FIELDS = (b"data", b"event", b"id", b"retry", b":")
_LONGEST_FIELD = len(b"event")
_BARE = (b"{", b"[", b"<")
_BOM = b"\xef\xbb\xbf"


class AnswerReader:
    """Events of one answer, batch by batch. ended: the terminal event or the end marker was seen."""

    settled = False
    """Before the terminal event nothing says that the model is finished."""

    def __init__(self, max_event_bytes: int) -> None:
        self.ended = False
        self._sse = SseReader(max_event_bytes)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes. Raises UpstreamError for one over the limit."""
        events = self._sse.feed(chunk)
        self.ended = self._sse.done or (bool(events) and _is_terminal(events[-1]))
        return usable_events(events)

    def check(self) -> None:
        """Raises UpstreamError if behind the events given there is one over the limit."""
        self._sse.check()

    def end(self) -> list[bytes]:
        """What the end of the body completes."""
        return usable_events(self._sse.end())

    def whole(self, answer: dict[str, Any], text: bytes) -> list[bytes] | None:
        """The one event of a response that was not streamed, its bytes unchanged; None if it is no response."""
        if answer.get("object") == "response" or "output" in answer:
            return [b'{"type":"antiphon.whole_response","response":%b}' % text]
        return None


async def first_bytes(chunks: AsyncIterator[bytes], content_type: str) -> bytes:
    """As much of the start as is needed to judge it; everything if the body is shorter."""
    parts, text = [], b""
    enough = 1 if content_type.startswith(_EVENT_STREAM) else _LONGEST_FIELD
    async for chunk in chunks:
        parts.append(chunk)
        # White space is not kept: some send blank lines while they think.
        text = (text + chunk).lstrip().removeprefix(_BOM)
        if len(text) >= enough or text[:1] in _BARE:
            break
    return b"".join(parts)


def looks_like_events(start: bytes, content_type: str) -> bool:
    """Whether the body is an event stream. The first bytes count more than the declared type:

    errors come as bare JSON under `text/event-stream`, and streams under `application/json`.
    """
    text = start.lstrip().removeprefix(_BOM).lstrip()
    if not text or text[:1] in _BARE:
        return False
    return content_type.startswith(_EVENT_STREAM) or text.startswith(_FIELDS)


def usable_events(events: Iterable[SseEvent]) -> list[bytes]:
    """The data of events, each with a `type`; the ones without data are left out."""
    return [
        data if name != b"error" and data.startswith(b'{"type":"response.') else _with_type(name, data)
        for name, data in events
        if data
    ]


def _is_terminal(event: SseEvent) -> bool:
    name, data = event
    if name:
        return name in _TERMINAL_NAMES or name == b"error"
    # The pattern may also stand deeper inside, so a hit is looked at more closely.
    if not _TERMINAL.search(data):
        return False
    try:
        return str(orjson.loads(data).get("type")).encode() in _TERMINAL_NAMES
    except (orjson.JSONDecodeError, AttributeError):
        return False


def _with_type(name: bytes, data: bytes) -> bytes:
    """Some name the type in the `event:` line only, and errors come without a type or with one of their own."""
    if name and name != b"error" and b'"type":"%b"' % name in data:
        return data
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        text = data.decode()
        return orjson.dumps({"type": "error", "error": {"message": text}}) if name == b"error" else data
    if not isinstance(event, dict):
        return data
    if event.get("object") == "error" or (name == b"error" and event.get("type") != "error"):
        return orjson.dumps({"type": "error", "error": error_of(event) or event})
    if isinstance(event.get("type"), str):
        return data
    error = error_of(event)
    if error is not None:
        return orjson.dumps({"type": "error", "error": error})
    return orjson.dumps({**event, "type": name.decode()}) if name else data
