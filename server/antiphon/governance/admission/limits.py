"""What a tenant may use, from the configuration: its tier, its own numbers, the budgets it falls under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.core.budgets import Budget, Spender, Spending, spendings
from antiphon.core.periods import start_of
from antiphon.core.principal import Principal
from antiphon.core.quotas import (
    FINAL,
    Check,
    Quota,
    quota_checks,
    requests_counter,
    token_checks,
    tokens_counter,
)
from antiphon.errors import RequestError
from antiphon.settings import Settings
from antiphon.settings.quotas import tiers
from antiphon.store.usage import Counted


@dataclass(frozen=True, slots=True)
class Claim:
    """What a run wants of its tenant: all of it or nothing.

    checks: counters that have to be below their limits. takes: counters that count this run. slots: how many runs
    may go on at once; None: any number, and nobody counts them. at: Unix seconds.
    """

    tenant: str
    run_id: str
    checks: tuple[Check, ...]
    takes: tuple[str, ...]
    slots: int | None
    at: float

    @property
    def is_free(self) -> bool:
        """Nothing has to be counted for it."""
        return not self.checks and self.slots is None


class Limits:
    """Looks up; decides nothing and counts nothing."""

    def __init__(self, settings: Settings) -> None:
        self._tiers = tiers(settings.tiers)
        self._own = {tenant.id: tenant.quotas.numbers() for tenant in settings.tenant}
        self._budgets = tuple(budget.budget() for budget in settings.budget)

    def quota(self, tenant: str, tier: str) -> Quota:
        """Raises RequestError `forbidden` for a tier that does not exist: it must not count as unlimited."""
        found = self._tier(tenant, tier)
        if found is None:
            message = "The tier of this key does not exist here."
            raise RequestError(message, code="forbidden", headers=FINAL)
        return found

    def _tier(self, tenant: str, tier: str) -> Quota | None:
        """With what the tenant has of its own; None for a tier that does not exist."""
        found, own = self._tiers.get(tier.lower()), self._own.get(tenant)
        return found.changed(own) if found is not None and own else found

    def budgets(self, tenant: str, principal: str, agent: str | None) -> Sequence[Budget]:
        """Those a run falls under."""
        if not self._budgets:
            return ()
        return [budget for budget in self._budgets if budget.covers(tenant, principal, agent)]

    def budgets_of(self, tenant: str) -> Sequence[Budget]:
        """Those that any run of a tenant could fall under."""
        return [budget for budget in self._budgets if budget.tenant in (None, tenant)]

    def claim(self, principal: Principal, run_id: str, agent: str | None, at: float) -> Claim:
        """What a new run needs. Raises RequestError `forbidden`."""
        quota = self.quota(principal.tenant, principal.tier)
        checks = quota_checks(quota, at)
        for budget in self.budgets(principal.tenant, principal.id, agent):
            checks += budget.checks(at)
        # Both count every run, so that a limit that is configured later finds them right.
        takes = (requests_counter("month", at), requests_counter("day", at))
        return Claim(principal.tenant, run_id, tuple(checks), takes, quota.concurrent_runs, at)

    def checks_of_call(self, tenant: str, tier: str, principal: str, agent: str | None, at: float) -> list[Check]:
        """What has to hold before each call of a model.

        Of a run whose tier is no longer there, and was when it began, only the budgets.
        """
        quota = self._tier(tenant, tier)
        checks = token_checks(quota, at) if quota is not None else []
        for budget in self.budgets(tenant, principal, agent):
            checks += budget.checks(at)
        return checks

    def spendings(self, spender: Spender, at: float, tokens: int, cost_nano: int | None) -> list[Spending]:
        """What a call of a model adds to counters."""
        budgets = self.budgets(spender.tenant, spender.principal, spender.agent)
        found = spendings(budgets, at, tokens, cost_nano)
        if found or self._tier(spender.tenant, spender.tier) != Quota():
            found.append(Spending(tokens_counter(at), tokens))
        return found

    def counters(self, tenant: str, at: float) -> list[Counted]:
        """All that could be asked of a tenant now, and how each is counted from rows."""
        month, day = start_of("month", at), start_of("day", at)
        found = [
            Counted(requests_counter("month", at), "runs", month),
            Counted(requests_counter("day", at), "runs", day),
            Counted(tokens_counter(at), "tokens", month),
        ]
        for budget in self.budgets_of(tenant):
            since, whose = start_of(budget.period, at), (budget.agent, budget.principal)
            in_tokens, in_money = budget.counters(at)
            found += [Counted(in_tokens, "tokens", since, *whose), Counted(in_money, "cost", since, *whose)]
        return found
