"""The one door: every run starts here, whatever transport its create came through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
import structlog

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.outcome import cancelled
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.cursor import Epochs
from antiphon.core.history import Turn, check_continuable, encode_history, encode_items, resolve_outputs
from antiphon.core.principal import Principal
from antiphon.core.run_state import RunState
from antiphon.errors import Draining, RequestError, StorageError
from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock, Ids
from antiphon.runs.directory import RunDirectory
from antiphon.runs.idempotency import IdempotencyKeys, body_digest
from antiphon.runs.run import Create, Model, Run
from antiphon.runs.supervisor import Supervisor
from antiphon.settings import Settings, TenantSettings
from antiphon.store import records
from antiphon.store.records import IdempotencyRecord, NewResponse
from antiphon.store.writer import SqliteWriter
from antiphon.upstream.router import UpstreamRouter, no_model

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    """What a create became. fresh: False if an idempotency key found a run that was started before."""

    response_id: str
    run: Run | None
    fresh: bool


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Everything decided before anything exists."""

    parent: Turn | None
    input: bytes
    """As the upstream gets it."""
    client_input: bytes
    model: Model


class RunService:
    """Starts, cancels and deletes runs."""

    def __init__(
        self,
        *,
        settings: Settings,
        router: UpstreamRouter,
        journal: SqliteJournal,
        registry: RunRegistry,
        directory: RunDirectory,
        supervisor: Supervisor,
        keys: IdempotencyKeys,
        writer: SqliteWriter,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._router = router
        self._journal = journal
        self._registry = registry
        self._directory = directory
        self._supervisor = supervisor
        self._keys = keys
        self._clock = clock
        self._ids = ids
        self._tenants: Mapping[str, TenantSettings] = {tenant.id: tenant for tenant in settings.tenant}
        self.draining = False

    async def start(self, create: Create, principal: Principal, memory: ConnectionMemory | None = None) -> Started:
        """Admit a create and start its run; the log then holds `response.created`.

        memory: the connection's own, for continuing `store: false` responses. Raises AntiphonError; then nothing
        was started and nothing is left behind.
        """
        key = create.idempotency_key
        if key is None:
            return Started((run := await self._begin(create, principal, memory, None)).id, run, True)
        async with self._keys.lock(principal, key):
            digest = body_digest(create.raw)
            known = await self._keys.find(principal, key, digest)
            if known is not None and await self._exists(known, principal):
                return Started(known, self._directory.live(known, principal), False)
            run = await self._begin(create, principal, memory, digest)
            return Started(run.id, run, True)

    def cancel(self, run: Run, principal: Principal, reason: str | None = None) -> str:
        """Stop a live run the principal may see: `accepted`, or `already_terminal` if its end is decided.

        Raises RequestError `forbidden`.
        """
        if not principal.may_cancel(run.principal.id):
            raise RequestError("Only its creator or an operator may cancel this run.", code="forbidden")
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
            raise RequestError(
                "This response has not ended; cancel it first.", code="response_in_progress", param="response_id"
            )
        row = await self._directory.stored(response_id, principal)
        if not principal.may_cancel(row.creator):
            raise RequestError("Only its creator or an operator may delete this response.", code="forbidden")
        await self._writer.submit(records.delete(response_id))
        self._directory.forget(response_id)
        self._directory.forget_turn(response_id)

    async def _exists(self, response_id: str, principal: Principal) -> bool:
        if self._directory.live(response_id, principal) is not None:
            return True
        try:
            await self._directory.stored(response_id, principal)
        except RequestError:
            return False
        return await self._directory.has_log(response_id)

    async def _begin(
        self, create: Create, principal: Principal, memory: ConnectionMemory | None, digest: bytes | None
    ) -> Run:
        self._admit(principal)
        prepared = await self._prepare(create, principal, memory)
        self._admit(principal)  # preparing may have waited, and a drain may have begun
        run = self._open(create, principal, prepared)
        self._write_row(run, prepared, digest)
        self._directory.add(run)
        self._receipt(run)
        if run.request.is_warm_up:
            await self._supervisor.finish_warm_up(run)
            return run
        if run.stored and (digest is not None or run.create.origin == "background"):
            await self._make_durable(run)
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
        if not principal.at_least("driver"):
            raise RequestError("This key may watch runs but not start them.", code="forbidden")

    async def _prepare(self, create: Create, principal: Principal, memory: ConnectionMemory | None) -> _Prepared:
        request = create.request
        parent = await self._parent(request.previous_response_id, principal, memory)
        items = request.items()
        if parent is not None:
            check_continuable(parent)
        mapped = resolve_outputs(parent, items)
        client_input = encode_items(items)
        same = all(a is b for a, b in zip(items, mapped, strict=True))
        model = await self._model(create, principal)
        try:
            orjson.dumps(create.raw)
        except TypeError as error:
            raise RequestError(f"The request cannot be kept: {error}.", code="invalid_json") from error
        return _Prepared(parent, client_input if same else encode_items(mapped), client_input, model)

    async def _parent(
        self, response_id: str | None, principal: Principal, memory: ConnectionMemory | None
    ) -> Turn | None:
        if response_id is None:
            return None
        turn = memory.find(response_id) if memory is not None else None
        if turn is None or turn.stored:  # a stored one may have been deleted since
            turn = await self._directory.parent(response_id, principal)
        if turn is None:
            raise RequestError(
                f"Previous response with id '{response_id[:80]}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return turn

    async def _model(self, create: Create, principal: Principal) -> Model:
        name = create.request.model
        if not self.may_use(principal, name):
            raise no_model(name)
        upstream, upstream_name, settings = await self._router.resolve(name)
        if create.caller_token is not None and (settings is None or not settings.caller_key):
            raise RequestError(
                f"The upstream of '{name[:80]}' does not take tokens of callers.",
                param="antiphon.upstream_authorization",
            )
        return Model(upstream, upstream_name, settings)

    def may_use(self, principal: Principal, model: str) -> bool:
        """Whether the caller's tenant may name this model (if it exists)."""
        tenant = self._tenants.get(principal.tenant)
        return tenant is None or tenant.models is None or model in tenant.models

    def _open(self, create: Create, principal: Principal, prepared: _Prepared) -> Run:
        request = create.request
        response_id = self._ids.mint("resp")
        now = self._clock.now()
        parent = prepared.parent
        response = ResponseObject(response_id, int(now), {**create.raw, "store": request.stored})
        assembler = Assembler(response, self._ids.mint)
        epochs = Epochs.starting(self._ids.token())
        run_log = self._journal.open(response_id, epochs, stored=request.stored)
        state = RunState(
            response_id=response_id,
            conversation_id=parent.conversation_id if parent else self._ids.mint("conv"),
            tenant=principal.tenant,
            principal=principal.id,
            model=request.model,
            upstream=prepared.model.upstream.name,
            origin=create.origin,
            epoch=epochs.current,
            created_at=now,
            updated_at=now,
            labels=request.antiphon.labels,
            visibility=request.antiphon.visibility,
        )
        run = Run(
            id=response_id,
            create=create,
            principal=principal,
            model=prepared.model,
            parent=parent,
            input=prepared.input,
            log=run_log,
            assembler=assembler,
            state=state,
            abandon_s=self._abandon_s(create),
        )
        run_log.append(self._first_events(run), 0)
        state.head = run_log.head
        return run

    def _first_events(self, run: Run) -> list[bytes]:
        if run.create.origin == "background":
            return [run.assembler.lifecycle(f"response.{name}", "queued") for name in ("created", "queued")]
        return [run.assembler.lifecycle(f"response.{name}", "in_progress") for name in ("created", "in_progress")]

    def _write_row(self, run: Run, prepared: _Prepared, digest: bytes | None) -> None:
        key: IdempotencyRecord | None = None
        if digest is not None and run.create.idempotency_key is not None:
            name = run.create.idempotency_key
            expires_at = self._keys.record(run.principal, name, digest, run.id)
            key = IdempotencyRecord(run.principal.tenant, run.principal.id, name, digest, run.id, expires_at)
        if not run.stored:
            return
        parent = prepared.parent
        context: bytes | None = prepared.input if prepared.input != prepared.client_input else None
        if parent is not None and not parent.stored:
            # The parent will be gone: this row has to stand alone.
            context, parent = encode_history(parent, prepared.input)[1:-1], None
        row = NewResponse(
            id=run.id,
            tenant=run.principal.tenant,
            creator=run.principal.id,
            visibility=run.state.visibility,
            conversation_id=run.state.conversation_id,
            previous_response_id=parent.response_id if parent else None,
            status="queued" if run.create.origin == "background" else "in_progress",
            fence=run.fence,
            epochs=orjson.dumps(run.log.epochs.entries).decode(),
            created_at=run.state.created_at,
            input=prepared.client_input,
            context_input=context,
            response=run.response(),
            run_state=orjson.dumps(run.state.row()),
        )
        self._journal.begin(run.log, row, key)

    def _abandon_s(self, create: Create) -> float | None:
        wish = create.request.antiphon.on_disconnect
        if isinstance(wish, float):
            return wish
        if wish is None and create.origin in ("http", "sse"):
            return self._settings.timeouts.http_abandon_s
        return None

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
