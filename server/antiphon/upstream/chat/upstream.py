"""Any server that offers `POST {url}/chat/completions`, as an upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson

from antiphon.errors import RequestError, UpstreamError
from antiphon.ports import ModelCall
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.chat.request import chat_body, limit_field
from antiphon.upstream.chat.stream import ChatStream
from antiphon.upstream.chat.tools import ChatTools
from antiphon.upstream.http_upstream import HttpUpstream
from antiphon.upstream.sse import SseReader
from antiphon.upstream.transport import Transport


class ChatUpstream(HttpUpstream):
    """Translates the call on its way out and the answer on its way in."""

    def __init__(
        self,
        settings: UpstreamSettings,
        timeouts: TimeoutSettings,
        max_event_bytes: int,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(settings, timeouts, max_event_bytes, transport, path="/chat/completions")
        self._limit = limit_field(self._host)

    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See `HttpUpstream`. How an answer may end is a table in `stream.py`.

        Raises UpstreamError, before anything is sent, also for what `check_chat_body` would have refused.
        """
        try:
            body = orjson.loads(call.body)
            tools = ChatTools(body)
            sent = orjson.dumps(chat_body(body, tools, self._limit))
        except RequestError as error:
            raise UpstreamError(error.message, code=error.code, status=error.status, param=error.param) from error
        return self._exchange(call, sent, ChatReader(self._max_event_bytes, tools))

    async def input_tokens(self, call: ModelCall) -> None:
        """Chat Completions has no way to ask."""


class ChatReader:
    """Implements `Reader` for Chat Completions. max_event_bytes: largest event. tools: of the request."""

    def __init__(self, max_event_bytes: int, tools: ChatTools) -> None:
        self._sse = SseReader(max_event_bytes)
        self._stream = ChatStream(tools)

    @property
    def ended(self) -> bool:
        return self._sse.done or self._stream.ended

    @property
    def settled(self) -> bool:
        return self._stream.settled

    def feed(self, chunk: bytes) -> list[bytes]:
        """See `Reader`."""
        out: list[bytes] = []
        for name, data in self._sse.feed(chunk):
            self._stream.add(name, data, out)
        if self._sse.done:
            self._stream.end(out)
        return out

    def check(self) -> None:
        """See `Reader`."""
        self._sse.check()

    def end(self) -> list[bytes]:
        """See `Reader`."""
        out: list[bytes] = []
        for name, data in self._sse.end():
            self._stream.add(name, data, out)
        self._stream.end(out)
        return out

    def whole(self, answer: dict[str, Any], text: bytes) -> list[bytes] | None:
        """See `Reader`."""
        out: list[bytes] = []
        return out if self._stream.whole(answer, out) else None
