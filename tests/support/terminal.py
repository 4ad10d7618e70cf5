"""A command in a terminal of its own: what its screen shows is awaited, keys are pressed.

async with terminal(["antiphon", "chat"], env) as shell:
    await shell.shows("antiphon chat")
    shell.type("hello\\r")
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pyte

CTRL_C = "\x03"
CTRL_D = "\x04"
ENTER = "\r"
WAIT_S = 40.0


class Terminal:
    """A process and the screen it draws on, with everything that scrolled away."""

    def __init__(self, process: asyncio.subprocess.Process, fd: int, columns: int, rows: int) -> None:
        self.process = process
        self._fd = fd
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self._stream = pyte.ByteStream(self._screen)
        self._drawn = asyncio.Event()
        self._is_over = False
        self.raw = bytearray()
        asyncio.get_running_loop().add_reader(fd, self._read)

    @property
    def text(self) -> str:
        """All lines, oldest first, without the blanks at their ends."""
        columns = range(self._screen.columns)
        past = ["".join(row[column].data for column in columns) for row in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*past, *self._screen.display])

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    async def shows(self, text: str, count: int = 1) -> None:
        """Until this text is there so often."""
        await self.until(lambda: self.text.count(text) >= count, repr(text))

    async def until(self, true: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                while not true():
                    assert not self._is_over, f"it ended without showing {what}:\n{self.text}"
                    self._drawn.clear()
                    await self._drawn.wait()
        except TimeoutError:
            raise AssertionError(f"{what} was not shown within {WAIT_S} s:\n{self.text}") from None

    async def ends(self) -> int:
        """Wait for its end; gives the exit status."""
        try:
            async with asyncio.timeout(WAIT_S):
                return await self.process.wait()
        except TimeoutError:
            raise AssertionError(f"it did not end within {WAIT_S} s:\n{self.text}") from None

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is closed: the process has ended
            data = b""
        if data:
            self.raw += data
            self._stream.feed(data)
        else:
            self._is_over = True
            self._close()
        self._drawn.set()

    def _close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self._close()


def _take_terminal() -> None:
    """In the child: the terminal is its own, so that Ctrl-C reaches it as a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextlib.asynccontextmanager
async def terminal(
    command: Sequence[str | Path], env: Mapping[str, str], *, cwd: Path, columns: int = 120, rows: int = 40
) -> AsyncIterator[Terminal]:
    """Start a command in a terminal of this size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    # pyte answers no question for the cursor's position; prompt_toolkit then need not ask.
    shown = {**env, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        shown.pop(name, None)
    try:
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=shown,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
    finally:
        os.close(theirs)
    shell = Terminal(process, ours, columns, rows)
    try:
        yield shell
    finally:
        await shell.stop()
