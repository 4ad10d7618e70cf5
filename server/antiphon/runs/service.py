"""The one door: every run starts here, whatever transport its create came through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from antiphon.core.assembly.outcome import cancelled
from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.history import encode_history
from antiphon.core.principal import Principal
from antiphon.core.response_ids import made_at
from antiphon.errors import BusError, Draining, RequestError, StorageError
from antiphon.journal.contract import Journal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Bus, Clock, Ids
from antiphon.runs.compaction.compactor import Compactor
from antiphon.runs.directory import RunDirectory
from antiphon.runs.held.claims import refuse_suspended
from antiphon.runs.run import Create, Followed, Run
from antiphon.runs.start.idempotency import IdempotencyKeys, KeyUse, body_digest
from antiphon.runs.start.opening import RunOpener
from antiphon.runs.start.preparing import Prepared, Preparer
from antiphon.runs.steering.pending import PendingSteers
from antiphon.runs.supervisor import Supervisor
from antiphon.store import records
from antiphon.store.records import IdempotencyRecord, KeyTaken
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)


_RESERVED_S = 10.0
"""How long a create may prepare before its key counts as free again."""

DELETED = "antiphon:v1:{deleted}:hint"
"""Channel on which a node says which response was deleted: others may have its history in memory."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a create became. fresh: False if an idempotency key found a run that was started before."""

    response_id: str
    run: Followed | None
    fresh: bool


class RunService:
    """Starts, cancels and deletes runs."""

    def __init__(
        self,
        *,
        preparer: Preparer,
        opener: RunOpener,
        journal: Journal,
        bus: Bus,
        registry: RunRegistry,
        directory: RunDirectory,
        supervisor: Supervisor,
        keys: IdempotencyKeys,
        compactor: Compactor,
        pending_steers: PendingSteers,
        writer: Writer,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._writer = writer
        self._preparer = preparer
        self._opener = opener
        self._journal = journal
        self._bus = bus
        self._registry = registry
        self._directory = directory
        self._supervisor = supervisor
        self._keys = keys
        self._compactor = compactor
        self._pending_steers = pending_steers
        self._clock = clock
        self._ids = ids
        self.draining = False

    async def start(
        self,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None = None,
        *,
        response_id: str | None = None,
    ) -> Started:
        """Admit a create and start its run; the log then holds `response.created`.

        memory: the connection's own, for continuing `store: false` responses. response_id: reserved for this run.
        Raises AntiphonError; then nothing was started and nothing is left behind.
        """
        key = create.idempotency_key
        if key is None:
            run = await self._begin(create, principal, memory, None, response_id)
            return Started(run.id, run, True)
        async with self._keys.lock(principal, key):
            digest = body_digest(create.raw)
            known = await self._keys.find(principal, key, digest)
            if known is not None and await self._exists(known, principal):
                return Started(known, self._directory.live(known, principal), False)
            if not create.request.stored:
                return await self._start_unstored(create, principal, memory, key, KeyUse(digest, known))
            try:
                run = await self._begin(create, principal, memory, KeyUse(digest, known))
            except KeyTaken:
                # The same create came to another node, which was faster: its run is the one.
                known = await self._keys.find(principal, key, digest)
                if known is None:
                    raise
                return Started(known, self._directory.live(known, principal), False)
            return Started(run.id, run, True)

    async def _start_unstored(
        self, create: Create, principal: Principal, memory: ConnectionMemory | None, key: str, use: KeyUse
    ) -> Started:
        """A keyed create whose run has no row: which node is first is decided before it begins."""
        response_id = self._ids.mint("resp")
        known = await self._keys.reserve(principal, key, use.digest, response_id)
        if known is not None:
            if await self._exists(known, principal):
                return Started(known, self._directory.live(known, principal), False)
            if self._clock.now() - (made_at(known) or 0.0) < _RESERVED_S:
                raise BusError(
                    "The same create is being started now; send this again.", headers={"retry-after": "2"}
                )
            await self._keys.give_back(principal, key, use.digest, known)
            if (known := await self._keys.reserve(principal, key, use.digest, response_id)) is not None:
                return Started(known, self._directory.live(known, principal), False)
        try:
            run = await self._begin(create, principal, memory, use, response_id)
        except BaseException:
            await self._keys.give_back(principal, key, use.digest, response_id)
            raise
        return Started(run.id, run, True)

    async def compact(self, create: Create, principal: Principal) -> dict[str, Any]:
        """A compacted form of the history a create names. Nothing is started or stored. Raises AntiphonError."""
        self._admit(principal)
        prepared = await self._preparer.prepare(create, principal, None)
        return await self._compactor.answer(
            prepared.model,
            encode_history(prepared.parent, prepared.input),
            self._ids.mint,
            int(self._clock.now()),
            tenant=principal.tenant,
            raw=create.raw,
            caller_token=create.caller_token,
        )

    def cancel(self, run: Run, principal: Principal, reason: str | None = None) -> str:
        """Stop a live run the principal may see: `accepted`, or `already_terminal` if its end is decided.

        Raises RequestError `forbidden`, Draining.
        """
        if not principal.may_cancel(run.principal.id):
            raise RequestError("Only its creator or an operator may cancel this run.", code="forbidden")
        refuse_suspended(run)
        log.info("run_cancel", response_id=run.id, by=principal.id, reason=reason[:200] if reason else None)
        return "accepted" if self._supervisor.stop(run, cancelled(principal.id)) else "already_terminal"

    async def cancel_by_id(self, response_id: str, principal: Principal, reason: str | None = None) -> str:
        """As `cancel`, also for runs that ended before this process started. Raises `response_not_found`."""
        run = self._directory.live(response_id, principal)
        if run is not None:
            return self.cancel(run, principal, reason)
        row = await self._directory.stored(response_id, principal)
        if not principal.may_cancel(row.creator):
            raise RequestError("Only its creator or an operator may cancel this run.", code="forbidden")
        return "already_terminal"

    async def delete(self, response_id: str, principal: Principal) -> None:
        """Forget an ended, stored response. Raises `response_not_found`, `response_in_progress`, `forbidden`."""
        run = self._directory.live(response_id, principal)
        if run is not None and run.stored and run.phase != "ended":
            raise _in_progress()
        row = await self._directory.stored(response_id, principal)
        if run is None and row.terminal_number is None:  # another node has it
            raise _in_progress()
        if not principal.may_cancel(row.creator):
            raise RequestError("Only its creator or an operator may delete this response.", code="forbidden")
        await self._writer.submit(records.delete(response_id))
        self._directory.forget(response_id)
        self.deleted(response_id)
        if not self._bus.alone:
            await self._spread_delete(response_id)

    def deleted(self, response_id: str) -> None:
        """A response was deleted, here or on another node: nothing of it may be left in memory."""
        self._directory.forget_turn(response_id)
        self._keys.forget(response_id)

    async def _spread_delete(self, response_id: str) -> None:
        """The row is gone, so it is deleted; what Redis still has of its log expires by itself at the latest."""
        try:
            await self._journal.erase(response_id)
            await self._bus.publish(DELETED, response_id.encode())
        except BusError as error:
            log.warning("delete_not_spread", response_id=response_id, error=str(error))

    async def _exists(self, response_id: str, principal: Principal) -> bool:
        if await self._directory.find(response_id, principal) is not None:
            return True
        try:
            return not (await self._directory.stored(response_id, principal)).log_expired
        except RequestError:
            return False

    async def _begin(
        self,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None,
        key: KeyUse | None,
        response_id: str | None = None,
    ) -> Run:
        """Start the run, and with it the steers that waited for this create."""
        pending = self._pending_steers.claim(create)
        steered = pending.steers.items() if pending is not None else []
        try:
            run = await self._begin_run(create, principal, memory, key, response_id, steered)
        except BaseException:
            self._pending_steers.release(pending)
            raise
        self._pending_steers.commit(pending)
        return run

    async def _begin_run(
        self,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None,
        key: KeyUse | None,
        response_id: str | None,
        steered: Sequence[dict[str, Any]],
    ) -> Run:
        self._admit(principal)
        if create.request.stored and not self._bus.alone and not self._journal.healthy:
            raise StorageError(
                "The store takes nothing at present; send this again.", headers={"retry-after": "2"}
            )
        prepared = await self._preparer.prepare(create, principal, memory, steered)
        self._admit(principal)  # preparing may have waited, and a drain may have begun
        run = self._opener.open(create, principal, prepared, response_id or self._ids.mint("resp"))
        self._write_row(run, prepared, key, follows=response_id is not None)
        self._directory.add(run)
        self._receipt(run)
        if run.stored and (key is not None or run.create.origin == "background"):
            await self._make_durable(run)
        if run.request.is_warm_up:
            await self._supervisor.finish_warm_up(run)
            return run
        self._registry.start(run.state)
        self._supervisor.launch(run)
        return run

    async def _make_durable(self, run: Run) -> None:
        """Row and `response.created` are written before the answer; if they cannot be, the create is refused."""
        try:
            await self._journal.flush(run.log)
        except StorageError:
            self._journal.close(run.log)
            self._directory.forget(run.id)
            if run.create.idempotency_key is not None:
                self._keys.discard(run.principal, run.create.idempotency_key)
            raise

    def _admit(self, principal: Principal) -> None:
        if self.draining:
            message = "The server is shutting down; send this again to another one or in a moment."
            raise Draining(message)
        if not self._bus.held:
            raise BusError("This node cannot reach the others; send this again.", headers={"retry-after": "2"})
        if not principal.at_least("driver"):
            raise RequestError("This key may watch runs but not start them.", code="forbidden")

    def may_use(self, principal: Principal, model: str) -> bool:
        """Whether the caller's tenant may name this model (if it exists)."""
        return self._preparer.may_use(principal, model)

    def _write_row(self, run: Run, prepared: Prepared, key: KeyUse | None, *, follows: bool) -> None:
        record: IdempotencyRecord | None = None
        if key is not None and run.create.idempotency_key is not None:
            name = run.create.idempotency_key
            expires_at = self._keys.record(run.principal, name, key.digest, run.id)
            who = (run.principal.tenant, run.principal.id)
            record = IdempotencyRecord(*who, name, key.digest, run.id, expires_at, key.replaces)
        if run.stored:
            self._opener.write_row(run, prepared, record, follows=follows)

    def _receipt(self, run: Run) -> None:
        request = run.request
        log.info(
            "create",
            response_id=run.id,
            tenant=run.principal.tenant,
            principal=run.principal.id,
            model=request.model,
            store=request.stored,
            stream=bool(request.stream),
            has_previous_response_id=request.previous_response_id is not None,
            has_conversation=request.conversation is not None,
            tools=len(request.tools or ()),
        )


def _in_progress() -> RequestError:
    message = "This response has not ended; cancel it first."
    return RequestError(message, code="response_in_progress", param="response_id")
