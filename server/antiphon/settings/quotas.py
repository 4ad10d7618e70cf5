"""Settings of what may be used and what it costs: tiers, budgets, prices, how long usage is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from antiphon.core.budgets import Budget
from antiphon.core.prices import Price, nano
from antiphon.core.quotas import TIERS, Quota
from antiphon.settings.table import Table


def _unlimited(value: Any) -> Any:
    return None if value == "unlimited" else value


Limit = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_unlimited)]
"""A number, or `unlimited`, since TOML has no null."""


class QuotaSettings(Table):
    """Upper limits of a tenant: a number, 0 for none at all, or `"unlimited"`."""

    requests_per_month: Limit = Field(None, description="Runs; months are those of UTC.")
    requests_per_day: Limit = Field(None, description="Runs; days are those of UTC.")
    tokens_per_month: Limit = Field(None, description="Tokens of all calls of models, input and output.")
    agents: Limit = Field(None, description="Agents of its own that a tenant may keep.")
    concurrent_runs: Limit = Field(None, description="Runs that have not ended, waiting ones included.")
    journal_bytes: Limit = Field(
        None, description="Event logs kept in the store; counted every half minute, so that it is approximate."
    )

    feed_subscriptions: Limit = Field(
        None, description="Subscriptions to feeds on each node, over sockets and HTTP together."
    )

    def numbers(self) -> dict[str, int | None]:
        """What was given."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class TierSettings(QuotaSettings):
    """Quotas of a tier; its name is taken without regard to case. `free`, `dev`, `pro` and `enterprise` are there
    already, and what is not said here stays as it is. A new tier is unlimited where nothing is said."""


class BudgetSettings(Table):
    """What may be used per day, week (from Monday) or month, in UTC. At the limit no model is called any more.

    Each tenant has it by itself: a budget that names only an agent limits that agent in each tenant.
    """

    period: Literal["day", "week", "month"]
    tenant: str | None = Field(None, description="Absent: every tenant.")
    agent: str | None = Field(None, description="Absent: every agent.")
    principal: str | None = Field(None, description="`user:<name>` or `key:<name>`; absent: all.")
    tokens: int | None = Field(None, ge=0)
    cost: Decimal | None = Field(None, ge=0, description="In the currency of the prices.")

    @model_validator(mode="after")
    def _limits_something(self) -> BudgetSettings:
        if self.tokens is None and self.cost is None:
            raise ValueError("a budget needs `tokens` or `cost`")
        return self

    def budget(self) -> Budget:
        return Budget(
            period=self.period,
            tenant=self.tenant,
            agent=self.agent,
            principal=self.principal,
            tokens=self.tokens,
            cost_nano=None if self.cost is None else nano(self.cost),
        )


_HIGHEST_PRICE = 1_000_000
"""Per million tokens: what the most tokens of a call cost at it is a number of 64 bits."""


class PriceSettings(Table):
    """What a model costs per million tokens, in any one currency. The cost of a model without one is unknown."""

    model: str = Field(description="As clients name it.")
    input: Decimal = Field(ge=0, le=_HIGHEST_PRICE)
    output: Decimal = Field(ge=0, le=_HIGHEST_PRICE)
    cached: Decimal | None = Field(
        None, ge=0, le=_HIGHEST_PRICE, description="Input from the upstream's cache; absent: as `input`."
    )

    def price(self) -> Price:
        return Price(self.input, self.output, self.cached)


class UsageSettings(Table):
    """The record of what was used."""

    keep_days: int = Field(400, ge=62, description="How long the calls of models are kept for reports.")


def tiers(given: Mapping[str, TierSettings]) -> dict[str, Quota]:
    """All tiers by their names in lower case. Raises ValueError if two names differ in case only."""
    found = dict(TIERS)
    seen: dict[str, str] = {}
    for name, tier in given.items():
        if name.lower() in seen:
            raise ValueError(f"the tiers {seen[name.lower()]!r} and {name!r} differ only in case")
        seen[name.lower()] = name
        found[name.lower()] = found.get(name.lower(), Quota()).changed(tier.numbers())
    return found


def check_quotas(
    given: Mapping[str, TierSettings],
    tenants: Sequence[tuple[str, str]],
    budgets: Sequence[BudgetSettings],
    prices: Sequence[PriceSettings],
) -> None:
    """Refuse what cannot be meant. tenants: each one's id and tier. Raises ValueError."""
    known = tiers(given)
    ids = [tenant for tenant, _ in tenants]
    for tenant, tier in tenants:
        if ids.count(tenant) > 1:
            raise ValueError(f"two tenants have the id {tenant!r}")
        if tier.lower() not in known:
            raise ValueError(
                f"tenant {tenant!r} has tier {tier!r}, which does not exist; there are {', '.join(known)}"
            )
    scopes = [budget.budget().scope for budget in budgets]
    models = [price.model for price in prices]
    for scope in scopes:
        if scopes.count(scope) > 1:
            raise ValueError(f"two budgets are for {scope!r}; put both limits into one")
    for model in models:
        if models.count(model) > 1:
            raise ValueError(f"two prices are given for model {model!r}")
