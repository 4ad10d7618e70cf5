"""The state of a run: one table, one writer, and a row that every client can read."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest

from antiphon.core.run_state import TERMINAL, TRANSITIONS, IllegalTransition, RunState, State
from antiphon_protocol.runstate import RunState as WireState

STATES: tuple[Any, ...] = get_args(State)

LEGAL = {
    ("queued", "running"),
    ("queued", "completed"),
    ("queued", "incomplete"),
    ("queued", "failed"),
    ("queued", "cancelled"),
    ("running", "waiting_for_tool"),
    ("running", "completed"),
    ("running", "incomplete"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("waiting_for_tool", "running"),
    ("waiting_for_tool", "completed"),
    ("waiting_for_tool", "incomplete"),
    ("waiting_for_tool", "failed"),
    ("waiting_for_tool", "cancelled"),
}


def new_state(state: Any = "queued") -> RunState:
    return RunState(
        response_id="resp_1",
        conversation_id="conv_1",
        tenant="default",
        principal="user:local",
        model="m",
        upstream="builtin",
        origin="websocket",
        epoch="a",
        created_at=1.0,
        updated_at=1.0,
        state=state,
    )


@pytest.mark.parametrize(("old", "new"), list(itertools.product(STATES, STATES)))
def test_exactly_the_transitions_of_the_table_are_legal(old: Any, new: Any) -> None:
    state = new_state(old)
    if (old, new) in LEGAL:
        state.to(new, 2.0)
        assert (state.state, state.revision, state.updated_at) == (new, 1, 2.0)
        return
    with pytest.raises(IllegalTransition, match=f"resp_1 cannot go from {old} to {new}"):
        state.to(new, 2.0)
    assert (state.state, state.revision, state.updated_at) == (old, 0, 1.0)


def test_the_table_names_every_state_and_no_other() -> None:
    assert set(TRANSITIONS) == set(STATES)
    assert set().union(*TRANSITIONS.values()) <= set(STATES)


def test_nothing_follows_a_terminal_state() -> None:
    assert all(not TRANSITIONS[state] for state in TERMINAL)
    assert TERMINAL == {state for state in STATES if not TRANSITIONS[state]}


def test_every_state_can_end_in_each_way() -> None:
    assert all(TRANSITIONS[state] >= TERMINAL for state in STATES if state not in TERMINAL)


def test_a_run_is_started_once_however_often_it_runs_again() -> None:
    state = new_state()
    for new, now in (("running", 2.0), ("waiting_for_tool", 3.0), ("running", 4.0)):
        state.to(new, now)  # type: ignore[arg-type]
    assert (state.started_at, state.updated_at, state.revision) == (2.0, 4.0, 3)


@pytest.mark.parametrize("name", STATES)
def test_a_row_in_every_state_is_what_the_protocol_describes(name: Any) -> None:
    row = new_state(name).row()
    WireState.model_validate(row)
    assert set(row) - {"expires_at"} <= set(WireState.model_fields)


def test_a_row_of_an_ended_run_says_how_it_ended() -> None:
    state = new_state("running")
    state.to("cancelled", 2.0)
    state.terminal = {"status": "cancelled", "code": "cancelled", "by": "user:anna"}
    state.expires_at = 86_402.0
    row = WireState.model_validate(state.row())
    assert row.terminal is not None
    assert row.terminal.by == "user:anna"
