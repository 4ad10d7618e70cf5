"""Budgets and prices: whose runs they are for, what a call costs, when the alert comes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.budgets import Budget, Spender, Spending, spendings
from antiphon.core.prices import Price, Tokens, add_cost, amount, nano, tokens_of

NOW = 1_790_000_000.0
SPENDER = Spender("resp_1", "acme", "key:k", "reviewer", "pro")
PRICE = Price(Decimal("2.50"), Decimal("10"), Decimal("0.25"))


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ({}, True),
        ({"tenant": "acme"}, True),
        ({"tenant": "other"}, False),
        ({"agent": "reviewer"}, True),
        ({"agent": "writer"}, False),
        ({"principal": "key:k"}, True),
        ({"principal": "user:k"}, False),
        ({"tenant": "acme", "agent": "reviewer", "principal": "key:k"}, True),
        ({"tenant": "acme", "agent": "reviewer", "principal": "key:j"}, False),
    ],
)
def test_a_budget_is_for_the_runs_it_names(scope: dict[str, str], covered: bool) -> None:
    budget: Any = Budget("day", tokens=1, **scope)
    assert budget.covers("acme", "key:k", "reviewer") is covered


def test_a_budget_for_an_agent_does_not_hold_runs_without_one() -> None:
    assert not Budget("day", agent="reviewer", tokens=1).covers("acme", "key:k", None)


def test_a_call_adds_only_to_limits_there_are_and_an_unknown_cost_adds_nothing() -> None:
    both, money = Budget("day", tokens=9, cost_nano=9), Budget("month", cost_nano=9)
    assert [(s.limit, s.amount) for s in spendings([both, money], NOW, 5, 7)] == [(9, 5), (9, 7), (9, 7)]
    assert [(s.limit, s.amount) for s in spendings([both, money], NOW, 5, None)] == [(9, 5)]


def test_each_period_counts_by_itself() -> None:
    budget = Budget("day", tokens=1)
    assert budget.counters(NOW) == budget.counters(NOW + 1) != budget.counters(NOW + 86_400)


@given(st.lists(st.integers(0, 50), max_size=50), st.integers(1, 1_000))
def test_the_alert_comes_once_when_eighty_percent_are_reached(amounts: list[int], limit: int) -> None:
    used, alerts = 0, 0
    for given_amount in amounts:
        spending = Spending("budget:day:0:tokens", given_amount, limit, "day")
        alert = spending.alert(SPENDER, used)
        used += given_amount
        if alert is not None:
            alerts += 1
            assert alert.used * 100 >= limit * 80 and (alert.kind, alert.limit) == ("tokens", limit)
    assert alerts == (1 if used * 100 >= limit * 80 else 0)


def test_cached_input_has_its_own_price_and_reasoning_is_part_of_the_output() -> None:
    tokens = tokens_of(
        {
            "input_tokens": 1_000_000,
            "input_tokens_details": {"cached_tokens": 400_000},
            "output_tokens": 100_000,
            "output_tokens_details": {"reasoning_tokens": 60_000},
            "total_tokens": 1_100_000,
        }
    )
    assert tokens == Tokens(1_000_000, 400_000, 100_000, 60_000, 1_100_000)
    assert amount(PRICE.cost_nano(tokens)) == 1.5 + 0.1 + 1.0


def test_without_a_price_of_its_own_cached_input_costs_as_all_input() -> None:
    price = Price(Decimal("2"), Decimal("0"))
    assert amount(price.cost_nano(Tokens(1_000_000, 1_000_000, 0, 0, 1_000_000))) == 2.0


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"input_tokens": None, "output_tokens": "7", "input_tokens_details": None},
        {"input_tokens": -5, "output_tokens": True, "output_tokens_details": []},
    ],
)
def test_numbers_that_are_none_count_as_nothing(usage: dict[str, Any]) -> None:
    assert tokens_of(usage) == Tokens()


def test_a_total_that_is_missing_is_made_of_its_parts() -> None:
    assert tokens_of({"input_tokens": 3, "output_tokens": 4}).total == 7


@given(st.lists(st.integers(0, 10_000), max_size=30))
def test_costs_of_calls_add_up_exactly(counts: list[int]) -> None:
    price = Price(Decimal("0.075"), Decimal("0.30"))
    single = sum(price.cost_nano(Tokens(count, 0, count, 0, 2 * count)) for count in counts)
    assert single == price.cost_nano(Tokens(sum(counts), 0, sum(counts), 0, 2 * sum(counts)))


def test_one_unknown_cost_makes_the_sum_unknown() -> None:
    assert add_cost(1, 2) == 3 and add_cost(None, 2) is None and add_cost(1, None) is None
    assert amount(None) is None and nano(Decimal("1.5")) == 1_500_000_000
