"""Where log lines go: trouble at once, the rest a moment later, together with what came meanwhile.

A line costs a call of the system and wakes whoever reads the pipe, which is more than everything else about it.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from typing import IO

_SOON_S = 0.05
_LATE_S = 1.0
"""A timer so long behind its time belongs to an event loop that is gone."""

_MOST_BYTES = 64 * 1024


class LineWriter:
    """A logger of structlog for encoded lines. Where no event loop runs, every line is written at once."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        atexit.register(self.flush)

    def debug(self, line: bytes) -> None:
        """Write it soon."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.error(line)
            return
        self._add(line)
        if self._bytes > _MOST_BYTES:
            self.flush()
        elif self._timer is None or self._timer.when() < loop.time() - _LATE_S:
            self._timer = loop.call_later(_SOON_S, self._in_time)

    info = debug

    def error(self, line: bytes) -> None:
        """Write it now, behind everything that waits."""
        self._add(line)
        self.flush()

    warning = critical = error

    def flush(self) -> None:
        """Write everything that waits."""
        with self._lock:
            lines, self._waiting, self._bytes = self._waiting, [], 0
            if lines:
                self._file.write(b"\n".join([*lines, b""]))
                self._file.flush()

    def _add(self, line: bytes) -> None:
        with self._lock:
            self._waiting.append(line)
            self._bytes += len(line)

    def _in_time(self) -> None:
        self._timer = None
        self.flush()
