"""What a session needs of a WebSocket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import orjson

from antiphon.journal.frames import text_frame


class Socket(Protocol):
    """A connection that takes ready frames. Writing never waits; `full` tells when to stop."""

    on_writable: Callable[[], None]
    on_stalled: Callable[[], None]

    @property
    def full(self) -> bool:
        """More should not be written until `on_writable` is called."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes written that the operating system has not taken yet."""
        ...

    @property
    def open(self) -> bool:
        """False once a close was sent or the peer is gone."""
        ...

    def write_frames(self, frames: bytes) -> None:
        """Write complete frames; a closed socket drops them."""
        ...

    def close(self, code: int, reason: str = "") -> None:
        """Close in order: after what was written."""
        ...


def send_json(socket: Socket, frame: dict[str, Any]) -> None:
    """Write one object as one text frame."""
    socket.write_frames(text_frame(orjson.dumps(frame)))
