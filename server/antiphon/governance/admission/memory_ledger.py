"""The ledger of one machine: everything in memory, made from the rows when a tenant is first asked for."""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from antiphon.core.budgets import BudgetAlert, Spender, Spending
from antiphon.core.periods import start_of
from antiphon.core.quotas import Check, refuse_slot
from antiphon.governance.admission.limits import Claim, Limits
from antiphon.governance.usage.write_behind import WriteBehind

_TENANTS = 10_000
"""Whose counters are remembered while they do nothing. Those of others are made from the rows when they return."""


@dataclass(slots=True)
class _Tally:
    """Counters of a tenant in one month. counting: until the rows of before are in it."""

    month: int
    values: dict[str, int] = field(default_factory=dict)
    counting: asyncio.Task[None] | None = None

    def add(self, counter: str, amount: int) -> int:
        """Gives what it was before."""
        before = self.values.get(counter, 0)
        self.values[counter] = before + amount
        return before


class MemoryLedger:
    """See `Ledger`."""

    def __init__(self, limits: Limits, rows: WriteBehind) -> None:
        self._limits = limits
        self._rows = rows
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()
        """The tenants that were asked for last stand last."""
        self._slots: dict[str, set[str]] = {}
        self._tenant_of: dict[str, str] = {}
        """By run that has a slot."""
        self.on_alert: Callable[[BudgetAlert], None] = lambda alert: None

    async def reserve(self, claim: Claim) -> None:
        tally = await self._tally(claim.tenant, claim.at)
        # From here on nothing waits, so that nobody comes in between.
        for check in claim.checks:
            if tally.values.get(check.counter, 0) >= check.limit:
                raise check.refusal(claim.at)
        if claim.slots is not None and len(self._slots.get(claim.tenant, ())) >= claim.slots:
            raise refuse_slot()
        for counter in claim.takes:
            tally.add(counter, 1)
        self.hold(claim.tenant, claim.run_id)

    def commit(self, claim: Claim) -> None:
        """It cannot run out here: this process ends with it."""

    def give_back(self, claim: Claim) -> None:
        tally = self._tallies.get(claim.tenant)
        for counter in claim.takes:
            if tally is not None and counter in tally.values:
                tally.add(counter, -1)
        self.end(claim)

    def end(self, claim: Claim) -> None:
        self.let_go(claim.run_id)

    def hold(self, tenant: str, run_id: str) -> None:
        self._slots.setdefault(tenant, set()).add(run_id)
        self._tenant_of[run_id] = tenant

    def let_go(self, run_id: str) -> None:
        tenant = self._tenant_of.pop(run_id, None)
        if tenant is not None:
            slots = self._slots[tenant]
            slots.discard(run_id)
            if not slots:
                del self._slots[tenant]

    def spend(self, spender: Spender, step: str, spendings: Sequence[Spending], at: float) -> None:
        tally = self._tallies.get(spender.tenant)
        if tally is None:
            return  # its rows will be counted once somebody asks
        for spending in spendings:
            before = tally.add(spending.counter, spending.amount)
            alert = spending.alert(spender, before) if tally.counting is None else None
            if alert is not None:
                self.on_alert(alert)

    def unspend(self, tenant: str, spendings: Sequence[Spending]) -> None:
        tally = self._tallies.get(tenant)
        for spending in spendings:
            if tally is not None:
                tally.add(spending.counter, -spending.amount)

    async def first_over(self, tenant: str, checks: Sequence[Check], at: float) -> Check | None:
        values = (await self._tally(tenant, at)).values
        return next((check for check in checks if values.get(check.counter, 0) >= check.limit), None)

    async def set_standing(self, scope: str, revision: int, held: bool) -> None:
        """This process is the only one, and knows."""

    def start(self) -> None:
        """There is nothing to begin."""

    async def aclose(self) -> None:
        for tally in self._tallies.values():
            if tally.counting is not None:
                await asyncio.wait([tally.counting])

    async def _tally(self, tenant: str, at: float) -> _Tally:
        month = start_of("month", at)
        tally = self._tallies.get(tenant)
        if tally is None or tally.month < month:
            self._forget_idle()
            tally = self._tallies[tenant] = self._begin(tenant, month, at)
        self._tallies.move_to_end(tenant)
        if tally.counting is not None:
            await asyncio.shield(tally.counting)
        return tally

    def _forget_idle(self) -> None:
        """Make room. A tenant with a slot stays: what it has reserved is in no row yet."""
        over = len(self._tallies) - _TENANTS
        if over < 0:
            return
        idle = (
            tenant
            for tenant, tally in self._tallies.items()
            if tenant not in self._slots and tally.counting is None
        )
        for tenant in list(itertools.islice(idle, over + 1)):
            del self._tallies[tenant]

    def _begin(self, tenant: str, month: int, at: float) -> _Tally:
        """What happens from this moment on is added here, what happened before is in the rows."""
        tally = _Tally(month)
        counted = self._rows.count(tenant, self._limits.counters(tenant, at))

        async def count() -> None:
            try:
                for counter, value in (await counted).items():
                    tally.add(counter, value)
            except BaseException:
                self._tallies.pop(tenant, None)  # the next one tries again
                raise
            tally.counting = None

        tally.counting = asyncio.get_running_loop().create_task(count(), name=f"counting usage of {tenant}")
        return tally
