"""Any server that offers `POST {url}/responses` with `stream: true`, as an upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from antiphon.ports import ModelCall
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.answer import AnswerReader
from antiphon.upstream.http_upstream import HttpUpstream
from antiphon.upstream.transport import Transport


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

    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See `HttpUpstream`. One that ignored `stream` gives the one event `antiphon.whole_response`."""
        return self._exchange(call, call.body, AnswerReader(self._max_event_bytes))
