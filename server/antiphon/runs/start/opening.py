"""Making a run: its log, its first events, its row. New ones, and ones that another process began."""

from __future__ import annotations

import orjson

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.response_object import ResponseObject
from antiphon.core.cursor import Epochs
from antiphon.core.history import encode_history
from antiphon.core.participants import Roster, identity
from antiphon.core.principal import Principal
from antiphon.core.run_state import RunState
from antiphon.journal.contract import Journal
from antiphon.ports import Clock, Ids
from antiphon.runs.run import Create, Loop, Run
from antiphon.runs.start.pipeline import Prepared, conversation_of
from antiphon.settings import Settings
from antiphon.store.records import IdempotencyRecord, NewResponse


class RunOpener:
    """Builds runs."""

    def __init__(self, settings: Settings, journal: Journal, clock: Clock, ids: Ids) -> None:
        self._settings = settings
        self._journal = journal
        self._clock = clock
        self._ids = ids

    def open(self, principal: Principal, prepared: Prepared, response_id: str) -> Run:
        """A new run whose log holds `response.created`."""
        create = prepared.create
        request = create.request
        now = self._clock.now()
        parent = prepared.parent
        calls_first = bool(prepared.approvals) and not prepared.ends_in_calls
        epochs = Epochs.starting(self._ids.token())
        state = RunState(
            response_id=response_id,
            conversation_id=conversation_of(prepared.conversation, parent) or self._ids.mint("conv"),
            tenant=principal.tenant,
            principal=principal.id,
            model=prepared.model.name,
            upstream=prepared.model.upstream.name,
            origin=create.origin,
            epoch=epochs.current,
            created_at=now,
            updated_at=now,
            labels=request.antiphon.labels,
            visibility=request.antiphon.visibility,
            agent=prepared.agent.name,
            agent_source=prepared.agent.source,
            traceparent=create.traceparent,
        )
        run_log = self._journal.open(response_id, epochs, stored=request.stored, state=state)
        run = Run(
            id=response_id,
            create=create,
            principal=principal,
            model=prepared.model,
            parent=parent,
            # Behind calls that have to be made first, the input is part of what the run adds.
            input=b"" if calls_first else prepared.input,
            log=run_log,
            assembler=self.assembler(response_id, int(now), create),
            state=state,
            abandon_s=self.abandon_s(create),
            loop=Loop(
                declared=prepared.declared,
                approvals=prepared.approvals,
                after_approvals=prepared.input if calls_first else b"",
            ),
            resumable=prepared.kept is not None,
            roster=self.roster(create, principal),
            agent=prepared.agent,
            asked=prepared.asked,
            passage=prepared.passage,
        )
        self._journal.append(run_log, _first_events(run), 0)
        state.head = run_log.head
        return run

    def assembler(self, response_id: str, created_at: int, create: Create) -> Assembler:
        """What writes the run's events."""
        decided = {"store": create.request.stored, "model": create.request.model}
        response = ResponseObject(response_id, created_at, {**create.raw, **decided})
        return Assembler(response, self._ids.mint)

    def roster(self, create: Create, principal: Principal) -> Roster:
        """Nobody is attached yet, but an instance that created the run is its creator wherever it turns up."""
        roster = Roster()
        if create.instance is not None:
            roster.created_by(identity(principal.id, "", create.instance))
        return roster

    def write_row(
        self, run: Run, prepared: Prepared, key: IdempotencyRecord | None, *, follows: bool = False
    ) -> None:
        """Have the row of a stored run written, together with its first events. follows: it was announced."""
        parent, named = prepared.parent, prepared.conversation
        context: bytes | None = run.input if run.input != prepared.client_input else None
        if parent is not None and not parent.stored:
            # The parent will be gone: this row has to stand alone.
            context, parent = encode_history(parent, run.input)[1:-1], None
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
            item_ids=prepared.item_ids,
            request=prepared.kept if run.resumable else None,
            follows=follows,
            writes=(named.id, named.revision) if named is not None else None,
        )
        self._journal.begin(run.log, row, key)

    def abandon_s(self, create: Create) -> float | None:
        """Seconds the run outlives its last listener; None: for ever.

        A run that holds its calls waits for whoever comes, so it does not end with its creator (PROTOCOL 8.5.2).
        """
        options = create.request.antiphon
        wish = options.on_disconnect
        if isinstance(wish, float):
            return wish
        if wish is None and create.origin in ("http", "sse") and options.client_tools != "hold":
            return self._settings.timeouts.http_abandon_s
        return None


def _first_events(run: Run) -> list[bytes]:
    if run.create.origin == "background":
        return [run.assembler.lifecycle(f"response.{name}", "queued") for name in ("created", "queued")]
    return [run.assembler.lifecycle(f"response.{name}", "in_progress") for name in ("created", "in_progress")]
