"""Going on with runs that another process began (ARCHITECTURE "A node dies").

A run can be gone on with where its log ends exactly at a checkpoint, or holds nothing but its first events, and
nothing of it lived in the dead process alone. Then the round that was cut is made again, or its wait goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

import orjson
import structlog

from antiphon.core.assembly.item import OpenItem
from antiphon.core.checkpoint import Checkpoint, read_checkpoint, unpack_item
from antiphon.core.create_request import parse_create
from antiphon.core.cursor import Epochs
from antiphon.core.principal import Principal
from antiphon.core.projection import project
from antiphon.core.run_state import TERMINAL, RunState
from antiphon.core.steering import SteerBook
from antiphon.core.usage_estimate import Spent
from antiphon.errors import AntiphonError, RequestError, UpstreamError
from antiphon.governance.admission.admission import Admission
from antiphon.governance.agents import Agent, kept_agent
from antiphon.journal.contract import Journal, LiveRun
from antiphon.journal.log import RunLog
from antiphon.ops.lifecycle import Told
from antiphon.ops.registry import RunRegistry
from antiphon.ports import ModelCall
from antiphon.runs.directory import RunDirectory
from antiphon.runs.elsewhere.remote_run import state_of
from antiphon.runs.held.calls import HeldRuns
from antiphon.runs.run import Create, Loop, Model, Run
from antiphon.runs.start.assigning import Assigner
from antiphon.runs.start.opening import RunOpener
from antiphon.runs.supervisor import Supervisor
from antiphon.store.responses import ResponseReader, Resumable, StoredResponse

log = structlog.get_logger(__name__)

_MAX_FENCE = 50
_MAX_TAKEOVERS = 5
"""A run that was taken over so often may be what kills its processes."""

REVISIONS = 1_000_000
"""Above every revision the dead process may have shown: what was not stored cannot be counted."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of a run. checkpoint: None before the end of its first round."""

    stored: Resumable
    checkpoint: Checkpoint | None

    @property
    def clean(self) -> bool:
        """Whether its process stopped in order, so that nobody saw an event that is not stored."""
        return self.checkpoint is not None and self.checkpoint.clean


class Resumer:
    """Takes runs up again."""

    def __init__(
        self,
        *,
        reader: ResponseReader,
        journal: Journal,
        directory: RunDirectory,
        registry: RunRegistry,
        assigner: Assigner,
        admission: Admission,
        opener: RunOpener,
        held: HeldRuns,
        supervisor: Supervisor,
    ) -> None:
        self._reader = reader
        self._journal = journal
        self._directory = directory
        self._registry = registry
        self._assigner = assigner
        self._admission = admission
        self._opener = opener
        self._held = held
        self._supervisor = supervisor
        self.told: Callable[[str, str, int], Awaitable[Told]] = nothing_told
        """Asks the feed what it has of a run: (run id, tenant, fence)."""
        self.on_resumed: Callable[[Run], None] = lambda run: None
        """Called with a run that goes on here, when it can be found."""

    async def resumable(self, row: StoredResponse, run: LiveRun, events: int) -> Kept | None:
        """What is needed to go on, None if nobody can. events: how many the log has. Raises StorageError."""
        stored = await self._reader.resumable(row.id)
        if stored is None or not events:
            return None  # its log was lost, or never written: nobody knows what it has done already
        head, payload = run.checkpoint or (stored.head, stored.checkpoint)
        if payload is None:
            first_events = 2 if row.status == "in_progress" else 3
            untouched = events <= first_events and not orjson.loads(stored.request)["approved"]
            # Each takeover that showed something opened an epoch; fences also rise with every interruption.
            takeovers = len(run.epochs.entries) - 1
            again = takeovers < _MAX_TAKEOVERS and run.fence <= _MAX_FENCE
            return Kept(stored, None) if untouched and again else None
        try:
            checkpoint = read_checkpoint(payload)
        except (ValueError, TypeError):
            return None  # written by a release that knew more, or less
        if head != events - 1 or checkpoint.takeovers >= _MAX_TAKEOVERS:
            return None
        return Kept(stored, checkpoint)

    async def resume(
        self,
        row: StoredResponse,
        adopted: LiveRun,
        kept: Kept,
        events: Sequence[bytes],
        epochs: Epochs,
        mirror: RunLog | None,
        mirrored: RunState | None,
    ) -> None:
        """Bring the run back and execute it. Raises AntiphonError, ValueError where what was kept is no use.

        mirror, mirrored: the log and the state that followers on this node have; they become the run's own.
        """
        head = len(events) - 1
        state = next_state(adopted.state, mirrored, epoch=epochs.current, head=head)
        run_log = self._journal.open(
            row.id, epochs, stored=True, state=state, head=head, fence=adopted.fence, onto=mirror
        )
        run: Run | None = None
        try:
            run = await self._run(row, kept, events, run_log, state)
            run.fence = adopted.fence
            if kept.checkpoint is not None:
                await self._restore(run, kept.checkpoint)
            told = await self.told(run.id, run.principal.tenant, run.fence)
        except BaseException:
            if run is not None:
                self._held.close(run)  # its deadlines are another attempt's
            self._journal.close(run_log)
            raise
        run.reservation = self._admission.take_over(run.principal, run.id, agent=run.agent.name)
        self._directory.add(run)
        self._registry.adopt(state, told, run.fence)
        self._supervisor.launch(run)
        self.on_resumed(run)
        self._supervisor.unheard(run)
        log.info("run_resumed", response_id=run.id, round=run.loop.round, waiting=run.loop.waiting)

    async def _restore(self, run: Run, checkpoint: Checkpoint) -> None:
        """Take back its held calls, and note that it is ours: what this process shows nobody else has shown."""
        if checkpoint.held is not None:
            await self._held.restore(run, checkpoint.held)
        only_waits = checkpoint.waiting and run.held is not None and bool(run.held.pending)
        died_with_it = not checkpoint.clean and not only_waits
        run.loop.takeovers = checkpoint.takeovers + died_with_it
        kept = replace(checkpoint, clean=False, takeovers=run.loop.takeovers)
        try:
            self._journal.checkpoint(run.log, kept.encode())
            await self._journal.flush(run.log)
        except BaseException:
            self._held.close(run)
            raise

    async def _run(
        self, row: StoredResponse, kept: Kept, events: Sequence[bytes], run_log: RunLog, state: RunState
    ) -> Run:
        stored, checkpoint = kept.stored, kept.checkpoint
        known = orjson.loads(stored.request)
        raw = {**known["create"], "input": orjson.loads(b"[%b]" % row.input)}
        create = Create(parse_create(raw), raw, known["origin"], instance=known.get("instance"))
        principal = Principal(row.creator, row.tenant, known["role"], known["tier"])
        parent = None
        if row.previous_response_id is not None:
            parent = await self._directory.parent(row.previous_response_id, principal)
            if parent is None:
                raise RequestError("The response before this one is gone.", code="previous_response_not_found")
        # As it was when the run began, whatever became of it since.
        agent = kept_agent(known["agent"])
        model = await self._model(create, principal, agent, known["model"])
        assigned = self._assigner.bind(create, principal, agent, model, create.request.items())
        create = assigned.create
        run = Run(
            id=row.id,
            create=create,
            principal=principal,
            model=model,
            agent=agent,
            asked=assigned.asked,
            parent=parent,
            input=stored.context_input,
            log=run_log,
            assembler=self._opener.assembler(row.id, int(state.created_at), create),
            state=state,
            abandon_s=self._opener.abandon_s(create),
            loop=_loop(checkpoint) if checkpoint is not None else Loop(),
            roster=self._opener.roster(create, principal),
        )
        run.loop.declared = assigned.declared
        items = [_shown(item, index) for index, item in enumerate(project(events))] if checkpoint else []
        first = checkpoint.first if checkpoint is not None and checkpoint.waiting else len(items)
        waiting = [unpack_item(packed) for packed in checkpoint.items] if checkpoint is not None else []
        run.assembler.restore([*items[:first], *waiting], first, len(events))
        if checkpoint is not None:
            run.steers = SteerBook.restored(checkpoint.steers)
            run.state.steers = run.steers.rows()
        return run

    async def _model(self, create: Create, principal: Principal, agent: Agent, name: str) -> Model:
        async def find() -> Model:
            return await self._assigner.model(create, principal, agent, name)

        try:
            return await find()
        except AntiphonError:
            # Its upstream may be slower to come back than we are; who waits for a person must not end for that.
            return Model(_Later(find), name, None)


class _Later:
    """An upstream that is looked for when it is needed."""

    def __init__(self, find: Callable[[], Awaitable[Model]]) -> None:
        self.name = "unknown"
        self.tools: tuple[str, ...] = ()
        self._find = find

    async def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        """See the port. Raises UpstreamError where the model is still unknown."""
        try:
            model = await self._find()
        except AntiphonError as error:
            raise UpstreamError(error.message, code="upstream_unavailable") from error
        async with aclosing(cast(Any, model.upstream.stream(call))) as stream:
            async for batch in stream:
                yield batch

    async def models(self) -> Sequence[str]:
        return []

    async def input_tokens(self, call: ModelCall) -> None:
        """Nobody counts for a run that goes on."""

    async def aclose(self) -> None:
        """Nothing is held."""


def next_state(stored: bytes, mirrored: RunState | None, *, epoch: str, head: int) -> RunState:
    """The state a run begins its next life in. mirrored: the object that followers here have; it is used on."""
    row = orjson.loads(stored)
    fresh = state_of(row)
    if row["state"] not in TERMINAL:
        fresh.state = "queued"
        fresh.revision += REVISIONS
        fresh.participants = []
        fresh.stalled = False
    fresh.head, fresh.epoch = head, epoch
    if mirrored is None:
        return fresh
    for name in RunState.__dataclass_fields__:
        setattr(mirrored, name, getattr(fresh, name))
    return mirrored


async def nothing_told(run_id: str, tenant: str, fence: int) -> Told:
    """What a feed that began with this process has of a run of another one."""
    return Told(0, "")


def _loop(checkpoint: Checkpoint) -> Loop:
    return Loop(
        round=checkpoint.round,
        context=[checkpoint.context.encode()] if checkpoint.context else [],
        compacted=checkpoint.compacted.encode() if checkpoint.compacted is not None else None,
        usage=checkpoint.usage,
        spent=Spent(**(checkpoint.spent or {})),
        recent=tuple(frozenset(seen) for seen in checkpoint.recent),
        calls_made=checkpoint.calls_made,
        waiting=checkpoint.waiting,
        activity="clients" if checkpoint.waiting else "",
    )


def _shown(item: dict[str, Any], index: int) -> OpenItem:
    """An item of a round that is over: clients have it, and the context holds what the model reads of it."""
    return OpenItem(
        id=item["id"],
        index=index,
        upstream=item,
        call_id=None,
        done=orjson.dumps(item),
        status="completed",
        to_model="nothing",
    )
