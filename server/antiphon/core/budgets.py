"""Budgets of tokens and money: which of them a run falls under, and what a call adds to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from antiphon.core.periods import Period, adjective, start_of
from antiphon.core.quotas import Check

_ALERT_PERCENT = 80


@dataclass(frozen=True, slots=True)
class Spender:
    """On whose account a run goes. principal: its id. agent: its name, None for the built-in one."""

    run_id: str
    tenant: str
    principal: str
    agent: str | None
    tier: str


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be used in a period by the runs it is for. It is counted in each tenant by itself.

    tenant, agent, principal: whose runs; None: all. tokens, cost_nano: limits; None: of the other kind only.
    """

    period: Period
    tenant: str | None = None
    agent: str | None = None
    principal: str | None = None
    tokens: int | None = None
    cost_nano: int | None = None

    @property
    def scope(self) -> str:
        """What tells it from all others: `month tenant=acme agent=*`."""
        parts = (("tenant", self.tenant), ("agent", self.agent), ("principal", self.principal))
        return " ".join([self.period, *(f"{name}={value}" for name, value in parts if value is not None)])

    def covers(self, tenant: str, principal: str, agent: str | None) -> bool:
        """Whether a run counts here."""
        return (
            self.tenant in (None, tenant) and self.agent in (None, agent) and self.principal in (None, principal)
        )

    def counters(self, at: float) -> tuple[str, str]:
        """Names of what it used: tokens, and billionths of money."""
        name = f"budget:{self.scope}:{start_of(self.period, at)}"
        return f"{name}:tokens", f"{name}:cost"

    def checks(self, at: float) -> list[Check]:
        """What a run of it has to pass: nothing is started at the limit or over it."""
        message = f"{adjective(self.period)} budget exceeded"
        limits = zip(self.counters(at), (self.tokens, self.cost_nano), strict=True)
        return [
            Check(counter, limit, code="budget_exceeded", message=message, period=self.period)
            for counter, limit in limits
            if limit is not None
        ]


@dataclass(frozen=True, slots=True)
class BudgetAlert:
    """A budget of a tenant has reached 80 % of its limit: told once per period."""

    tenant: str
    run_id: str
    scope: str
    kind: str
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class Spending:
    """What one call adds to one counter. limit, scope: of the budget that is behind it, for the alert."""

    counter: str
    amount: int
    limit: int | None = None
    scope: str = ""

    def alert(self, spender: Spender, before: int) -> BudgetAlert | None:
        """If this made the counter, which was `before`, reach the share of its limit."""
        if self.limit is None or not before * 100 < self.limit * _ALERT_PERCENT <= (before + self.amount) * 100:
            return None
        kind = self.counter.rpartition(":")[2]
        return BudgetAlert(spender.tenant, spender.run_id, self.scope, kind, before + self.amount, self.limit)


def spendings(budgets: Iterable[Budget], at: float, tokens: int, cost_nano: int | None) -> list[Spending]:
    """What a call adds to the budgets it falls under. An unknown cost adds nothing."""
    found = []
    for budget in budgets:
        in_tokens, in_money = budget.counters(at)
        if budget.tokens is not None:
            found.append(Spending(in_tokens, tokens, budget.tokens, budget.scope))
        if budget.cost_nano is not None and cost_nano is not None:
            found.append(Spending(in_money, cost_nano, budget.cost_nano, budget.scope))
    return found
