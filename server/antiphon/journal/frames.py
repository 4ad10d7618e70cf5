"""A batch of events as each transport writes it. Encoded once per lane, then shared by every viewer."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.assembly.wire import event_type_of

_SHORT, _MEDIUM = 126, 65_536


def text_frame(payload: bytes) -> bytes:
    """One unmasked, uncompressed WebSocket text frame (RFC 6455, 5.2)."""
    size = len(payload)
    if size < _SHORT:
        return b"\x81%c%b" % (size, payload)
    if size < _MEDIUM:
        return b"\x81\x7e%b%b" % (size.to_bytes(2, "big"), payload)
    return b"\x81\x7f%b%b" % (size.to_bytes(8, "big"), payload)


def lane_suffix(stream_id: str | None) -> bytes:
    """What ends an event on a lane: the `stream_id` goes in last, the default lane has none."""
    return b"}" if stream_id is None else b',"stream_id":"%b"}' % stream_id.encode()


class Batch:
    """Consecutive events of a run. first, last: numbers of the first and the last one."""

    __slots__ = ("_frames", "events", "first", "last")

    def __init__(self, first: int, events: Sequence[bytes]) -> None:
        self.first = first
        self.last = first + len(events) - 1
        self.events = events
        self._frames: dict[str | None, bytes] = {}

    def frames(self, stream_id: str | None) -> bytes:
        """All events as WebSocket frames for one lane, ready for one write."""
        frames = self._frames.get(stream_id)
        if frames is None:
            if stream_id is None:
                frames = b"".join([text_frame(event) for event in self.events])
            else:
                suffix = lane_suffix(stream_id)
                frames = b"".join([text_frame(event[:-1] + suffix) for event in self.events])
            self._frames[stream_id] = frames
        return frames


def sse_event(event: bytes, event_id: str) -> bytes:
    """One event as Server-Sent Events write it."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (event_type_of(event).encode(), event_id.encode(), event)
