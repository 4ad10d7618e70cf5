"""Who counts what a tenant uses: one process by itself, or several over Redis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from antiphon.core.budgets import BudgetAlert, Spender, Spending
from antiphon.core.quotas import Check
from antiphon.governance.admission.limits import Claim


class Ledger(Protocol):
    """Counters, and the slots of runs that are going on. What does not wait never raises.

    A claim that `is_free` needs no ledger and is given to none, but to `end` where a run may have had a slot.
    on_alert: called when a budget reaches 80 %, once per budget, tenant and period.
    """

    on_alert: Callable[[BudgetAlert], None]

    async def reserve(self, claim: Claim) -> None:
        """Take everything the claim wants, in one step, or nothing. Cancelled or failed, it has taken nothing.

        Raises RequestError with what stands in the way, StorageError if that cannot be known.
        """
        ...

    def commit(self, claim: Claim) -> None:
        """The run has begun: the reservation no longer runs out."""
        ...

    def give_back(self, claim: Claim) -> None:
        """The run did not begin, or called no model: its units and its slot are free."""
        ...

    def end(self, claim: Claim) -> None:
        """The run is over: its slot is free."""
        ...

    def hold(self, tenant: str, run_id: str) -> None:
        """A run that is going on has its slot, whatever the limit says."""
        ...

    def let_go(self, run_id: str) -> None:
        """Another node goes on with the run, and with its slot."""
        ...

    def spend(self, spender: Spender, step: str, spendings: Sequence[Spending], at: float) -> None:
        """A call of a model, once per run and step. at: Unix seconds."""
        ...

    def unspend(self, tenant: str, spendings: Sequence[Spending]) -> None:
        """A call turns out to have been counted by a process before this one."""
        ...

    async def first_over(self, tenant: str, checks: Sequence[Check], at: float) -> Check | None:
        """The first of the checks that does not hold. Raises StorageError."""
        ...

    async def set_standing(self, scope: str, revision: int, held: bool) -> None:
        """Have reservations of a scope refused from here on, or no longer, by every node. Raises BusError."""
        ...

    def start(self) -> None:
        """Begin to work; call it in the event loop."""
        ...

    async def aclose(self) -> None:
        """Send what is left. Never raises."""
        ...
