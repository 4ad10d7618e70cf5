"""What happens to this node's runs when its lease is in doubt, when another node takes them, and at a drain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from antiphon.errors import BusError, StorageError
from antiphon.journal.contract import Journal
from antiphon.journal.log import RunLog
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Bus
from antiphon.runs.directory import RunDirectory
from antiphon.runs.elsewhere.remote_runs import RemoteRuns
from antiphon.runs.loop.parts import Leaving
from antiphon.runs.recovery.adopting import RELEASED
from antiphon.runs.recovery.recovery import encode_epochs
from antiphon.runs.run import Run
from antiphon.runs.supervisor import Supervisor
from antiphon.store import records
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)


class Ownership:
    """Keeps this node from touching a run that may be another's, and lets go of those that are."""

    def __init__(
        self,
        bus: Bus,
        journal: Journal,
        writer: Writer,
        directory: RunDirectory,
        remote: RemoteRuns,
        registry: RunRegistry,
        supervisor: Supervisor,
        leaving: Leaving,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._writer = writer
        self._directory = directory
        self._remote = remote
        self._registry = registry
        self._supervisor = supervisor
        self._leaving = leaving
        self.suspensions = self.runs_lost = 0
        """Since the start: how often the lease was in doubt, and runs that other nodes took meanwhile."""
        self._given: list[Run] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.owner_changed: Callable[[str], None] = lambda run_id: None
        """Called with a run that went to another node: who follows it here has to be made known there."""
        self.say_again: Callable[[], None] = lambda: None
        """Called after an interruption: other nodes may have taken who is here for gone."""
        bus.on_suspended = self._suspended
        bus.on_resumed = self._resumed
        journal.on_lost = self._lost
        journal.on_restarted = self._restarted

    # The lease

    def _suspended(self) -> None:
        self.suspensions += 1
        log.warning("node_suspended", runs=len(self._directory.live_runs()))
        self._stall(stalled=True)

    async def _resumed(self) -> None:
        await self._journal.retake()
        log.warning("node_resumed", runs=len(self._directory.live_runs()))
        self._stall(stalled=False)
        self._remote.look_again()
        self.say_again()

    def _stall(self, *, stalled: bool) -> None:
        """Tell who follows a run of this node that nothing of it is shown for now, or that it is again."""
        for run in self._directory.live_runs():
            if run.phase == "streaming" and not run.lost and run.state.stalled != stalled:
                self._registry.change(run.state, stalled=stalled)

    # Runs

    def _lost(self, run_log: RunLog) -> None:
        """Another node has taken a run while this one could not show that it lives."""
        run = self._directory.own(run_log.run_id)
        if run is None or run.log is not run_log:
            return
        run.lost = True
        self.runs_lost += 1
        run.state.stalled = False
        if run.task is not None:
            run.task.cancel()
        self._give(run)

    def suspended(self, run: Run) -> None:
        """The run is stored for the next process: here it is only followed from now on."""
        if self._bus.alone:
            run.left.set()
            return
        self._give(run)
        self._in_task(self._say_released())

    def _give(self, run: Run) -> None:
        """The run is another node's; followers here go on with a mirror of it."""
        self._given = [given for given in self._given if not given.log.ended]
        self._given.append(run)
        if run.abandon_timer is not None:
            run.abandon_timer.cancel()
            run.abandon_timer = None
        self._directory.forget(run.id)
        self._registry.give(run.state)
        self._remote.follow(run)
        self.owner_changed(run.id)

    def _restarted(self, run_log: RunLog) -> None:
        """The bus lost the log of a living run; it goes on in a new epoch, and whoever follows it is told."""
        run = self._directory.own(run_log.run_id)
        if run is None:
            return
        log.warning("log_restarted", response_id=run.id)
        self._registry.change(run.state, epoch=run_log.epochs.current)
        if run.stored:
            self._in_task(self._put_epochs(run))

    # Going away

    async def hand_over(self) -> None:
        """From now on runs stop where another node can go on, if there is one. Raises BusError."""
        if self._bus.alone or not await self._bus.alive() - {self._bus.node}:
            return
        self._leaving.wanted = True
        self._supervisor.suspend_waiting()

    def close(self) -> None:
        """This process ends: what still follows its former runs here is let go."""
        for run in self._given:
            run.left.set()
        for remote in self._remote.all():
            remote.left.set()

    async def _say_released(self) -> None:
        try:
            await self._bus.publish(RELEASED, b"")
        except BusError:
            log.info("release_not_announced")  # the others look for themselves

    async def _put_epochs(self, run: Run) -> None:
        try:
            await self._writer.submit(records.put_epochs(run.id, encode_epochs(run.log.epochs)))
        except StorageError:
            log.warning("epochs_not_stored", response_id=run.id)

    def _in_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
