"""The model behind docs/scaling.md: what so many nodes need, by unit costs."""

from __future__ import annotations

import pytest
from redis_table import (
    FILLED_CORES,
    REDIS_BYTES,
    NodeCosts,
    Workload,
    nodes_per_redis,
    redis_bytes,
    redis_cores,
    rows,
)

COSTS = {
    "exchange_us": 100.0,
    "append_us": 20.0,
    "event_us": 2.0,
    "hint_us": 5.0,
    "feed_entry_us": 50.0,
    "feed_told_us": 2.0,
    "progress_us": 60.0,
    "progress_told_us": 10.0,
    "run_us": 100.0,
    "admission_us": 150.0,
    "attach_us": 300.0,
    "run_bytes": 6_000.0,
    "event_bytes": 250.0,
    "event_of_ten_bytes": 260.0,
    "node_us_per_s": 500.0,
    "node_pair_us_per_s": 1.0,
}
NODE = NodeCosts(event_us=90, turn_us=1500, postgres_turn_us=800)


def test_an_append_for_each_event_where_runs_speak_less_often_than_is_flushed() -> None:
    # 200 exchanges of 100 µs and 5,000 appends of 20 µs
    assert redis_cores(COSTS, Workload(), 1)["appends"] == pytest.approx(0.02 + 0.1)


def test_a_longer_flush_puts_events_of_a_run_into_one_append() -> None:
    # 10 exchanges, 1,000 appends, and 4,000 events that go with them
    assert redis_cores(COSTS, Workload(flush_ms=100), 1)["appends"] == pytest.approx(0.001 + 0.02 + 0.008)


def test_nobody_follows_the_runs_of_a_single_node() -> None:
    assert [redis_cores(COSTS, Workload(), nodes)["followers"] > 0 for nodes in (1, 2)] == [False, True]


def test_dashboards_on_all_nodes_grow_with_their_square() -> None:
    feeds = [redis_cores(COSTS, Workload(), nodes)["feed"] for nodes in (100, 200)]
    assert feeds[1] / feeds[0] > 3
    unwatched = [redis_cores(COSTS, Workload(watched=False), nodes)["feed"] for nodes in (100, 200)]
    assert unwatched[1] / unwatched[0] == pytest.approx(2)


def test_memory_holds_live_runs_and_those_that_linger() -> None:
    # 100 live runs with 250 events, 600 that ended within a minute with 500
    assert redis_bytes(COSTS, Workload(), 1) == 100 * (6_000 + 250 * 250) + 600 * (6_000 + 500 * 250)


def test_so_many_nodes_fit_on_one_redis_and_one_more_does_not() -> None:
    fitting = nodes_per_redis(COSTS, Workload())
    filled = [sum(redis_cores(COSTS, Workload(), nodes).values()) for nodes in (fitting, fitting + 1)]
    assert filled[0] <= FILLED_CORES < filled[1]
    assert nodes_per_redis(COSTS, Workload(runs=10_000)) == 0, "not one"


def test_a_row_names_what_is_fullest() -> None:
    one, ten, _ = rows(COSTS, NODE, Workload())
    assert one.first == "a node's core, 66%"  # 5,000 events and 10 turns are 0.465 of 0.7 cores
    assert ten.first.startswith("Redis's thread")
    (long,) = rows(COSTS, NODE, Workload(flush_ms=100, linger_s=600), counts=[10])
    assert long.first.startswith("Redis's memory")
    assert long.redis_bytes > REDIS_BYTES
