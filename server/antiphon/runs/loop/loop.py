"""The loop of one run: model calls, tools and waits until nothing is left to do. One task executes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from antiphon.core.assembly.outcome import Outcome, failed, stopped
from antiphon.core.rounds import MAX_TOOL_ROUNDS, Step
from antiphon.core.steering import STEERED
from antiphon.errors import HookError, StorageError, UpstreamError
from antiphon.journal.contract import RunLost
from antiphon.runs.loop import steps
from antiphon.runs.loop.beginning import gather_context, tell_observers
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.loop.repetition import recall, watch
from antiphon.runs.run import Run

log = structlog.get_logger(__name__)


_QUEUED_HEAD = 1
"""Last event of a background run that has not begun: created, queued."""


class RunLoop:
    """Executes runs."""

    def __init__(self, parts: LoopParts) -> None:
        self._parts = parts
        self.on_suspended: Callable[[Run], None] = lambda run: run.left.set()
        """Called when all of a run is stored for the process that goes on with it."""

    async def run(self, run: Run) -> None:
        """Execute the run to its terminal event, whatever happens on the way.

        Unless another node goes on with it: because it was handed over, or because it was taken.
        """
        run.executing = True
        try:
            outcome = await self._outcome(run)
            if outcome is None:
                await self._suspend(run)
            else:
                await self._finish(run, outcome)
        except (RunLost, asyncio.CancelledError):
            if not run.lost and not run.log.lost:
                raise
            self._parts.held.close(run)
            log.warning("run_lost", response_id=run.id)
            run.done.set()
        finally:
            await self._let_go(run)

    async def _outcome(self, run: Run) -> Outcome | None:
        """How the run ends; None where another process goes on with it. Raises RunLost."""
        try:
            if run.stop is not None:
                raise asyncio.CancelledError
            await tell_observers(self._parts, run)
            self._start(run)
            await gather_context(self._parts, run)
            return await self._execute(run)
        except asyncio.CancelledError:
            if run.lost:
                raise RunLost(run.id) from None
            if run.suspended:
                return None
            return run.stop or stopped()
        except UpstreamError as error:
            return _upstream_failure(error)
        except HookError as error:
            return failed(error.code, error.message, http_status=error.status)
        except RunLost:
            raise
        except StorageError:
            log.exception("run_storage_failed", response_id=run.id)
            return failed("storage_unavailable", "The run could not be stored.", http_status=503)
        except Exception:
            log.exception("run_crashed", response_id=run.id)
            return failed("server_error", "The run failed inside the server.")

    async def _finish(self, run: Run, outcome: Outcome) -> None:
        try:
            await steps.finish(self._parts, run, outcome)
        except RunLost:
            raise
        except Exception:
            log.exception("run_end_crashed", response_id=run.id)
            await self._parts.ender.end(run, failed("server_error", "The run failed inside the server."))

    async def _let_go(self, run: Run) -> None:
        """Give back what the run had open: the connection of its last model call, its tools."""
        await steps.let_finish(run)
        if run.loop.opened is not None:
            await run.loop.opened.aclose()

    async def _suspend(self, run: Run) -> None:
        waiting, run.suspended = run.suspended, True
        try:
            await steps.suspend(self._parts, run, waiting=waiting)
        except StorageError:
            # What was stored when the wait or the round began still leads on, in a new epoch.
            log.warning("suspend_failed", response_id=run.id)
        log.info("run_suspended", response_id=run.id)
        self.on_suspended(run)

    def _start(self, run: Run) -> None:
        if run.create.origin == "background" and run.log.head == _QUEUED_HEAD:
            first = run.assembler.next_number
            event = run.assembler.lifecycle("response.in_progress", "in_progress")
            self._parts.journal.append(run.log, [event], first)
        if run.state.state == "queued":
            self._parts.registry.change(
                run.state,
                "running",
                # Who takes a run over in a later round does not start it once more.
                event="run.started" if run.loop.round == 0 else "run.updated",
                step=run.loop.round or 1,
                head=run.log.head,
            )

    def _may_leave(self, run: Run) -> bool:
        """Whether another node should go on, now that the run is between two rounds."""
        between = run.loop.round > 0 and not run.loop.waiting
        return self._parts.leaving.wanted and between and run.stored and run.resumable

    async def _execute(self, run: Run) -> Outcome | None:
        parts, loop = self._parts, run.loop
        recall(parts, run)
        await steps.open_tools(parts, run)
        if run.request.wants_compaction:
            return await steps.compact(parts, run) or Outcome("completed")
        await steps.run_approved(parts, run)
        while not self._may_leave(run):
            if loop.waiting:
                outcome, step = Outcome("completed"), "client_action"
            else:
                outcome, step = await self._turn(run)
                if step == "done":
                    return outcome
                await steps.execute_calls(parts, run)
            if step == "client_action" and not run.holds:
                return outcome
            if step == "client_action":
                await steps.wait_for_clients(parts, run)
            if loop.round >= parts.loop.max_rounds:
                return Outcome("incomplete", reason=MAX_TOOL_ROUNDS)
            steps.finish_round(parts, run)
            if run.steers.waiting:
                return STEERED
        return None

    async def _turn(self, run: Run) -> tuple[Outcome, Step]:
        """The model's next turn and what follows it: `done` also where it may not speak, or not go on."""
        parts = self._parts
        if steps.wants_compaction(parts, run) and (failure := await steps.compact(parts, run)):
            return failure, "done"
        outcome = await steps.infer(parts, run)
        if outcome.status == "completed" and (halted := watch(parts, run)):
            return halted, "done"
        return outcome, steps.classify_round(parts, run, outcome)


def _upstream_failure(error: UpstreamError) -> Outcome:
    return failed(error.code, error.message, http_status=error.status, headers=error.headers or None)
