"""Claims of held calls: a client says that it works on one, and keeps the others from it for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from antiphon.core.held_calls import Claim, HeldCalls, Sender, run_is_over
from antiphon.core.principal import Principal
from antiphon.errors import BusError, Draining, RequestError
from antiphon.journal.contract import Journal
from antiphon.ports import Clock
from antiphon.runs.directory import RunDirectory
from antiphon.runs.run import Run
from antiphon.store import held_results
from antiphon.store.writing import Writer


class HeldClaims:
    """Claims on the held calls of all live runs. lease_s: of a claim that names none. changed: called after each
    change."""

    def __init__(
        self,
        directory: RunDirectory,
        journal: Journal,
        writer: Writer,
        clock: Clock,
        lease_s: float,
        changed: Callable[[Run], None],
    ) -> None:
        self._directory = directory
        self._journal = journal
        self._writer = writer
        self._clock = clock
        self._lease_s = lease_s
        self._changed = changed
        self.made: Counter[str] = Counter()
        """Claims since the start: `claimed`, `renewed`, `released`."""

    async def claim(
        self,
        response_id: str,
        call_id: str,
        sender: Sender,
        principal: Principal,
        *,
        lease_ms: int | None = None,
        fence: int | None = None,
    ) -> Claim:
        """Take a call for a while. lease_ms: None for the default.

        Raises RequestError as `HeldCalls.claim` does, `response_not_found` and `forbidden`; StorageError
        and Draining.
        """
        run, held = await self._claimable(response_id, principal)
        eligible = self._is_asked(run, held, call_id, sender)
        claim = held.claim(
            call_id, sender, self._lease(lease_ms), self._clock.now(), eligible=eligible, fence=fence
        )
        self.made["claimed"] += 1
        await self._keep(run, call_id, claim)
        return claim

    async def renew(
        self,
        response_id: str,
        call_id: str,
        sender: Sender,
        principal: Principal,
        *,
        fence: int,
        lease_ms: int | None = None,
    ) -> Claim:
        """Go on with a claim. Raises as `claim`."""
        run, held = await self._claimable(response_id, principal)
        claim = held.renew(call_id, sender, fence, self._lease(lease_ms), self._clock.now())
        self.made["renewed"] += 1
        await self._keep(run, call_id, claim)
        return claim

    async def release(
        self, response_id: str, call_id: str, sender: Sender, principal: Principal, *, fence: int
    ) -> None:
        """Give a call back, undone. Raises as `claim`."""
        run, held = await self._claimable(response_id, principal)
        claim = held.release(call_id, sender, fence)
        self.made["released"] += 1
        await self._keep(run, call_id, claim)

    def _lease(self, lease_ms: int | None) -> float:
        return self._lease_s if lease_ms is None else lease_ms / 1000

    async def _keep(self, run: Run, call_id: str, claim: Claim) -> None:
        """Fences rise over restarts too, and a lease outlives them. Raises StorageError; then ask again."""
        self._changed(run)
        if run.stored:
            await self._journal.flush(run.log)  # a claim that is kept needs its call, and the run that waits
            await self._writer.submit(held_results.keep_claim(run.id, call_id, claim))

    async def _claimable(self, response_id: str, principal: Principal) -> tuple[Run, HeldCalls]:
        run = self._directory.live(response_id, principal)
        if run is None:
            await self._directory.stored(response_id, principal)
        check_role(principal)
        if run is None:
            raise run_is_over()
        refuse_suspended(run)
        refuse_held_back(self._journal, run)
        return run, calls_of(run)

    def _is_asked(self, run: Run, held: HeldCalls, call_id: str, sender: Sender) -> bool:
        call = next((call for call in held.pending if call.call_id == call_id), None)
        if call is None:
            return False
        could = {participant.identity for participant in run.roster.asked(call.tool, run.state.labels)}
        if run.roster.is_creator(sender.identity):
            could.add(sender.identity)
        return sender.identity in held.ask(call_id, could)


def calls_of(run: Run) -> HeldCalls:
    """The held calls of a run, closed where its end is decided."""
    held = run.held if run.held is not None else HeldCalls()
    if run.phase != "streaming" or run.stop is not None:
        held.close()
    return held


def refuse_held_back(journal: Journal, run: Run) -> None:
    """Raises BusError while this node cannot say whether the run is still its own: nobody waits for that."""
    if journal.holds_back(run.log):
        raise BusError(
            "This node cannot reach the others and does not know whether it still has the run; try again.",
            headers={"retry-after": "2"},
        )


def refuse_suspended(run: Run) -> None:
    """Raises Draining for a run that another process will go on with."""
    if run.suspended:
        raise Draining("The server is shutting down while this run waits; send this again when it is back.")


def check_role(principal: Principal) -> None:
    """Raises RequestError `forbidden` for who may only watch."""
    if not principal.at_least("driver"):
        raise RequestError("This key may watch runs but not answer their calls.", code="forbidden")
