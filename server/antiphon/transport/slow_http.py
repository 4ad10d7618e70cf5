"""uvicorn's HTTP protocol with bounds on what it leaves open: how long and large a head is, how long a body rests.

A client that never finishes its request would hold a connection for ever. uvicorn has no such limits, so they are
put around its protocol class; the parts of it that this relies on are held by a contract test.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from antiphon.errors import RequestError
from antiphon.settings.door import DoorSettings
from antiphon.transport.replies import error_response

_ABORT_AFTER_S = 5.0
"""How long a refused peer may take to read why, before the connection is cut."""

_SEPARATORS = 4
"""Bytes of a header line beside its name and value."""


class SlowHttpProtocol(HttpToolsProtocol):
    """One HTTP connection. A head begins with the connection or with the first byte after a request."""

    def __init__(self, door: DoorSettings, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._door = door
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._in_body = False
        self._unparsed_bytes = 0
        self._head_bytes = 0
        self._heard_at = 0.0
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(self._door.head_s, self._head_too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return  # thrown away: a connection that is closed with unread bytes is reset before our answer is seen
        if self._in_head:
            self._unparsed_bytes += len(data)
            if self._timer is None and self._is_idle():
                self._wait(self._door.head_s, self._head_too_slow)
        elif self._in_body:
            self._heard_at = self.loop.time()
        super().data_received(data)
        if self._in_head and self._unparsed_bytes > self._door.head_bytes:
            self._head_too_large()

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + _SEPARATORS
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        if self._head_bytes > self._door.head_bytes:
            self._head_too_large()
        if self._refused:
            return
        self._in_head, self._head_bytes, self._unparsed_bytes = False, 0, 0
        super().on_headers_complete()
        if not self.parser.should_upgrade():
            self._in_body, self._heard_at = True, self.loop.time()
            self._wait(self._door.body_idle_s, self._check_body)

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refused:
            return
        self._stop_waiting()
        self._in_head, self._in_body = True, False
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if not self._refused:
            super().handle_websocket_upgrade()

    def shutdown(self) -> None:
        """The server stops. A peer that was refused cannot hold it up."""
        if self._refused:
            self.transport.abort()
        super().shutdown()

    def _head_too_large(self) -> None:
        message = f"Request line and headers together may have {self._door.head_bytes} bytes."
        self._refuse(RequestError(message, code="headers_too_large"))

    def _head_too_slow(self) -> None:
        if self._unparsed_bytes == 0:
            self.transport.close()  # it never asked, as browsers do that connect ahead: nothing is to be answered
            return
        message = f"The headers of the request were not complete within {self._door.head_s:g} s."
        self._refuse(RequestError(message, code="request_timeout"))

    def _check_body(self) -> None:
        """Only silence of the peer counts, not that nobody here has read yet."""
        self._timer = None
        now = self.loop.time()
        if self.flow.read_paused:
            self._heard_at = now
        left_s = self._heard_at + self._door.body_idle_s - now
        if left_s > 0:
            self._wait(left_s, self._check_body)
            return
        message = f"Nothing of the request's body came for {self._door.body_idle_s:g} s."
        self._refuse(RequestError(message, code="request_timeout"))

    def _refuse(self, error: RequestError) -> None:
        """Answer, if nothing was answered yet, and take nothing more of this connection."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._stop_waiting()
        self._unset_keepalive_if_required()
        if self._may_answer():
            self.transport.write(_answer(error, self.server_state.default_headers))
        if not self._is_idle():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(_ABORT_AFTER_S, self.transport.abort)

    def _is_idle(self) -> bool:
        """Whether everything that was asked so far has been answered."""
        return self.cycle is None or self.cycle.response_complete

    def _may_answer(self) -> bool:
        """Whether the next answer on this connection is that of the request at fault, and has not begun."""
        if self._in_body:
            return not self.cycle.response_started and not self.pipeline
        return self._is_idle()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, then)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def bounded_http(door: DoorSettings) -> type[asyncio.Protocol]:
    """What uvicorn's configuration takes as `http`."""
    return cast(type[asyncio.Protocol], functools.partial(SlowHttpProtocol, door))


def _answer(error: RequestError, default_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    response = error_response(error)
    lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()]
    lines += [name + b": " + value for name, value in (*default_headers, *response.raw_headers)]
    return b"\r\n".join([*lines, b"connection: close", b"", bytes(response.body)])
