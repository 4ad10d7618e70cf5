"""uvicorn's WebSocket protocol with a way to write ready frames, and its back-pressure made visible.

The ASGI path costs a coroutine, a decode and an encode per message. Events are frames already: they are shared
by all viewers of a run and go out in one `transport.write`. Reading stays uvicorn's. The parts of uvicorn that
this relies on are held by a contract test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

SCOPE_EXTENSION = "antiphon.socket"
"""Where the ASGI scope carries the protocol object."""

_ABORT_AFTER_S = 5.0
"""How long a peer may take to answer our close frame, or to read it, before the connection is cut."""


class FastWebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket connection. `set_limits` is called once the connection is accepted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stall_timer: asyncio.TimerHandle | None = None
        self._stalled_s = 15.0
        self.on_writable: Callable[[], None] = _nothing
        self.on_stalled: Callable[[], None] = _nothing

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope = cast(Any, self).__dict__.get("scope")
        if scope is not None:
            scope["extensions"][SCOPE_EXTENSION] = self

    def set_limits(self, *, outbox_bytes: int, stalled_s: float) -> None:
        """Above `outbox_bytes` unsent the socket is full; full and without progress for `stalled_s`, stalled."""
        self._stalled_s = stalled_s
        self.transport.set_write_buffer_limits(high=outbox_bytes, low=outbox_bytes // 4)

    @property
    def full(self) -> bool:
        """Whether more should not be written until `on_writable`."""
        return not self.writable.is_set()

    @property
    def open(self) -> bool:
        return self.handshake_complete and not self.close_sent and not self.disconnected

    def write_frames(self, frames: bytes) -> None:
        """Write complete frames. After a close or a loss they are dropped: nobody is there."""
        if self.open and not self.transport.is_closing():
            self.transport.write(frames)

    def close(self, code: int, reason: str = "") -> None:
        """Send a close frame after what was written. A peer that does not answer is cut off."""
        if not self.open or self.transport.is_closing():
            return
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_timer = self.loop.call_later(_ABORT_AFTER_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()
        self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)
        self.on_writable()

    def _watch_stall(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(self._stalled_s, self._check_stall, unsent)

    def _check_stall(self, unsent_before: int) -> None:
        if self.transport.get_write_buffer_size() < unsent_before:
            self._watch_stall()
        else:
            self.on_stalled()

    def _stop_watching(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


def _nothing() -> None:
    return None
