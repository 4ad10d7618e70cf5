"""Any server that offers `POST {url}/responses` with `stream: true`, as an upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import orjson

from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.answer import AnswerReader
from antiphon.upstream.http_upstream import HttpUpstream
from antiphon.upstream.transport import Transport

_COUNTED = (
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "truncation",
)
"""What the counting route takes of a create; it refuses the rest."""

_COUNT = "a count of tokens"
_NO_SUCH_ROUTE = (404, 405, 501)


class ResponsesUpstream(HttpUpstream):
    """Sends the body as it is; gives the events as they come."""

    def __init__(
        self,
        settings: UpstreamSettings,
        timeouts: TimeoutSettings,
        max_event_bytes: int,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(settings, timeouts, max_event_bytes, transport, path="/responses")
        self._count_url = f"{self._url}/input_tokens"

    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See `HttpUpstream`. One that ignored `stream` gives the one event `antiphon.whole_response`."""
        return self._exchange(call, call.body, AnswerReader(self._max_event_bytes))

    async def input_tokens(self, call: ModelCall) -> int | None:
        """From `POST {url}/responses/input_tokens`; None if the server has no such route. Raises UpstreamError."""
        asked = orjson.loads(call.body)
        body = orjson.dumps({key: asked[key] for key in _COUNTED if key in asked})
        try:
            answer = await self._json(_COUNT, b"POST", self._count_url, call.caller_token, body, call.trace)
        except UpstreamError as error:
            if error.http_status in _NO_SUCH_ROUTE:
                return None
            raise
        count = answer.get("input_tokens") if isinstance(answer, dict) else None
        if not isinstance(count, int):
            raise self._unreadable(_COUNT)
        return count
