"""A run begins: admitted, prepared, opened, launched. A create that is refused leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from antiphon.core.agent_names import DEFAULT, named
from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, BusError, Draining, StorageError
from antiphon.governance.admission.admission import Admission
from antiphon.governance.admission.reservation import Reservation
from antiphon.hooks import SkillDispatch
from antiphon.journal.contract import Journal, RunLost
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Bus
from antiphon.runs.directory import RunDirectory
from antiphon.runs.named_conversations import NamedConversations, locked
from antiphon.runs.run import Create, Run
from antiphon.runs.start.idempotency import IdempotencyKeys, KeyUse
from antiphon.runs.start.opening import RunOpener
from antiphon.runs.start.pipeline import Pipeline, Prepared
from antiphon.runs.steering.pending import PendingSteers
from antiphon.runs.supervisor import Supervisor
from antiphon.store.records import ConversationTaken, IdempotencyRecord

log = structlog.get_logger(__name__)


class RunStarter:
    """Carries creates through the door. draining: it is closed."""

    def __init__(
        self,
        *,
        admission: Admission,
        pipeline: Pipeline,
        opener: RunOpener,
        journal: Journal,
        bus: Bus,
        registry: RunRegistry,
        directory: RunDirectory,
        supervisor: Supervisor,
        keys: IdempotencyKeys,
        pending_steers: PendingSteers,
        conversations: NamedConversations,
    ) -> None:
        self._admission = admission
        self._pipeline = pipeline
        self._opener = opener
        self._journal = journal
        self._bus = bus
        self._registry = registry
        self._directory = directory
        self._supervisor = supervisor
        self._keys = keys
        self._pending_steers = pending_steers
        self._conversations = conversations
        self._settling: set[asyncio.Future[None]] = set()
        self.draining = False
        self.on_refused: Callable[[str], None] = lambda code: None
        """Called with the code of each create that is refused."""

    async def begin(
        self,
        run_id: str,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None = None,
        *,
        key: KeyUse | None = None,
        follows: bool = False,
        skill: SkillDispatch | None = None,
    ) -> Run:
        """Start the run, and with it the steers that waited for this create. follows: it was announced.

        Raises AntiphonError; then nothing of it is left.
        """
        pending = self._pending_steers.claim(create)
        steered = pending.steers.items() if pending is not None else []
        try:
            reservation = await self.admit(run_id, create, principal)
            try:
                with self._conversations.beginning(create.request.conversation_id, principal):
                    prepared = await self._pipeline.prepare(run_id, create, principal, memory, steered, skill)
                    run = await self._open(run_id, principal, prepared, reservation, key, follows=follows)
            except BaseException:
                reservation.release()
                raise
        except BaseException as error:
            if self._directory.own(run_id) is None:
                self._pending_steers.release(pending)
            else:
                self._pending_steers.commit(pending)
            if isinstance(error, AntiphonError):
                self.on_refused(error.code)
                log.info(
                    "create_refused",
                    response_id=run_id,
                    tenant=principal.tenant,
                    principal=principal.id,
                    code=error.code,
                )
            raise
        self._pending_steers.commit(pending)
        return run

    async def prepare_only(
        self, run_id: str, create: Create, principal: Principal, *, calls_model: bool = True
    ) -> tuple[Reservation, Prepared]:
        """What a run would start with, for work on its history that is no run; and what that holds until it ended.

        calls_model: whether it costs a request of the tenant. Raises AntiphonError; then nothing is held.
        """
        reservation = await self.admit(run_id, create, principal, calls_model=calls_model)
        try:
            prepared = await self._pipeline.prepare(run_id, create, principal, None)
        except BaseException:
            reservation.release()
            raise
        reservation.commit()
        return reservation, prepared

    async def admit(
        self, run_id: str, create: Create, principal: Principal, *, calls_model: bool = True
    ) -> Reservation:
        """Whether the create may become a run at all; gives what it holds from now on. Raises AntiphonError."""
        self._check_door()
        if create.request.stored and not self._bus.alone and not self._journal.healthy:
            raise StorageError(
                "The store takes nothing at present; send this again.", headers={"retry-after": "2"}
            )
        agent, _ = named(create.request.model, create.request.antiphon.agent)
        return await self._admission.reserve(
            principal,
            run_id,
            agent=agent or DEFAULT,
            warm_up=create.request.is_warm_up or not calls_model,
        )

    async def _open(
        self,
        run_id: str,
        principal: Principal,
        prepared: Prepared,
        reservation: Reservation,
        key: KeyUse | None,
        *,
        follows: bool,
    ) -> Run:
        try:
            self._check_door()  # preparing may have waited, and a drain may have begun
            run = self._opener.open(principal, prepared, run_id)
        except AntiphonError as error:
            prepared.passage.refuse(error)
            raise
        except BaseException:
            prepared.passage.abandon()
            raise
        self._write_row(run, prepared, key, follows=follows)
        self._directory.add(run)
        reservation.commit()
        run.reservation = reservation
        _receipt(run)
        decides = key is not None or prepared.conversation is not None
        durable = run.stored and (decides or run.create.origin == "background")
        if durable or run.request.is_warm_up:
            await self._carry_through(run, durable=durable)
        self._launch(run)
        return run

    def _launch(self, run: Run) -> None:
        if not run.request.is_warm_up:
            self._registry.start(run.state)
            self._supervisor.launch(run)

    async def _carry_through(self, run: Run, *, durable: bool) -> None:
        """Do what comes before the answer. The run exists: if its creator leaves now, it begins all the same.

        durable: row and `response.created` are written first. Raises StorageError; then the create is refused.
        """
        settling = asyncio.ensure_future(self._settle(run, durable=durable))
        try:
            await asyncio.shield(settling)
        except asyncio.CancelledError:
            self._settling.add(settling)
            settling.add_done_callback(lambda _: self._settled(run, settling))
            raise

    def _settled(self, run: Run, settling: asyncio.Future[None]) -> None:
        self._settling.discard(settling)
        if not settling.cancelled() and settling.exception() is None:
            self._launch(run)

    async def _settle(self, run: Run, *, durable: bool) -> None:
        try:
            if durable:
                await self._journal.flush(run.log)
            if run.request.is_warm_up:
                await self._supervisor.finish_warm_up(run)
        except RunLost as error:
            # Another node goes on with it, and holds its slot from now on.
            if run.reservation is not None:
                run.reservation.left()
            if run.passage is not None:
                run.passage.abandon()
            raise BusError("Another node took the run over as it began; look for it by its id.") from error
        except ConversationTaken as error:
            refused = locked(run.state.conversation_id)
            self._withdraw(run, refused)
            raise refused from error
        except StorageError as error:
            self._withdraw(run, error)
            raise

    def _withdraw(self, run: Run, error: AntiphonError) -> None:
        """Nothing was written of it, and nothing stays."""
        self._journal.close(run.log)
        self._directory.forget(run.id)
        if run.create.idempotency_key is not None:
            self._keys.discard(run.principal, run.create.idempotency_key)
        if run.reservation is not None:
            run.reservation.ended()
        if run.passage is not None:
            run.passage.refuse(error)

    def _check_door(self) -> None:
        if self.draining:
            message = "The server is shutting down; send this again to another one or in a moment."
            raise Draining(message)
        if not self._bus.held:
            raise BusError("This node cannot reach the others; send this again.", headers={"retry-after": "2"})

    def _write_row(self, run: Run, prepared: Prepared, key: KeyUse | None, *, follows: bool) -> None:
        record: IdempotencyRecord | None = None
        if key is not None and run.create.idempotency_key is not None:
            name = run.create.idempotency_key
            expires_at = self._keys.record(run.principal, name, key.digest, run.id)
            who = (run.principal.tenant, run.principal.id)
            record = IdempotencyRecord(*who, name, key.digest, run.id, expires_at, key.replaces)
        if run.stored:
            self._opener.write_row(run, prepared, record, follows=follows)


def _receipt(run: Run) -> None:
    request = run.request
    log.info(
        "create",
        response_id=run.id,
        tenant=run.principal.tenant,
        principal=run.principal.id,
        agent=run.agent.name,
        model=run.model.name,
        store=request.stored,
        stream=bool(request.stream),
        has_previous_response_id=request.previous_response_id is not None,
        has_conversation=request.conversation is not None,
        tools=len(request.tools or ()),
    )
