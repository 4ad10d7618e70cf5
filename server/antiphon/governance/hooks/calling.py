"""Calls of extensions: bounded in time, never without an owner, and harmless when they fail."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections import Counter
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import structlog

from antiphon.errors import HookError

log = structlog.get_logger(__name__)

T = TypeVar("T")

_LEFT_BEHIND = 100
"""Calls of one extension that were given up and have not ended: more of them are not begun."""
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
        self._left_behind: Counter[str] = Counter()
        """By name; those that were given up and go on all the same."""

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run something that nobody waits for; its exception is logged."""
        task = self._keep(work, name)
        task.add_done_callback(_log_failure)
        return task

    async def within(self, work: Awaitable[T], timeout_s: float, name: str) -> T:
        """The result of a call. One that does not hear its cancellation is left behind. name: of what is called.

        Raises TimeoutError, also where too many of this name were left behind, and whatever the call raises, but
        nothing that would end the process.
        """
        if self.too_many_left(name):
            if inspect.iscoroutine(work):
                work.close()
            raise TimeoutError
        task = self._keep(_contained(work), name)
        try:
            done, _ = await asyncio.wait([task], timeout=timeout_s)
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            self.give_up(task)
            raise
        if not done:
            task.add_done_callback(_log_failure)
            self.give_up(task)
            raise TimeoutError
        if task.cancelled():
            raise HookError("An extension of this server was cancelled from inside.")
        return task.result()

    def too_many_left(self, name: str) -> bool:
        """Whether so many calls of this name were given up and have not ended that no further one is wise."""
        return self._left_behind[name] >= _LEFT_BEHIND

    def _keep(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def give_up(self, task: asyncio.Task[Any]) -> None:
        """Cancel one that is kept here. It may go on all the same, and is counted if it does."""
        task.cancel()
        asyncio.get_running_loop().call_later(_CANCEL_S, self._look_behind, task)

    def _look_behind(self, task: asyncio.Task[Any]) -> None:
        if not task.done():
            name = task.get_name()
            self._left_behind[name] += 1
            task.add_done_callback(lambda _: self._left_behind.subtract([name]))

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
    except BaseException as error:
        if not ends_the_process(error):
            raise
        # Left alone it would end the whole server, or at least the run's task.
        raise HookError("An extension of this server tried to end the process.") from error


def ends_the_process(error: BaseException) -> bool:
    """Whether nobody who handles exceptions would catch it: SystemExit and others of its kind."""
    return not isinstance(error, (Exception, asyncio.CancelledError, GeneratorExit))
