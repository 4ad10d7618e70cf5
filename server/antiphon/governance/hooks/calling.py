"""Calls of extensions: bounded in time, never without an owner, and harmless when they fail."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import structlog

from antiphon.errors import HookError

log = structlog.get_logger(__name__)

T = TypeVar("T")

_CANCEL_S = 1.0
"""How long a cancelled call may take to notice."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What an extension could not do. kind: it raised, it was too slow, or it gave too much."""

    name: str
    kind: Literal["error", "timeout", "too_large"]
    required: bool = False


def place_of(error: BaseException) -> str:
    """Class and place of an exception. Its text is left out: it may hold what a user said."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


class Calls:
    """Keeps every task of extensions until it has ended, also one that nobody waits for any more."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run something that nobody waits for; its exception is logged."""
        task = self._keep(work, name)
        task.add_done_callback(_log_failure)
        return task

    async def within(self, work: Awaitable[T], timeout_s: float, name: str) -> T:
        """The result of a call. A call that does not hear its cancellation is left behind.

        Raises TimeoutError, and whatever the call raises, but nothing that would end the process.
        """
        task = self._keep(_contained(work), name)
        try:
            done, _ = await asyncio.wait([task], timeout=timeout_s)
        except asyncio.CancelledError:
            self._give_up(task)
            raise
        if not done:
            self._give_up(task)
            raise TimeoutError
        if task.cancelled():
            raise HookError("An extension of this server was cancelled from inside.")
        return task.result()

    def _keep(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        task.add_done_callback(_log_failure)

    async def drain(self, within_s: float) -> int:
        """Let everything end, also what begins meanwhile; cancel what has not. Gives how many had to be."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while self._tasks and (left_s := deadline - loop.time()) > 0:
            await asyncio.wait(set(self._tasks), timeout=left_s)
        late = set(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CANCEL_S)
        return len(late)


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("hook_task_failed", task=task.get_name(), error=place_of(error))


async def _contained(work: Awaitable[T]) -> T:
    try:
        return await work
    except SystemExit as error:
        # Left alone it would end the whole server.
        raise HookError("An extension of this server tried to end the process.") from error
