"""Token buckets: what they give in any stretch of time, and what they remember."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.command_weights import request_weight, weight
from antiphon.core.token_bucket import Buckets, Rate


def test_a_rested_bucket_gives_its_burst_at_once_then_its_rate() -> None:
    buckets = Buckets(Rate(per_s=10, burst=3))
    assert [buckets.take("a", 100.0) for _ in range(3)] == [0, 0, 0]
    assert buckets.take("a", 100.0) == pytest.approx(0.1)
    assert buckets.take("a", 100.05) == pytest.approx(0.05)
    assert buckets.take("a", 100.1) == 0
    assert buckets.take("a", 100.1) == pytest.approx(0.1)
    assert [buckets.take("a", 200.0) for _ in range(4)] == [0, 0, 0, pytest.approx(0.1)]


def test_each_key_has_its_own_and_a_refusal_takes_nothing() -> None:
    buckets = Buckets(Rate(per_s=1, burst=1))
    assert buckets.take("a", 0.0) == 0
    for _ in range(100):
        assert buckets.take("a", 0.0) == pytest.approx(1)
    assert buckets.take("b", 0.0) == 0
    assert buckets.take("a", 1.0) == 0


def test_asking_takes_nothing() -> None:
    buckets = Buckets(Rate(per_s=1, burst=2))
    assert [buckets.wait_s("a", 0.0) for _ in range(9)] == [0] * 9
    assert len(buckets) == 0
    assert buckets.take("a", 0.0, cost=2) == 0
    assert buckets.wait_s("a", 0.0, cost=2) == pytest.approx(2)


def test_ten_cheap_commands_cost_what_one_create_does() -> None:
    buckets = Buckets(Rate(per_s=1, burst=1))
    assert [buckets.take("a", 0.0, weight("antiphon:ping")) for _ in range(10)] == [0] * 10
    assert buckets.take("a", 0.0, weight("antiphon:ping")) > 0
    assert weight("response.create") == 1 > weight("antiphon:attach") > weight("antiphon:ping") == weight("junk")
    assert request_weight("POST", "/v1/responses") == 1 == request_weight("POST", "/v1/responses/compact")
    assert request_weight("GET", "/v1/responses") == request_weight("POST", "/v1/responses/r/cancel") == 0.1


def test_keys_that_rest_are_forgotten_and_owe_nothing_by_it() -> None:
    buckets = Buckets(Rate(per_s=100, burst=500))
    for n in range(50_000):
        assert buckets.take(f"address {n}", now=n / 1000) == 0
    assert len(buckets) < 2048
    assert buckets.wait_s("address 0", 50.0, cost=500) == 0


def test_a_key_that_is_busy_is_never_forgotten() -> None:
    buckets = Buckets(Rate(per_s=0.001, burst=1))
    assert buckets.take("busy", 0.0) == 0
    for n in range(10_000):
        buckets.take(str(n), 0.0)
    assert buckets.take("busy", 1.0) > 0


@given(
    st.floats(0.1, 1000),
    st.floats(1, 1000),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 1)), min_size=1, max_size=60),
)
def test_no_stretch_of_time_gets_more_than_the_burst_and_its_rate(
    per_s: float, burst: float, asked: list[tuple[float, float]]
) -> None:
    buckets, now, taken = Buckets(Rate(per_s, burst)), 1000.0, list[tuple[float, float]]()
    for pause_s, cost in asked:
        now += pause_s
        wait_s = buckets.take("a", now, cost)
        assert wait_s >= 0
        if wait_s == 0:
            taken.append((now, cost))
        else:
            assert buckets.wait_s("a", now + wait_s + 1e-6, cost) == 0, "what was said about the wait is true"
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            given_s = taken[last][0] - taken[first][0]
            total = sum(cost for _, cost in taken[first : last + 1])
            assert total <= burst + given_s * per_s + 1e-6 * max(per_s, 1) * len(taken)
