"""Everything that runs need, put together: the door, the loop, the places where runs are found."""

from __future__ import annotations

from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock, Ids, Toolbox
from antiphon.runs.compaction.compactor import Compactor
from antiphon.runs.compaction.sealing import Sealer
from antiphon.runs.directory import RunDirectory
from antiphon.runs.held.calls import HeldRuns
from antiphon.runs.janitor import Janitor
from antiphon.runs.loop.ending import RunEnder
from antiphon.runs.loop.loop import RunLoop
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.loop.steps import checkpoint
from antiphon.runs.recovery.recovery import Recovery
from antiphon.runs.recovery.resuming import Resumer
from antiphon.runs.service import RunService
from antiphon.runs.start.idempotency import IdempotencyKeys
from antiphon.runs.start.inputs import InputReader
from antiphon.runs.start.opening import RunOpener
from antiphon.runs.start.preparing import Preparer
from antiphon.runs.steering.following import Successors
from antiphon.runs.steering.pending import PendingSteers
from antiphon.runs.steering.steering import Steering
from antiphon.runs.supervisor import Supervisor
from antiphon.settings import Settings
from antiphon.store.responses import ResponseReader
from antiphon.store.writer import SqliteWriter
from antiphon.upstream.router import UpstreamRouter


class Engine:
    """The engine of one process. What it is given stays its owner's to close."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        ids: Ids,
        reader: ResponseReader,
        writer: SqliteWriter,
        journal: SqliteJournal,
        registry: RunRegistry,
        router: UpstreamRouter,
        toolbox: Toolbox,
        sealer: Sealer,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.ids = ids
        self.journal = journal
        self.registry = registry
        self.directory = RunDirectory(reader, journal, settings.limits.max_message_bytes)
        self.held = HeldRuns(registry, self.directory, journal, reader, writer, clock, settings)
        compactor, pending_steers = Compactor(sealer), PendingSteers()
        ender = RunEnder(journal, registry, clock, settings)
        self.parts = LoopParts(
            journal=journal,
            registry=registry,
            toolbox=toolbox,
            held=self.held,
            compactor=compactor,
            ender=ender,
            loop=settings.loop,
            tools=settings.tools,
        )
        self.supervisor = Supervisor(RunLoop(self.parts), ender, self.directory, settings.store.grace_s)
        self.held.stop = self.supervisor.stop
        inputs = InputReader(self.directory, sealer)
        self.preparer = Preparer(self.directory, router, inputs, toolbox, settings.tenant)
        self.opener, keys = RunOpener(settings, journal, clock, ids), IdempotencyKeys(reader, clock)
        self.service = RunService(
            preparer=self.preparer,
            opener=self.opener,
            journal=journal,
            registry=registry,
            directory=self.directory,
            supervisor=self.supervisor,
            keys=keys,
            compactor=compactor,
            pending_steers=pending_steers,
            writer=writer,
            clock=clock,
            ids=ids,
        )
        successors = Successors(reader, writer, self.service)
        self.steering = self._steering(pending_steers, ender, successors)
        self.steering.on_waiting = lambda run: journal.checkpoint(
            run.log, checkpoint(self.parts, run, waiting=True)
        )
        resumer = self._resumer(reader)
        self.recovery = Recovery(reader, writer, resumer, successors, settings.journal, clock, ids)
        self.janitor = Janitor(writer, registry, keys, clock, settings.journal.retention_s)

    def _resumer(self, reader: ResponseReader) -> Resumer:
        return Resumer(
            reader=reader,
            journal=self.journal,
            directory=self.directory,
            registry=self.registry,
            preparer=self.preparer,
            opener=self.opener,
            held=self.held,
            supervisor=self.supervisor,
        )

    def _steering(self, pending: PendingSteers, ender: RunEnder, successors: Successors) -> Steering:
        return Steering(
            service=self.service,
            pending=pending,
            journal=self.journal,
            successors=successors,
            directory=self.directory,
            supervisor=self.supervisor,
            registry=self.registry,
            ender=ender,
            ids=self.ids,
        )
