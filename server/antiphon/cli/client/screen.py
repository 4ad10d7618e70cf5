"""Where a chat is shown and typed: a terminal with a line to type in, or plain streams."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.shortcuts import print_formatted_text
from prompt_toolkit.utils import get_cwidth

from antiphon.cli.client.printable import printable

REMARK = "ansibrightblack"
QUESTION = "bold"
FAULT = "ansired"
_WORDS_FALLBACK = 80


class Screen(Protocol):
    """What a chat needs of a place to be shown."""

    interactive: bool
    """Whether a person types while an answer is under way."""

    def text(self, piece: str, *, is_reasoning: bool) -> None:
        """More of an answer, as it came."""

    def end_of_text(self) -> None:
        """What was said so far is a whole line."""

    def lines(self, lines: Sequence[str], style: str = REMARK, *, amid: bool = False) -> None:
        """Remarks, printable as they are. amid: an answer that is under way goes on in its line."""

    def give_back(self, text: str) -> None:
        """What was typed was not taken: it may be typed again."""

    async def read(self, hint: Callable[[], str]) -> str:
        """The next line that is typed. hint: what it would be. Raises EOFError, KeyboardInterrupt."""

    def taken(self) -> AbstractContextManager[None]:
        """The screen is the chat's: keys that are pressed between two reads are for the next one."""


class PlainScreen:
    """Answers go to `out`, everything else to `err`, so that a pipe gets answers only."""

    interactive = False

    def __init__(self, source: Callable[[], str], out: TextIO, err: TextIO) -> None:
        """source: waits for a line and gives it, "" at the end."""
        self._out = out
        self._err = err
        self._inside = False
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        # A thread of its own that nobody waits for: a read from a pipe cannot be cut short.
        threading.Thread(target=_read, args=(source, loop, self._lines), daemon=True).start()

    def text(self, piece: str, *, is_reasoning: bool) -> None:
        if not is_reasoning and piece:
            shown = printable(piece) if self._out.isatty() else piece
            self._inside = not shown.endswith("\n")
            self._out.write(shown)
            self._out.flush()

    def end_of_text(self) -> None:
        if self._inside:
            self._out.write("\n")
            self._out.flush()
        self._inside = False

    def lines(self, lines: Sequence[str], style: str = REMARK, *, amid: bool = False) -> None:
        if not amid:
            self.end_of_text()
        print(*lines, sep="\n", file=self._err, flush=True)

    def give_back(self, text: str) -> None:
        """A pipe has it still."""

    async def read(self, hint: Callable[[], str]) -> str:
        line = await self._lines.get()
        if not line:
            raise EOFError
        return line.rstrip("\r\n")

    def taken(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


def _read(source: Callable[[], str], loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    line = "begin"
    while line:
        line = source()
        try:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        except RuntimeError:  # the chat has ended, and its loop with it
            return


class PromptScreen:
    """The last line is for typing; what is said appears above it, its unfinished line included."""

    interactive = True

    def __init__(self) -> None:
        self._session: PromptSession[str] = PromptSession(erase_when_done=True)
        self._partial = ""
        self._is_reasoning = False

    def text(self, piece: str, *, is_reasoning: bool) -> None:
        if is_reasoning != self._is_reasoning:
            self.end_of_text()
            self._is_reasoning = is_reasoning
        *whole, self._partial = _wrapped(self._partial + printable(piece), shutil.get_terminal_size().columns - 1)
        if whole:
            self._print(whole, self._style)
        self._session.app.invalidate()

    def end_of_text(self) -> None:
        partial, self._partial = self._partial, ""
        if partial:
            self._print([partial], self._style)

    def lines(self, lines: Sequence[str], style: str = REMARK, *, amid: bool = False) -> None:
        if not amid:
            self.end_of_text()
        self._print(lines, style)

    def give_back(self, text: str) -> None:
        buffer = self._session.default_buffer
        if not buffer.text:
            buffer.text = text
            buffer.cursor_position = len(text)

    async def read(self, hint: Callable[[], str]) -> str:
        def message() -> FormattedText:
            partial = [(self._style, f"{self._partial}\n")] if self._partial else []
            return FormattedText([*partial, (QUESTION, f"{hint()}> ")])

        line = await self._session.prompt_async(message)
        if line.strip():
            self._print([f"{hint()}> {line}"], QUESTION)
        return line

    def taken(self) -> AbstractContextManager[None]:
        return self._session.app.input.raw_mode()

    @property
    def _style(self) -> str:
        return f"{REMARK} italic" if self._is_reasoning else ""

    def _print(self, lines: Sequence[str], style: str) -> None:
        print_formatted_text(FormattedText([(style, "\n".join(lines))]))


def _wrapped(text: str, columns: int) -> list[str]:
    """Whole lines of at most `columns` cells, broken at spaces where that can be, and the rest as the last."""
    lines: list[str] = []
    for line in text.split("\n"):
        while get_cwidth(line) > columns > 0:
            end = _fitting(line, columns)
            space = line.rfind(" ", 0, end + 1)
            cut = space if space > 0 else end
            lines.append(line[:cut])
            line = line[cut:].removeprefix(" ")
        lines.append(line)
    return lines


def _fitting(line: str, columns: int) -> int:
    """How many characters of a line fit, at least one."""
    cells = 0
    for index, char in enumerate(line):
        cells += get_cwidth(char)
        if cells > columns:
            return max(index, 1)
    return len(line)


def screen_of_the_terminal() -> Screen:
    """The screen for the streams of this process."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        return PromptScreen()
    return PlainScreen(sys.stdin.readline, sys.stdout, sys.stderr)
