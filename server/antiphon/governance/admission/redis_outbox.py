"""Scripts on their way to Redis, in order, behind the runs that caused them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog
from redis.asyncio import Redis

from antiphon.bus.tasks import end_tasks
from antiphon.errors import BusError
from antiphon.journal.redis.scripts import Call, run_scripts

log = structlog.get_logger(__name__)

_COLLECT_S = 0.005
_BATCH = 256
_RETRY_S = 0.2
_MAX_CALLS = 100_000
"""While Redis is away. Beyond it the oldest are lost: reservations run out by themselves, counters are made anew
from the rows where Redis has lost its data too."""

Answered = Callable[[Any], None]


class Outbox:
    """Sends in the background; each script can be run twice without harm."""

    def __init__(self, commands: Callable[[], Redis]) -> None:
        self._commands = commands
        self._calls: deque[tuple[Call, Answered | None]] = deque()
        self._waiting = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self.lost = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="admission outbox")

    def add(self, call: Call, answered: Answered | None = None) -> None:
        """Send a script soon. answered: called once with its reply, None where there is none."""
        if len(self._calls) >= _MAX_CALLS:
            _, unheard = self._calls.popleft()
            self._answer(unheard, None)
            self.lost += 1
            if self.lost == 1:
                log.error("admission_changes_lost")
        self._calls.append((call, answered))
        self._idle.clear()
        self._waiting.set()

    async def flush(self) -> None:
        """Until everything was taken."""
        await self._idle.wait()

    async def aclose(self, within_s: float = 2.0) -> None:
        """Send what is left, as far as it is taken in time."""
        if self._task is not None:
            try:
                async with asyncio.timeout(within_s):
                    await self._idle.wait()
            except TimeoutError:
                log.warning("admission_changes_lost", changes=len(self._calls))
            await end_tasks([self._task])
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._waiting.wait()
            self._waiting.clear()
            await asyncio.sleep(_COLLECT_S)  # what comes together goes together
            while self._calls:
                batch = [self._calls[index] for index in range(min(_BATCH, len(self._calls)))]
                try:
                    replies = await run_scripts(self._commands(), [call for call, _ in batch])
                except BusError:
                    await asyncio.sleep(_RETRY_S)
                    continue
                for one, reply in zip(batch, replies, strict=True):
                    if self._calls and self._calls[0] is one:  # else it was lost while it was on its way
                        self._calls.popleft()
                    self._answer(one[1], reply)
            self._idle.set()

    def _answer(self, answered: Answered | None, reply: Any) -> None:
        if isinstance(reply, Exception):
            log.error("admission_change_refused", error=str(reply))
            reply = None
        if answered is not None:
            try:
                answered(reply)
            except Exception:
                log.exception("admission_answer_crashed")
