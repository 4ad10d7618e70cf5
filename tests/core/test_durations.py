"""Durations: buckets that agree with their count, percentiles of the newest, memory that does not grow."""

from __future__ import annotations

import pytest

from antiphon.core.durations import BUCKETS_S, NEWEST, Durations, percentile


def test_each_value_falls_into_the_first_bucket_that_holds_it() -> None:
    durations = Durations()
    for value in (0.0, 0.005, 0.0051, 3600.0, 3601.0, -1.0):
        durations.add(value)
    assert durations.in_bucket[:2] == [3, 1]
    assert durations.in_bucket[-2:] == [1, 1]
    assert sum(durations.in_bucket) == durations.count == 6
    assert durations.sum_s == pytest.approx(7201.0101)
    assert len(durations.in_bucket) == len(BUCKETS_S) + 1


def test_only_the_newest_values_are_kept() -> None:
    durations = Durations()
    for n in range(NEWEST + 10):
        durations.add(n / 1000)
    assert durations.newest_ms() == list(range(10, NEWEST + 10))
    assert durations.count == NEWEST + 10


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile([5], 0.99) == 5
    assert percentile(range(1, 101), 0.5) == 50
    assert percentile(range(1, 101), 0.99) == 99
    assert percentile([3, 1, 2], 0.0) == 1
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)
