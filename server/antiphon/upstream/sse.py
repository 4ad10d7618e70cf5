"""An incremental reader of Server-Sent Events over bytes, after the WHATWG rules, in linear time.

Line ends are made LF as chunks arrive, so everything behind that sees one shape: events end with LF LF.
A CR at the end of a chunk counts as a line end at once and a following LF is swallowed: the same events as
if it waited, without holding back the last event of a stream that uses bare CR.
"""

from __future__ import annotations

from antiphon.errors import UpstreamError

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_LF, _CR = 10, 13


SseEvent = tuple[bytes, bytes]
"""The `event:` field, empty if there was none, and the data lines joined by LF, valid UTF-8."""


class SseReader:
    """Give it chunks as they come; it gives the events they complete.

    max_event_bytes: the largest event with all its lines. One that is larger raises UpstreamError; if events
    came before it in the same chunk they are given first, and the next call raises.
    done: `data: [DONE]` was seen; nothing follows it.
    """

    def __init__(self, max_event_bytes: int) -> None:
        self.done = False
        self._max = max_event_bytes
        self._pending = bytearray()
        self._head: bytes | None = b""
        self._swallow_lf = False
        self._oversized = False
        self._usual = (b"", b"data: ", 6)

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes. Raises UpstreamError for an event over the limit."""
        self.check()
        if self._head is not None:
            chunk = self._without_bom(chunk)
        elif not self._pending and chunk.endswith(b"\n\n") and self._is_usual(chunk):
            return self._parse(chunk[:-2].split(b"\n\n"))
        chunk = self._lf_only(chunk)
        if not chunk or self.done:
            return []
        blocks = self._blocks(chunk)
        return self._parse(blocks) if blocks else []

    def end(self) -> list[SseEvent]:
        """The stream is over: an event that lacks only its blank line is given. Raises like `feed`."""
        self.check()
        if self._head:
            self._pending += self._head
        block, self._pending = bytes(self._pending), bytearray()
        return self._parse([block]) if block and not self.done else []

    def check(self) -> None:
        """Raises UpstreamError if the last chunk held an event over the limit behind events that were given."""
        if self._oversized:
            raise self._too_large()

    def _is_usual(self, chunk: bytes) -> bool:
        """Whether a chunk that ends with an event, behind nothing unfinished, needs no closer look."""
        return len(chunk) <= self._max and _CR not in chunk and not self._swallow_lf and not self.done

    def _without_bom(self, chunk: bytes) -> bytes:
        """Hold back up to three bytes until it is clear whether they are a byte order mark."""
        head = (self._head or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _lf_only(self, chunk: bytes) -> bytes:
        if self._swallow_lf and chunk:
            self._swallow_lf = False
            if chunk[0] == _LF:
                chunk = chunk[1:]
        if _CR not in chunk:
            return chunk
        self._swallow_lf = chunk[-1] == _CR
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _blocks(self, chunk: bytes) -> list[bytes]:
        """Complete events as raw lines. Each byte is looked at once, however small the chunks are."""
        pending = self._pending
        if not pending:
            blocks = chunk.split(b"\n\n")
        elif pending[-1] == _LF and chunk[0] == _LF:
            del pending[-1]
            blocks = [bytes(pending), *chunk[1:].split(b"\n\n")]
            pending.clear()
        else:
            first, *rest = chunk.split(b"\n\n")
            pending += first
            if not rest:
                return self._within_limit([], len(pending))
            blocks = [bytes(pending), *rest]
            pending.clear()
        pending += blocks.pop()
        return self._within_limit(blocks, max(len(pending), len(blocks[0]) if blocks else 0, len(chunk)))

    def _within_limit(self, blocks: list[bytes], longest: int) -> list[bytes]:
        """The blocks before the first that is too large. longest: no block is longer than that."""
        if longest <= self._max:
            return blocks
        fitting = 0
        while fitting < len(blocks) and len(blocks[fitting]) <= self._max:
            fitting += 1
        # A last LF may be half of the blank line, and that is not part of the event.
        unfinished = len(self._pending) - self._pending.endswith(b"\n")
        self._oversized = fitting < len(blocks) or unfinished > self._max
        if self._oversized:
            self._pending.clear()
            if not fitting:
                raise self._too_large()
        return blocks[:fitting]

    def _parse(self, blocks: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        # Nearly every event starts like the one before it (`event: x`, `data: `) and has one data line.
        name, prefix, size = self._usual
        for block in blocks:
            data = block[size:]
            if _LF in data or not block.startswith(prefix):
                event = _by_lines(block)
                if event is None:
                    continue
                name, data = event
                prefix = b"event: %b\ndata: " % name if name else b"data: "
                size = len(prefix)
                self._usual = name, prefix, size
            if data == _DONE:
                self.done = True
                break
            events.append((name, data if data.isascii() else _valid_utf8(data)))
        return events

    def _too_large(self) -> UpstreamError:
        return UpstreamError(f"The upstream sent an event larger than the limit of {self._max} bytes.")


def _by_lines(block: bytes) -> tuple[bytes, bytes] | None:
    name, data = b"", []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return (name, b"\n".join(data)) if data else None


def _valid_utf8(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace").encode()
    return data
