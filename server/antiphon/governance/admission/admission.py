"""Admission: what a run has to pass before anything else happens, as one atomic reservation."""

from __future__ import annotations

from antiphon.core.principal import Principal
from antiphon.core.quotas import FINAL, Ask, Ballot, Policy, check_agents, decide
from antiphon.errors import RequestError
from antiphon.governance.admission.journal_bytes import JournalBytes
from antiphon.governance.admission.ledger import Ledger
from antiphon.governance.admission.limits import Claim, Limits
from antiphon.governance.admission.reservation import Reservation
from antiphon.governance.usage.write_behind import WriteBehind
from antiphon.ports import Clock
from antiphon.store.usage import AdmittedRow


class Admission:
    """The policies vote, all of them; the ledger's quota is asked last, and takes what it allows in one step.

    policies: asked in their order. Of several denials the first is told.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        ledger: Ledger,
        rows: WriteBehind,
        journal_bytes: JournalBytes,
        clock: Clock,
        policies: list[Policy],
    ) -> None:
        self._limits = limits
        self._ledger = ledger
        self._rows = rows
        self._journal_bytes = journal_bytes
        self._clock = clock
        self._live: dict[str, Reservation] = {}
        self.policies = [*policies, may_start]

    async def reserve(
        self, principal: Principal, run_id: str, *, agent: str | None, warm_up: bool = False
    ) -> Reservation:
        """Take what the run needs. warm_up: the run calls no model, and needs nothing.

        Raises AntiphonError `emergency_stop`, `tenant_paused`; RequestError `forbidden`, `quota_exceeded`,
        `budget_exceeded`, `too_many_runs`; StorageError if nobody can say. Then, and when it is cancelled, nothing
        is taken.
        """
        ask = Ask(principal, run_id, agent)
        decide([policy(ask) for policy in self.policies])
        at = self._clock.now()
        if warm_up:
            return self._reservation(_nothing(principal.tenant, run_id, at), None)
        claim = self._limits.claim(principal, run_id, agent, at)
        most = self._limits.quota(principal.tenant, principal.tier).journal_bytes
        if most is not None:
            await self._journal_bytes.check(principal.tenant, most)
        if not claim.is_free:
            await self._ledger.reserve(claim)
        return self._reservation(claim, AdmittedRow(run_id, principal.tenant, principal.id, agent, at))

    def take_over(self, principal: Principal, run_id: str, *, agent: str | None) -> Reservation:
        """A run that another process began goes on here: it has its slot, and its unit is spent. Again, for a run
        that has its reservation here, it gives that one."""
        known = self._live.get(run_id)
        if known is not None:
            return known
        at = self._clock.now()
        try:
            claim = self._limits.claim(principal, run_id, agent, at)
        except RequestError:  # its tier is no longer there; it was when the run began
            claim = _nothing(principal.tenant, run_id, at)
        if not claim.is_free:
            self._ledger.hold(principal.tenant, run_id)
        reservation = self._reservation(claim, None)
        reservation.commit()
        return reservation

    def ended(self, tenant: str, run_id: str) -> None:
        """A run whose process is gone has ended without going on: its slot is free."""
        self._ledger.end(_nothing(tenant, run_id, self._clock.now()))

    def check_agents(self, principal: Principal, count: int) -> None:
        """Whether the tenant, which has `count` agents of its own, may have one more. Raises RequestError."""
        check_agents(self._limits.quota(principal.tenant, principal.tier), count)

    def called(self, run_id: str) -> None:
        """A model is called for a run: its unit is spent."""
        reservation = self._live.get(run_id)
        if reservation is not None:
            reservation.called = True

    def is_live(self, run_id: str) -> bool:
        """Whether a run of this process has a reservation that is not over."""
        return run_id in self._live

    def _reservation(self, claim: Claim, row: AdmittedRow | None) -> Reservation:
        reservation = Reservation(claim, row, self._ledger, self._rows, self._forget)
        self._live[claim.run_id] = reservation
        return reservation

    def _forget(self, run_id: str) -> None:
        self._live.pop(run_id, None)


def may_start(ask: Ask) -> Ballot:
    """The scope of the credential."""
    if ask.principal.at_least("driver"):
        return "allow"
    return RequestError("This key may watch runs but not start them.", code="forbidden", headers=dict(FINAL))


def _nothing(tenant: str, run_id: str, at: float) -> Claim:
    return Claim(tenant, run_id, (), (), None, at)
