"""Tiers, quotas, votes: what a run is checked against, and in which order it is told."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.principal import Principal
from antiphon.core.quotas import TIERS, Ask, check_agents, decide, quota_checks
from antiphon.errors import RequestError
from antiphon.governance.admission.admission import may_start
from antiphon.governance.admission.limits import Limits
from antiphon.settings import Settings

NOW = 1_790_000_000.0  # 21 September 2026


def limits(**settings: Any) -> Limits:
    return Limits(Settings(**settings))


def whose(tier: str = "enterprise", tenant: str = "acme", principal: str = "key:k") -> Principal:
    return Principal(principal, tenant, "driver", tier)


def messages(found: Limits, principal: Principal, agent: str | None = None) -> list[str]:
    return [check.message for check in found.claim(principal, "resp_1", agent, NOW).checks]


def test_the_tiers_have_the_numbers_of_the_contract() -> None:
    numbers = {
        name: (tier.requests_per_month, tier.requests_per_day, tier.tokens_per_month, tier.agents)
        for name, tier in TIERS.items()
    }
    assert numbers == {
        "free": (1_000, 50, 100_000, 1),
        "dev": (50_000, 2_000, 5_000_000, 10),
        "pro": (500_000, 20_000, 50_000_000, None),
        "enterprise": (None, None, None, None),
    }


def test_the_month_is_asked_before_the_day_and_both_before_tokens_and_budgets() -> None:
    found = limits(budget=[{"period": "week", "cost": 5}])
    assert messages(found, whose("free")) == [
        "Monthly request quota exceeded",
        "Daily request quota exceeded",
        "Monthly token quota exceeded",
        "Weekly budget exceeded",
    ]


def test_an_unlimited_tenant_without_a_budget_needs_no_counting() -> None:
    assert limits().claim(whose(), "resp_1", None, NOW).is_free


@pytest.mark.parametrize("name", ["free", "Free", "FREE"])
def test_the_name_of_a_tier_has_no_case(name: str) -> None:
    assert limits(tiers={"fReE": {"agents": 7}}).quota("acme", name).agents == 7


def test_a_tier_of_the_configuration_changes_only_what_it_names() -> None:
    quota = limits(tiers={"free": {"requests_per_day": "unlimited", "concurrent_runs": 3}}).quota("acme", "free")
    assert (quota.requests_per_day, quota.requests_per_month, quota.concurrent_runs) == (None, 1_000, 3)


def test_a_new_tier_is_unlimited_where_it_says_nothing() -> None:
    assert limits(tiers={"gold": {"agents": 0}}).quota("acme", "gold") == TIERS["enterprise"].changed(
        {"agents": 0}
    )


def test_numbers_of_a_tenant_stand_above_those_of_its_tier() -> None:
    found = limits(tenant=[{"id": "acme", "tier": "free", "quotas": {"requests_per_month": "unlimited"}}])
    assert found.quota("acme", "free").requests_per_month is None
    assert found.quota("acme", "free").requests_per_day == 50
    assert found.quota("other", "free").requests_per_month == 1_000


def test_a_tier_that_does_not_exist_is_refused_and_never_unlimited() -> None:
    with pytest.raises(RequestError) as caught:
        limits().claim(whose("platinum"), "resp_1", None, NOW)
    assert caught.value.code == "forbidden" and caught.value.headers["x-should-retry"] == "false"


def test_none_at_all_is_exactly_the_monthly_refusal_and_says_when_to_come_back() -> None:
    check = quota_checks(TIERS["enterprise"].changed({"requests_per_month": 0}), NOW)[0]
    refusal = check.refusal(NOW)
    assert (refusal.status, refusal.code, refusal.message) == (
        429,
        "quota_exceeded",
        "Monthly request quota exceeded",
    )
    assert check.limit == 0 and 0 < int(refusal.headers["retry-after"]) <= 31 * 86_400
    assert refusal.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("agents", "count", "fits"), [(None, 999, True), (0, 0, False), (1, 0, True), (1, 1, False)]
)
def test_a_tenant_may_keep_as_many_agents_as_its_quota_says(agents: int | None, count: int, fits: bool) -> None:
    quota = TIERS["enterprise"].changed({"agents": agents})
    if fits:
        check_agents(quota, count)
        return
    with pytest.raises(RequestError, match=r"^Agent quota exceeded$") as caught:
        check_agents(quota, count)
    assert (caught.value.code, caught.value.status) == ("quota_exceeded", 429)


def test_any_denial_wins_and_the_first_is_told() -> None:
    first, second = RequestError("first"), RequestError("second")
    decide(["allow", "abstain"])
    with pytest.raises(RequestError, match="first"):
        decide(["allow", first, "allow", second])


@pytest.mark.parametrize("role", ["viewer", "driver", "operator", "admin"])
def test_a_viewer_starts_nothing(role: Any) -> None:
    ballot = may_start(Ask(Principal("key:k", "acme", role), "resp_1", None))
    assert isinstance(ballot, RequestError) == (role == "viewer")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"tiers": {"Free": {}, "FREE": {}}}, "differ only in case"),
    ({"tiers": {"x": {"request_per_day": 1}}}, "Extra inputs"),
    ({"tiers": {"x": {"agents": -1}}}, "greater than or equal to 0"),
    ({"tenant": [{"id": "acme", "tier": "gold"}]}, "'gold', which does not exist"),
    ({"tenant": [{"id": "acme"}, {"id": "acme"}]}, "two tenants have the id 'acme'"),
    ({"tenant": [{"id": "acme", "quotas": {"runs": 1}}]}, "Extra inputs"),
    ({"budget": [{"period": "day"}]}, "needs `tokens` or `cost`"),
    ({"budget": [{"period": "year", "cost": 1}]}, "'day', 'week' or 'month'"),
    ({"budget": [{"period": "day", "cost": 1}, {"period": "day", "tokens": 1}]}, "two budgets are for 'day'"),
    ({"price": [{"model": "m", "input": 1, "output": 1}] * 2}, "two prices are given for model 'm'"),
    ({"price": [{"model": "m", "input": -1, "output": 1}]}, "greater than or equal to 0"),
    ({"price": [{"model": "m", "input": 1, "output": 1, "out": 1}]}, "Extra inputs"),
    ({"usage": {"keep_days": 1}}, "greater than or equal to 62"),
]


@pytest.mark.parametrize(("given", "said"), BAD)
def test_a_configuration_that_cannot_be_meant_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Settings(**given)
