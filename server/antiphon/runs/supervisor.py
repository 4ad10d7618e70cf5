"""The owner of every live run: one task each, strongly referenced, ended by exactly one terminal."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable

import structlog

from antiphon.core.assembly.outcome import Outcome, cancelled, normal_usage, stopped
from antiphon.hooks import RunOutcome
from antiphon.runs.directory import RunDirectory
from antiphon.runs.loop.ending import RunEnder
from antiphon.runs.loop.loop import RunLoop
from antiphon.runs.run import Run

log = structlog.get_logger(__name__)

_END_WITHIN_S = 5.0
"""How long a stop waits for the ends of runs: longer only a store or a bus that is away can make it."""

_LOOK_S = 0.2
"""How often it is looked whether runs that kept the server from stopping now only wait."""


class Supervisor:
    """Launches, stops and forgets runs."""

    def __init__(
        self,
        loop: RunLoop,
        ender: RunEnder,
        directory: RunDirectory,
        grace_s: float,
    ) -> None:
        self._loop = loop
        self._ender = ender
        self._directory = directory
        self._grace_s = grace_s
        self.on_ended: Callable[[Run], None] = lambda run: None
        """Called just before the terminal of a run is shown."""
        self._tasks: set[asyncio.Task[None]] = set()
        ender.on_end = self._ended

    @property
    def running(self) -> int:
        """Runs without a terminal."""
        return len(self._tasks)

    def launch(self, run: Run) -> None:
        """Execute the run in a task of its own, which inherits no context of the request that started it."""
        task = asyncio.get_running_loop().create_task(
            self._loop.run(run), name=f"run {run.id}", context=contextvars.Context()
        )
        run.task = task
        self._tasks.add(task)
        task.add_done_callback(self._done)
        task.add_done_callback(lambda _: _over(run))

    async def finish_warm_up(self, run: Run) -> None:
        """A warm-up ends as soon as it began: no model call, but an id to continue from."""
        await self._ender.end(run, Outcome("completed", usage=normal_usage({})))

    def stop(self, run: Run, outcome: Outcome) -> bool:
        """End the run early with `outcome`; False if its end is already decided."""
        if run.phase != "streaming" or run.stop is not None or run.suspended or run.lost:
            return run.phase == "streaming"
        run.stop, run.stop_at = outcome, asyncio.get_running_loop().time()
        if run.executing and run.task is not None:
            run.task.cancel()  # a task that never ran would not even see it; it looks at `stop` when it begins
        return True

    def listened(self, run: Run) -> None:
        """Somebody attached."""
        run.listeners += 1
        if run.abandon_timer is not None:
            run.abandon_timer.cancel()
            run.abandon_timer = None

    def left(self, run: Run) -> None:
        """Somebody detached; after the last one a run that was not to outlive its listeners gets its time."""
        run.listeners -= 1
        self.unheard(run)

    def unheard(self, run: Run) -> None:
        """If nobody listens, the time of a run that was not to outlive its listeners begins."""
        if run.listeners > 0 or run.abandon_s is None or run.phase != "streaming":
            return
        outcome = cancelled("system:abandoned")
        run.abandon_timer = asyncio.get_running_loop().call_later(run.abandon_s, self.stop, run, outcome)

    async def stop_all(self) -> None:
        """End every run, because the server goes away, and wait for their terminals."""
        self._ender.hurry()
        self.suspend_waiting()
        for run in self._directory.live_runs():
            self.stop(run, stopped())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_WITHIN_S)
        for run in self._directory.live_runs():
            if run.task in self._tasks:
                log.warning("run_left_behind", response_id=run.id)
                run.lost = run.log.lost = True  # whoever takes it over ends it truthfully
                run.left.set()
                run.task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_WITHIN_S)

    def suspend_waiting(self) -> None:
        """Stop the runs that only wait, so that another process can go on with them."""
        for run in self._directory.live_runs():
            if run.can_suspend and not run.suspended and run.task is not None:
                run.suspended = True
                run.task.cancel()

    async def wait_idle(self) -> None:
        """Wait until no run is going on, but for those that another process can go on with."""
        while busy := self._tasks & {run.task for run in self._directory.live_runs() if not run.can_suspend}:
            await asyncio.wait(busy, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)

    def _ended(self, run: Run) -> None:
        self.on_ended(run)
        if run.abandon_timer is not None:
            run.abandon_timer.cancel()
            run.abandon_timer = None
        if run.reservation is not None:
            run.reservation.ended(served=run.outcome is not None and run.outcome.status == "completed")
        if run.passage is not None and run.outcome is not None:
            # The terminal is shown in this very step; middlewares go on behind it.
            run.passage.end(_told(run, run.outcome))
        if run.stored and run.turn is not None and run.outcome is not None and run.outcome.status != "failed":
            self._directory.remember_turn(run.turn)
        if run.stored and run.durable_end:
            # The store answers from here on, once everybody who is attached has left.
            asyncio.get_running_loop().call_soon(self._directory.forget, run.id)
        elif not run.stored:
            asyncio.get_running_loop().call_later(self._grace_s, self._directory.forget, run.id)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("run_task_died", task=task.get_name(), exc_info=error)


def _told(run: Run, outcome: Outcome) -> RunOutcome:
    """The end of a run as its middlewares hear it."""
    return RunOutcome(
        run_id=run.id,
        status=outcome.status,
        code=outcome.code,
        agent=run.agent.name,
        source=run.agent.source,
        model=run.model.name,
        upstream=run.model.upstream.name,
        usage=outcome.usage,
    )


def _over(run: Run) -> None:
    """The task of a run is over. If the run is not, it goes on elsewhere, with all that it holds of quotas."""
    if run.outcome is not None:
        run.put_away()
        return
    if run.passage is not None:
        run.passage.abandon()
    if run.reservation is not None:
        run.reservation.left()
