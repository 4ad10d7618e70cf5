"""The run registry: only legal changes, ended runs for a minute, listeners that cannot harm a run."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from antiphon.core.run_state import TERMINAL, TRANSITIONS, IllegalTransition, RunState, State
from antiphon.ops.lifecycle import Lifecycle
from antiphon.ops.registry import KEEP_ENDED_S, RunRegistry
from tests.ops.test_lifecycle import FakeClock, state

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


def test_who_listens_to_a_conversation_hears_each_of_its_runs_begin_and_nothing_else() -> None:
    runs, _, _ = registry()
    heard: list[str] = []

    def crash(run: RunState) -> None:
        raise RuntimeError(run.response_id)

    def listen(run: RunState) -> None:
        heard.append(run.response_id)

    first, second, other, last = (state(f"resp_{n}") for n in range(4))
    other.conversation_id = "conv_other"
    runs.listen_conversation(first.conversation_id, crash)
    runs.listen_conversation(first.conversation_id, listen)
    for run in (first, second, other):
        runs.start(run)
        runs.change(run, "running")
    runs.unlisten_conversation(first.conversation_id, listen)
    runs.start(last)
    assert heard == ["resp_0", "resp_1"]
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
