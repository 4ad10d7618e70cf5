"""The run registry: only legal changes, ended runs for a minute, listeners that cannot harm a run."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from antiphon.core.run_state import TERMINAL, TRANSITIONS, IllegalTransition, RunState, State
from antiphon.ops.lifecycle import Lifecycle, Told
from antiphon.ops.registry import KEEP_ENDED_S, RunRegistry
from tests.ops.states import FakeClock, state

STATES: tuple[State, ...] = get_args(State)


def registry() -> tuple[RunRegistry, Lifecycle, FakeClock]:
    clock = FakeClock()
    lifecycle = Lifecycle("e", clock)
    return RunRegistry(lifecycle, clock), lifecycle, clock


@pytest.mark.parametrize(("old", "new"), list(itertools.product(STATES, STATES)))
def test_a_state_changes_only_as_the_table_allows(old: State, new: State) -> None:
    runs, lifecycle, _ = registry()
    run = state()
    run.state = old
    runs.start(run)
    if new in TRANSITIONS[old]:
        runs.change(run, new)
        assert run.state == new and run.revision == 1
    else:
        with pytest.raises(IllegalTransition):
            runs.change(run, new)
        assert run.state == old and run.revision == 0
        found = lifecycle.since("default", 0)
        assert found is not None and [entry.event for entry in found] == ["run.created"]


def test_the_table_knows_every_state_and_no_way_out_of_the_last_ones() -> None:
    assert TRANSITIONS.keys() == set(STATES)
    assert {name for name, ways in TRANSITIONS.items() if not ways} == TERMINAL
    assert all(TERMINAL <= ways for ways in TRANSITIONS.values() if ways)


def test_an_id_nobody_started_is_an_error() -> None:
    runs, _, _ = registry()
    with pytest.raises(KeyError):
        runs.get("resp_1")


def test_each_run_that_begins_is_told_once() -> None:
    runs, _, _ = registry()
    begun: list[str] = []
    runs.on_start = lambda run: begun.append(run.response_id)
    for name in ("resp_0", "resp_1"):
        runs.start(run := state(name))
        runs.change(run, "running")
    assert begun == ["resp_0", "resp_1"]
    assert [runs.lists(name) for name in ("resp_0", "resp_9")] == [True, False]


def test_an_ended_run_is_listed_for_a_minute_and_a_live_one_for_ever() -> None:
    runs, _, clock = registry()
    ended, live = state("resp_1"), state("resp_2")
    runs.start(ended)
    runs.start(live)
    runs.change(ended, "cancelled")
    clock.at += KEEP_ENDED_S - 0.1
    runs.prune()
    assert runs.get("resp_1") is ended and len(runs) == 2
    clock.at += 0.1
    runs.prune()
    with pytest.raises(KeyError):
        runs.get("resp_1")
    clock.at += 10 * KEEP_ENDED_S
    runs.prune()
    assert list(runs) == [live]


def test_how_long_the_log_is_kept_has_nothing_to_do_with_how_long_the_run_is_listed() -> None:
    runs, _, clock = registry()
    run = state()
    runs.start(run)
    runs.change(run, "failed", expires_at=clock.at + 86_400)
    assert run.expires_at == clock.at + 86_400
    clock.at += KEEP_ENDED_S
    runs.prune()
    assert len(runs) == 0


def test_the_start_of_a_run_is_noted_once_and_only_the_first_time() -> None:
    runs, _, clock = registry()
    run = state()
    runs.start(run)
    runs.change(run, "running")
    clock.at += 5
    runs.change(run, "waiting_for_tool")
    runs.change(run, "running")
    assert (run.started_at, run.updated_at, run.revision) == (1000.0, 1005.0, 3)


def test_listeners_hear_the_changes_of_their_run_until_they_leave() -> None:
    runs, _, _ = registry()
    one, two = state("resp_1"), state("resp_2")
    heard: list[tuple[str, str]] = []

    def listener(changed: RunState) -> None:
        heard.append((changed.response_id, changed.state))

    for run in (one, two):
        runs.start(run)
    runs.listen("resp_1", listener)
    runs.listen("resp_1", listener)
    runs.change(one, "running")
    runs.change(two, "running")
    runs.note(one, event="run.usage", usage={"total_tokens": 1})
    assert heard == [("resp_1", "running")] and one.usage == {"total_tokens": 1} and one.revision == 1
    runs.unlisten("resp_1", listener)
    runs.unlisten("resp_1", listener)
    runs.change(one, "completed")
    assert heard == [("resp_1", "running")] and runs._listeners == {}


def test_a_listener_that_breaks_or_leaves_while_it_is_told_harms_nobody() -> None:
    runs, lifecycle, _ = registry()
    run, heard = state(), []

    def breaks(_: RunState) -> None:
        raise RuntimeError("broken")

    def leaves(_: RunState) -> None:
        runs.unlisten("resp_1", leaves)
        heard.append("left")

    runs.start(run)
    for listener in (breaks, leaves, lambda changed: heard.append(changed.state)):
        runs.listen("resp_1", listener)
    runs.change(run, "running")
    runs.change(run, "completed")
    assert heard == ["left", "running", "completed"]
    found = lifecycle.since("default", 0)
    assert found is not None and len(found) == 3


def test_a_feed_that_began_anew_is_told_of_the_live_runs_of_its_tenant() -> None:
    runs, lifecycle, _ = registry()
    for response_id, tenant in (("resp_live", "a"), ("resp_over", "a"), ("resp_other", "b")):
        runs.start(state(response_id, tenant))
    runs.change(runs.get("resp_over"), "cancelled", event="run.cancelled")
    runs.tell_all("a")
    told, others = lifecycle.since("a", 3), lifecycle.since("b", 1)
    assert told is not None and [(entry.event, entry.run_id) for entry in told] == [("run.updated", "resp_live")]
    assert others == []


def test_an_adopted_run_is_listed_and_one_that_is_over_goes_after_a_minute() -> None:
    runs, lifecycle, clock = registry()
    alive, over = state("resp_alive"), state("resp_over")
    over.to("completed", clock.at)
    runs.adopt(alive, Told(2, "run.started"), fence=2)
    runs.adopt(over, Told(5, "run.completed"), fence=2)
    found = lifecycle.since("default", 0)
    assert found is not None and [(entry.run_id, entry.event, entry.n) for entry in found] == [
        ("resp_alive", "run.updated", 3)
    ]
    assert runs.get("resp_over") is over
    clock.at += KEEP_ENDED_S
    runs.prune()
    assert runs.lists("resp_alive") and not runs.lists("resp_over")
