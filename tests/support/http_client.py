"""Server-sent events over httpx2, read as a strict client reads them."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

DEFAULT_WAIT_S = 40.0
LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class SseEvent:
    """One event of a stream; `data` is the text as sent."""

    id: str | None
    event: str | None
    data: str

    def json(self) -> dict[str, Any]:
        parsed = json.loads(self.data)
        assert isinstance(parsed, dict), f"not an object: {self.data}"
        return parsed


@dataclass(frozen=True)
class SseBody:
    """A whole body: its events, whether `[DONE]` ended it, and how many comment lines lay between."""

    events: list[SseEvent]
    done: bool
    comments: int

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The events as dicts. Raises AssertionError where `event:` and the type differ."""
        payloads = [event.json() for event in self.events]
        for event, payload in zip(self.events, payloads, strict=True):
            assert event.event == payload["type"], f"event: {event.event} carries {payload['type']}"
        return payloads


class SseParser:
    """The rules of the WHATWG: LF, CRLF and CR end a line, nothing else does; a blank one ends an event."""

    def __init__(self) -> None:
        self.comments = 0
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._rest = ""
        self._fields: dict[str, str] = {}
        self._data: list[str] = []

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take bytes as they come; the events they complete. Raises UnicodeDecodeError on bad UTF-8."""
        text = self._rest + self._decode(data)
        held = "\r" if text.endswith("\r") else ""  # it may be half of a CRLF
        *lines, rest = LINE_END.split(text.removesuffix(held))
        self._rest = rest + held
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: str) -> SseEvent | None:
        if not line:
            return self._dispatch()
        if line.startswith(":"):
            self.comments += 1
            return None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        else:
            self._fields[name] = value
        return None

    def _dispatch(self) -> SseEvent | None:
        data, fields = self._data, self._fields
        self._data, self._fields = [], {}
        if not data:
            return None
        return SseEvent(fields.get("id"), fields.get("event"), "\n".join(data))


class SseStream:
    """An open response; iterate over it for its events up to `[DONE]` or the end of the body."""

    def __init__(self, response: httpx2.Response, wait_s: float) -> None:
        self.response = response
        self.done = False
        self._wait_s = wait_s
        self._parser = SseParser()

    @property
    def comments(self) -> int:
        return self._parser.comments

    async def __aiter__(self) -> AsyncIterator[SseEvent]:
        async for data in _bounded(self.response.aiter_bytes(), self._wait_s):
            for event in self._parser.feed(data):
                assert not self.done, f"an event came after [DONE]: {event}"
                if event.data == "[DONE]":
                    self.done = True
                else:
                    yield event


@contextlib.asynccontextmanager
async def open_sse(
    method: str, url: str, *, wait_s: float = DEFAULT_WAIT_S, **options: Any
) -> AsyncIterator[SseStream]:
    """Open a stream. Raises AssertionError unless it is a 200 with `text/event-stream`."""
    async with (
        httpx2.AsyncClient(timeout=wait_s, trust_env=False) as client,
        client.stream(method, url, **options) as response,
    ):
        if response.status_code != 200:
            body = (await response.aread()).decode(errors="replace")
            raise AssertionError(f"{response.status_code}: {body}")
        kind = response.headers["content-type"]
        assert kind.startswith("text/event-stream"), f"content-type is {kind}"
        yield SseStream(response, wait_s)


async def read_sse(method: str, url: str, *, wait_s: float = DEFAULT_WAIT_S, **options: Any) -> SseBody:
    """Read a whole stream; `wait_s` bounds each wait and four times as much the whole."""
    async with asyncio.timeout(4 * wait_s), open_sse(method, url, wait_s=wait_s, **options) as stream:
        events = [event async for event in stream]
        return SseBody(events, stream.done, stream.comments)


async def _bounded(chunks: AsyncIterator[bytes], wait_s: float) -> AsyncIterator[bytes]:
    while True:
        async with asyncio.timeout(wait_s):
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
        yield chunk
