"""Finding runs without an owner: those of a dead process at a start, of dead nodes, and those handed over."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence

import structlog

from antiphon.core.run_state import RunState
from antiphon.errors import StorageError
from antiphon.journal.contract import Journal, LiveRun, RunLost
from antiphon.journal.log import RunLog
from antiphon.ops.lifecycle import Told
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Bus, Clock
from antiphon.runs.directory import RunDirectory
from antiphon.runs.elsewhere.remote_runs import RemoteRuns
from antiphon.runs.recovery.recovery import Recovery
from antiphon.runs.recovery.resuming import nothing_told
from antiphon.runs.steering.following import Successors
from antiphon.store.responses import ResponseReader, StoredResponse

log = structlog.get_logger(__name__)

_AT_ONCE = 16
"""Runs taken over at the same time: their histories are read from the store."""

_SWEEP_S = 10.0
_FORGOTTEN_LEASES = 4
"""An unfinished row that no log in the bus belongs to, at two looks so many leases apart, is nobody's: an owner
that lives looks once a lease whether its logs are there."""

_SUCCESSOR_S = 10.0
"""Time in which the owner of a steered run begins what follows it; then any node does."""

RELEASED = "antiphon:v1:{released}:hint"
"""Channel on which a node says that it has handed runs over."""


class Adopter:
    """Takes runs that nobody owns and has `Recovery` go on with them."""

    def __init__(
        self,
        bus: Bus,
        journal: Journal,
        reader: ResponseReader,
        recovery: Recovery,
        successors: Successors,
        directory: RunDirectory,
        remote: RemoteRuns,
        registry: RunRegistry,
        clock: Clock,
        lease_s: float,
    ) -> None:
        self._bus = bus
        self._journal = journal
        self._reader = reader
        self._recovery = recovery
        self._successors = successors
        self._directory = directory
        self._remote = remote
        self._registry = registry
        self._clock = clock
        self._lease_s = lease_s
        self._period_s = lease_s / 5
        self._verified_at = clock.monotonic()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._taken: dict[str, LiveRun] = {}
        """Adopted, but the store did not take what followed: tried again."""
        self._in_work: set[str] = set()
        self._missing: dict[str, float] = {}
        """Unfinished rows without a log, and since when."""
        self._orphans: set[str] = set()
        """Runs that had no living owner at the last sweep."""
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.adopted = 0
        """Runs taken over since the start."""
        self.resting = False
        """Whether this node takes nothing, because it goes away itself."""
        self.told: Callable[[str, str, int], Awaitable[Told]] = nothing_told
        """Asks the shared feed what it has of a run; on one machine the feed begins with the process."""
        self.on_sweep: Callable[[], Awaitable[None]] = _nothing
        """Whatever else has to be looked at from time to time."""
        self.sweep_archive: Callable[[], Awaitable[None]] | None = None
        """Moves the logs of ended runs that a dead node left behind."""

    # One machine

    async def recover(self) -> None:
        """At a start on one machine: what the last process left behind. Raises StorageError.

        Successors that were announced and never begun begin now.
        """
        for row in await self._reader.terminal_without_event():
            if row.terminal_event is not None and row.terminal_number is not None:
                await self._journal.conclude(_from_row(row, -1), row.terminal_event, row.terminal_number)
        for row in await self._reader.unfinished():
            try:
                await self._adopt(_from_row(row, await self._reader.head(row.id)))
            except StorageError:
                raise
            except Exception:  # a row nobody can read must not keep the server from starting
                log.exception("recovery_failed", response_id=row.id)
        await self._successors.begin_again()

    # Several nodes

    async def start(self) -> None:
        """Begin to look. Raises BusError."""
        await self._bus.subscribe(RELEASED, lambda _: self._news.set())
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._look(), name="adopter"),
            loop.create_task(self._sweep_for_ever(), name="sweeper"),
        ]

    async def stop(self) -> None:
        self.resting = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []

    async def nodes_gone(self, nodes: frozenset[str]) -> None:
        """Take what these dead nodes owned. Raises BusError."""
        for node in nodes:
            if await self._take_all(node) and not self.resting:
                await self._bus.forget_node(node)

    async def _look(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._period_s * random.uniform(0.8, 1.2)):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._take_all("")
                await self._verify()
                left = [run for run in self._taken.values() if run.id not in self._in_work]
                await asyncio.gather(*(self._go_on_alone(run) for run in left))
            except StorageError as error:
                log.warning("adopter_failed", error=str(error))
            except Exception:
                log.exception("adopter_crashed")

    async def _verify(self) -> None:
        """Once a lease: a key of ours may have been lost alone."""
        now = self._clock.monotonic()
        if now - self._verified_at >= self._lease_s and self._bus.held:
            self._verified_at = now
            await self._journal.verify()

    async def _take_all(self, owner: str) -> bool:
        """Take what a dead node owned (empty: what was released), a part at a time; whether nothing is left."""
        before: set[str] = set()
        while runs := await self._journal.owned_by(owner):
            here = {run.id for run in runs}
            if here == before or self.resting or not self._bus.held:
                return False
            before = here
            await self._take(runs)
        return True

    async def _take(self, runs: Sequence[LiveRun]) -> None:
        # Not in the same order on every node, so that they share the work instead of racing for it.
        mine = random.sample(runs, len(runs))
        await asyncio.gather(*(self._adopt(run) for run in mine))

    async def _adopt(self, run: LiveRun) -> None:
        if run.id in self._in_work or run.id in self._taken or self._directory.own(run.id) is not None:
            return
        with self._working(run.id):
            async with self._room:
                taken = await self._journal.adopt(run)
                if taken is not None:
                    self.adopted += 1
                    await self._go_on(taken)

    @contextlib.contextmanager
    def _working(self, run_id: str) -> Iterator[None]:
        """Nobody else here touches the run meanwhile: it would be executed twice."""
        self._in_work.add(run_id)
        try:
            yield
        finally:
            self._in_work.discard(run_id)

    async def _go_on_alone(self, run: LiveRun) -> None:
        with self._working(run.id):
            await self._go_on(run)

    async def _go_on(self, run: LiveRun) -> None:
        """Have an adopted run executed or ended. Where the store is away it is tried again later."""
        self._taken[run.id] = run
        mirror = await self._remote.adopted(run.id)
        log_here, state_here = (mirror.log, mirror.state) if mirror is not None else (None, None)
        try:
            ended = await self._end_of(run, log_here, state_here)
            if ended is not None:
                told = await self.told(run.id, ended.tenant, run.fence)
                self._registry.adopt(ended, told, run.fence)
                self._registry.tell(ended)
            self._taken.pop(run.id, None)
        except RunLost:
            log.info("adoption_lost", response_id=run.id)
            self._taken.pop(run.id, None)
        except StorageError as error:
            if self._bus.alone:
                raise
            log.warning("adoption_delayed", response_id=run.id, error=str(error))
        finally:
            if mirror is not None and not mirror.log.ended and self._directory.own(run.id) is None:
                self._remote.put_back(mirror)  # whoever follows it here still waits for its end

    async def _end_of(self, run: LiveRun, mirror: RunLog | None, state: RunState | None) -> RunState | None:
        """See `Recovery.go_on`. What is kept of a run may be unreadable; then it ends all the same."""
        try:
            return await self._recovery.go_on(run, mirror, state)
        except (StorageError, RunLost):
            raise
        except Exception:
            log.exception("adoption_failed", response_id=run.id)
            return await self._recovery.give_up(run, mirror, state)

    # What fell through

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S * random.uniform(0.8, 1.2))
            try:
                await self.sweep()
            except StorageError as error:
                log.warning("sweep_failed", error=str(error))
            except Exception:
                log.exception("sweep_crashed")

    async def sweep(self) -> None:
        """End unfinished rows without a log in the bus, begin successors nobody began. Raises StorageError."""
        if self.resting or not self._bus.held:
            return
        for run in self._directory.live_runs():
            self._journal.publish_state(run.log)  # shows that its log is there, and keeps it from expiring
        if self.sweep_archive is not None:
            await self.sweep_archive()
        now = self._clock.now()
        forgotten_s = _FORGOTTEN_LEASES * self._lease_s
        unfinished = await self._reader.unfinished_ids(now - forgotten_s)
        found = await self._journal.find_all(unfinished)
        alive = await self._bus.alive()
        orphans = [run for run in found.values() if run is not None and not run.ended and run.owner not in alive]
        # Only what had no owner at the last look too: after a pause of Redis nobody seems to be alive.
        await self._take([run for run in orphans if run.id in self._orphans])
        self._orphans = {run.id for run in orphans}
        missing = [run_id for run_id, run in found.items() if run is None]
        self._missing = {run_id: self._missing.get(run_id, now) for run_id in missing}
        for run_id in missing:
            if now - self._missing[run_id] >= forgotten_s:
                await self._end_forgotten(run_id)
        await self.on_sweep()
        await self._successors.begin_again(ended_before=now - _SUCCESSOR_S)

    async def _end_forgotten(self, run_id: str) -> None:
        row = await self._reader.find(run_id)
        if row is not None and row.terminal_event is None:
            # As any other: of several nodes that find it, one makes the log anew and is its owner.
            await self._adopt(_from_row(row, await self._reader.head(run_id)))


async def _nothing() -> None:
    """Nobody has anything to look at."""


def _from_row(row: StoredResponse, head: int) -> LiveRun:
    """A run that only the store knows."""
    return LiveRun(
        id=row.id,
        owner="",
        fence=row.fence,
        epochs=row.epochs,
        head=head,
        first=0,
        stored=True,
        ended=row.terminal_event is not None,
        state=row.run_state,
    )
