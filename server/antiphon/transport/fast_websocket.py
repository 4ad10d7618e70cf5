"""uvicorn's WebSocket protocol with a way to write ready frames, and its back-pressure made visible.

The ASGI path costs a coroutine, a decode and an encode per message. Events are frames already: they are shared
by all viewers of a run and go out in one `transport.write`. Reading stays uvicorn's. The parts of uvicorn that
this relies on are held by a contract test.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import termios
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol

SCOPE_EXTENSION = "antiphon.socket"
"""Where the ASGI scope carries the protocol object."""

_BAD_UPGRADE = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_ABORT_AFTER_S = 5.0
"""How long a peer may take to answer our close frame, or to read it, before the connection is cut."""

_ABORT_AT_SHUTDOWN_S = 1.0
"""The same while the process ends. Less than uvicorn's own patience, after which it cancels what is left."""


class _Frames(ServerProtocol):
    """The parser of frames, which takes a close in the middle of a fragmented message as well.

    RFC 6455 5.4 allows control frames there, and a close is one; the library calls it a fault of the peer (1002).
    """

    def recv_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            self.current_size = None
        super().recv_frame(frame)


class FastWebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket connection. `set_limits` is called once the connection is accepted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        made = self.conn
        self.conn = _Frames(
            extensions=made.available_extensions, max_size=made.max_message_size, logger=made.logger
        )
        self._stall_timer: asyncio.TimerHandle | None = None
        self._stalled_s = 15.0
        self._message_timer: asyncio.TimerHandle | None = None
        self._message_s = 60.0
        self._written = 0
        self._discarding = False
        self.full = False
        """Whether more should not be written until `on_writable`. Looked at for each batch: no property."""
        self.on_writable: Callable[[], None] = _nothing
        self.on_stalled: Callable[[], None] = _nothing

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        scope = cast(Any, self).__dict__.get("scope")
        if scope is not None:
            scope["extensions"][SCOPE_EXTENSION] = self

    def set_limits(self, *, outbox_bytes: int, stalled_s: float, message_s: float = 60.0) -> None:
        """Above `outbox_bytes` unsent the socket is full; full and without progress for `stalled_s`, stalled.

        message_s: what a message of the client may take from its first byte to its last.
        """
        self._stalled_s = stalled_s
        self._message_s = message_s
        self.transport.set_write_buffer_limits(high=outbox_bytes, low=outbox_bytes // 4)

    def cut_off(self, after_s: float) -> None:
        """Wait no longer than this for a peer to answer our close."""
        self.loop.call_later(after_s, self.transport.abort)

    def limit_messages(self, max_bytes: int | None) -> int | None:
        """Close on longer messages from now on (1009); gives what the limit was."""
        before: int | None = self.conn.max_message_size
        self.conn.max_message_size = max_bytes
        return before

    @property
    def unsent(self) -> int:
        """Bytes written that the operating system has not taken yet."""
        return self.transport.get_write_buffer_size()

    @property
    def open(self) -> bool:
        return self.handshake_complete and not self.close_sent and not self.disconnected

    def write_frames(self, frames: bytes) -> None:
        """Write complete frames. After a close or a loss they are dropped: nobody is there."""
        transport = self.transport
        # `open`, written out: a call for each viewer and batch is saved.
        if self.handshake_complete and not (self.close_sent or self.disconnected or transport.is_closing()):
            self._written += len(frames)
            transport.write(frames)

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
        self._abort_later()

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self._refuse_unreadable()
            return
        if self._in_message():
            if self._message_timer is None:
                self._message_timer = self.loop.call_later(self._message_s, self._check_message)
        else:
            self._forget_message()

    def send_receive_event_to_app(self) -> None:
        self._forget_message()
        super().send_receive_event_to_app()

    def _refuse_unreadable(self) -> None:
        """An upgrade that the parser cannot read: uvicorn would wait for ever, with nothing to end it."""
        self.handshake_complete = self.close_sent = self._discarding = True
        self.transport.write(b"".join(self.conn.data_to_send()) or _BAD_UPGRADE)
        self.transport.close()
        self._abort_later()

    def _in_message(self) -> bool:
        """Whether the peer has begun something that it has not finished: a frame, or a message of several."""
        if self.conn.current_size is not None:
            return True
        # The parser is a generator: between frames it waits to see whether more comes, else for bytes of a frame.
        waits_in: Any = self.conn.parser
        while (inner := waits_in.gi_yieldfrom) is not None:
            waits_in = inner
        return bool(waits_in.__name__ == "read_exact")

    def _check_message(self) -> None:
        self._message_timer = None
        if self.read_paused:  # we do not read: it is not the peer that is slow
            self._message_timer = self.loop.call_later(self._message_s, self._check_message)
        else:
            self.close(1008, "message too slow")

    def _forget_message(self) -> None:
        if self._message_timer is not None:
            self._message_timer.cancel()
            self._message_timer = None

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # a refused upgrade is complete; uvicorn would log it as a fault

    def handle_parser_exception(self) -> None:
        """A message was not UTF-8 (1007), too large (1009) or no WebSocket at all: send the close that says so.

        What the peer still sends is read and thrown away until it has seen the close. Closing at once, as uvicorn
        does, resets a connection with unread bytes, and the reset overtakes the close frame.
        """
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._discarding = self.close_sent = True
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._abort_later()

    def keepalive_timeout(self) -> None:
        """The peer does not answer pings. Its session ends now, not when TCP gives up on unsent bytes."""
        super().keepalive_timeout()
        if self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1011})
            self._abort_later()

    def shutdown(self) -> None:
        """The server stops. A peer that does not read what is still unsent cannot hold it up."""
        super().shutdown()
        self.loop.call_later(_ABORT_AT_SHUTDOWN_S, self.transport.abort)

    def _abort_later(self) -> None:
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(_ABORT_AFTER_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.full = True
        self._watch_stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.full = False
        self._stop_watching()
        self.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        self._forget_message()
        super().connection_lost(exc)
        self.full = False
        """Whether more should not be written until `on_writable`. Looked at for each batch: no property."""
        self.on_writable()

    def _watch_stall(self) -> None:
        self._stall_timer = self.loop.call_later(self._stalled_s, self._check_stall, self._taken())

    def _taken(self) -> int:
        """Bytes of our frames that have reached the peer.

        The system takes nothing from us until a third of its own buffer is free again, which is more than a slow
        reader takes in a long time: what it still holds is counted, too.
        """
        return self._written - self.unsent - _held_by_system(self.transport)

    def _check_stall(self, taken_before: int) -> None:
        if self._taken() > taken_before:
            self._watch_stall()
        else:
            self.on_stalled()

    def _stop_watching(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


def _held_by_system(transport: asyncio.Transport) -> int:
    """Bytes the system holds that the peer has not acknowledged; 0 where it does not tell."""
    answer = array.array("i", [0])
    try:
        fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, answer)
    except (OSError, AttributeError):
        return 0
    return answer[0]


def _nothing() -> None:
    return None
