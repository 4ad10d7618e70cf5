"""Pause of a tenant and emergency stop of everybody: kept in the store, known on every node within seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from antiphon.bus.tasks import end_tasks
from antiphon.core.principal import Principal
from antiphon.core.quotas import FINAL, Ask, Ballot
from antiphon.errors import BusError, RequestError, StorageError
from antiphon.governance.admission.refusals import refuse_held
from antiphon.governance.audit import Audit
from antiphon.ports import Bus
from antiphon.store import standing
from antiphon.store.standing import EVERYBODY, ScopeStanding
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

CHANGED = "antiphon:v1:{standing}:hint"
"""Channel on which a node says that it changed something."""
READ_AGAIN_S = 2.0
"""How often the store is read without a hint: what is changed binds on every node within 5 s."""


class Marks(Protocol):
    """Where other nodes see a change before they have read it."""

    async def set_standing(self, scope: str, revision: int, held: bool) -> None: ...


class Standing:
    """How tenants and the server stand. on_stop: called with a tenant, or with None for all, when what runs is to
    be cancelled; once for each stop, on every node."""

    def __init__(self, writer: Writer, bus: Bus, marks: Marks, audit: Audit) -> None:
        self._writer = writer
        self._bus = bus
        self._marks = marks
        self._audit = audit
        self._held: dict[str, ScopeStanding] = {}
        self._revision = 0
        self._unmarked: dict[str, ScopeStanding] = {}
        """Changes that are to be marked on the bus."""
        self._hinted = asyncio.Event()
        self._reading = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.on_stop: Callable[[str | None], None] = lambda tenant: None

    def ballot(self, ask: Ask) -> Ballot:
        """What it says to a new run: a policy."""
        if EVERYBODY in self._held:
            return refuse_held(everybody=True)
        return refuse_held(everybody=False) if ask.principal.tenant in self._held else "abstain"

    def cancels(self, tenant: str) -> bool:
        """Whether what runs for a tenant is to end."""
        return any(scope in self._held and self._held[scope].cancel for scope in (EVERYBODY, tenant))

    def paused(self, tenant: str) -> bool:
        return tenant in self._held

    @property
    def held_tenants(self) -> frozenset[str]:
        """The tenants that are paused."""
        return frozenset(self._held) - {EVERYBODY}

    @property
    def stopped(self) -> bool:
        """Whether there is an emergency stop."""
        return EVERYBODY in self._held

    async def pause(self, principal: Principal, tenant: str, *, cancel: bool = False) -> None:
        """Nothing of the tenant is started any more. cancel: what runs ends.

        Raises RequestError `forbidden` for what an admin has paused and others want to change, StorageError.
        """
        await self._change(principal, "tenant.pause", tenant, held=True, cancel=cancel)

    async def resume(self, principal: Principal, tenant: str) -> None:
        """End of `pause`. Raises as it does."""
        await self._change(principal, "tenant.resume", tenant, held=False)

    async def stop(self, principal: Principal, *, cancel: bool = False) -> None:
        """Nothing is started any more, for nobody. cancel: what runs ends. Raises StorageError."""
        await self._change(principal, "server.stop", EVERYBODY, held=True, cancel=cancel)

    async def start_again(self, principal: Principal) -> None:
        """End of `stop`. Raises StorageError."""
        await self._change(principal, "server.start", EVERYBODY, held=False)

    async def start(self) -> None:
        """Read how things stand, and keep knowing it. Raises StorageError."""
        await self.read()
        if not self._bus.alone:
            await self._bus.subscribe(CHANGED, lambda _: self._hinted.set())
            self._tasks.append(asyncio.create_task(self._read_forever(), name="standing"))

    async def aclose(self) -> None:
        await end_tasks(self._tasks)
        self._tasks.clear()

    async def read(self) -> None:
        """Take over what was changed, here or elsewhere. Raises StorageError."""
        async with self._reading:
            for scope in await self._writer.submit(standing.changed_since(self._revision)):
                self._apply(scope)
            for scope in list(self._unmarked.values()):
                await self._mark(scope)

    async def _change(
        self, principal: Principal, action: str, scope: str, *, held: bool, cancel: bool = False
    ) -> None:
        await self.read()
        by_admin, known = principal.at_least("admin"), self._held.get(scope)
        if known is not None and known.by_admin and not by_admin:
            raise RequestError(
                "An administrator has paused this tenant, and only one can change that.",
                code="forbidden",
                headers=dict(FINAL),
            )
        target = "server" if scope == EVERYBODY else f"tenant:{scope}"
        work = standing.change(scope, held=held, cancel=cancel, by_admin=by_admin)
        await self._audit.record_with(principal, action, target, {"cancel": cancel}, work)
        await self.read()  # with what others changed before, in the order of the revisions
        if not self._bus.alone:
            await _quietly(self._bus.publish(CHANGED, b""))

    def _apply(self, scope: ScopeStanding) -> None:
        self._revision = scope.revision
        self._unmarked[scope.scope] = scope
        if not scope.held:
            self._held.pop(scope.scope, None)
            return
        self._held[scope.scope] = scope
        if scope.cancel:
            self.on_stop(None if scope.scope == EVERYBODY else scope.scope)

    async def _mark(self, scope: ScopeStanding) -> None:
        try:
            await self._marks.set_standing(scope.scope, scope.revision, scope.held)
        except BusError as error:
            log.warning("standing_not_marked", error=str(error))
            return
        if self._unmarked.get(scope.scope) == scope:
            del self._unmarked[scope.scope]

    async def _read_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(READ_AGAIN_S):
                    await self._hinted.wait()
            except TimeoutError:
                pass
            self._hinted.clear()
            try:
                await self.read()
            except StorageError as error:
                log.warning("standing_not_read", error=str(error.__cause__ or error))


async def _quietly(sending: Awaitable[None]) -> None:
    """A hint that is lost costs the others two seconds."""
    try:
        await sending
    except BusError as error:
        log.warning("standing_not_hinted", error=str(error))
