"""Going on with a task at once, in the call that brings what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any


class Wakeup:
    """What one task waits for, again and again: `await` it; `set` lets the task go on before it returns.

    A future would put the task behind everything else that is ready: of fifty sockets that become readable
    together all would be read before the first event is written to a client. This one is future-like by the
    protocol that asyncio's tasks keep with any such object (`asyncio.isfuture`).
    """

    __slots__ = ("_asyncio_future_blocking", "_callback", "_context", "_is_cancelled", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._callback: Callable[[Any], object] | None = None
        self._context: Context | None = None
        self._is_cancelled = False

    def set(self) -> None:
        """Let the task go on, here where no task runs, else soon. Nothing happens if none waits."""
        callback, context = self._callback, self._context
        if callback is None:
            return
        self._callback = self._context = None
        if asyncio.current_task(self._loop) is None and context is not None:
            context.run(callback, self)
        else:
            self._loop.call_soon(callback, self, context=context)

    def __await__(self) -> Generator[Wakeup, None, None]:
        self._is_cancelled = False
        self._asyncio_future_blocking = True
        yield self

    # What a task calls

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        self._callback, self._context = callback, context

    def cancel(self, msg: object = None) -> bool:
        if self._callback is None:
            return False
        self._is_cancelled = True
        callback, context = self._callback, self._context
        self._callback = self._context = None
        self._loop.call_soon(callback, self, context=context)
        return True

    def result(self) -> None:
        """Raises CancelledError."""
        if self._is_cancelled:
            raise asyncio.CancelledError
