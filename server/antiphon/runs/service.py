"""The one door: every run starts here, whatever transport its create came through."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from antiphon.core.assembly.outcome import cancelled
from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.principal import Principal
from antiphon.core.response_ids import made_at
from antiphon.errors import BusError, RequestError
from antiphon.hooks import SkillDispatch
from antiphon.journal.contract import Journal
from antiphon.ports import Bus, Clock, Ids
from antiphon.runs.directory import RunDirectory
from antiphon.runs.held.claims import refuse_suspended
from antiphon.runs.run import Create, Followed, Run
from antiphon.runs.start.idempotency import IdempotencyKeys, KeyUse, body_digest
from antiphon.runs.start.starter import RunStarter
from antiphon.runs.supervisor import Supervisor
from antiphon.store import records
from antiphon.store.records import KeyTaken
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
        starter: RunStarter,
        journal: Journal,
        bus: Bus,
        directory: RunDirectory,
        supervisor: Supervisor,
        keys: IdempotencyKeys,
        writer: Writer,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._starter = starter
        self._journal = journal
        self._bus = bus
        self._directory = directory
        self._supervisor = supervisor
        self._keys = keys
        self._writer = writer
        self._clock = clock
        self._ids = ids

    @property
    def draining(self) -> bool:
        """Whether nothing is started any more, because the server goes away."""
        return self._starter.draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._starter.draining = draining

    def mint(self) -> str:
        """The id of a run that is about to be started: that of its response, in every event, row and line."""
        return self._ids.mint("resp")

    async def start(
        self,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None = None,
        *,
        response_id: str | None = None,
        skill: SkillDispatch | None = None,
    ) -> Started:
        """Admit a create and start its run; the log then holds `response.created`.

        memory: the connection's own, for continuing `store: false` responses. response_id: reserved for this run.
        skill: executed in a model's place; its run id was minted here.
        Raises AntiphonError; then nothing was started and nothing is left behind.
        """
        run_id = skill.run_id if skill is not None else response_id or self.mint()
        key = create.idempotency_key
        if key is None:
            run = await self._starter.begin(
                run_id, create, principal, memory, follows=response_id is not None, skill=skill
            )
            return Started(run.id, run, True)
        async with self._keys.lock(principal, key):
            digest = body_digest(create.raw)
            known = await self._keys.find(principal, key, digest)
            if known is not None and await self._exists(known, principal):
                return Started(known, self._directory.live(known, principal), False)
            use = KeyUse(digest, known)
            if not create.request.stored:
                return await self._start_unstored(run_id, create, principal, memory, key, use)
            try:
                run = await self._starter.begin(run_id, create, principal, memory, key=use, skill=skill)
            except KeyTaken:
                # The same create came to another node, which was faster: its run is the one.
                known = await self._keys.find(principal, key, digest)
                if known is None:
                    raise
                return Started(known, self._directory.live(known, principal), False)
            return Started(run.id, run, True)

    async def _start_unstored(
        self,
        run_id: str,
        create: Create,
        principal: Principal,
        memory: ConnectionMemory | None,
        key: str,
        use: KeyUse,
    ) -> Started:
        """A keyed create whose run has no row: which node is first is decided before it begins."""
        known = await self._keys.reserve(principal, key, use.digest, run_id)
        if known is not None:
            if await self._exists(known, principal):
                return Started(known, self._directory.live(known, principal), False)
            if self._clock.now() - (made_at(known) or 0.0) < _RESERVED_S:
                raise BusError(
                    "The same create is being started now; send this again.", headers={"retry-after": "2"}
                )
            await self._keys.give_back(principal, key, use.digest, known)
            if (known := await self._keys.reserve(principal, key, use.digest, run_id)) is not None:
                return Started(known, self._directory.live(known, principal), False)
        try:
            run = await self._starter.begin(run_id, create, principal, memory, key=use)
        except BaseException:
            await self._keys.give_back(principal, key, use.digest, run_id)
            raise
        return Started(run.id, run, True)

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


def _in_progress() -> RequestError:
    message = "This response has not ended; cancel it first."
    return RequestError(message, code="response_in_progress", param="response_id")
