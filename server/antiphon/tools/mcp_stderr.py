"""What an MCP server's program writes to standard error, as lines of our log: bounded in length and in number."""

from __future__ import annotations

import structlog

log = structlog.get_logger(__name__)

_MAX_LINE = 500
_MAX_LINES = 100
_WINDOW_S = 10.0


class StderrLines:
    """One program's lines, at most 100 in 10 s. They are the program's own words, so only `debug` shows them."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._rest = b""
        self._cut = False
        self._until = 0.0
        self._lines = 0
        self._dropped = 0

    def feed(self, piece: bytes, now: float) -> None:
        """now: seconds of a clock that only goes forward."""
        *whole, rest = (self._rest + piece).split(b"\n")
        for line in whole:
            self._say(line, now)
            self._cut = False
        if len(rest) > _MAX_LINE:
            self._say(rest, now)
            self._cut = True
            rest = b""
        self._rest = rest

    def close(self) -> None:
        """Say what stands there without an end of line, and how much was left out."""
        self._say(self._rest, self._until)
        self._rest = b""
        self._tell_dropped()

    def _say(self, line: bytes, now: float) -> None:
        if self._cut or not line.strip():
            return  # the rest of a line that was too long is not shown
        if now >= self._until:
            self._tell_dropped()
            self._until = now + _WINDOW_S
            self._lines = 0
        if self._lines >= _MAX_LINES:
            self._dropped += 1
            return
        self._lines += 1
        log.debug(
            "mcp_stderr", server_label=self._label, line=line[:_MAX_LINE].decode("utf-8", "replace").rstrip()
        )

    def _tell_dropped(self) -> None:
        if self._dropped:
            log.debug("mcp_stderr_dropped", server_label=self._label, lines=self._dropped)
        self._dropped = 0
