"""What an attach gets: the four modes and the refusals (PROTOCOL 6.4 and 10.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.attach import After, plan_attach
from antiphon.core.cursor import Epochs
from antiphon.errors import CursorError

ONE = Epochs.starting("a")
TWO = ONE.forked("b", 5)


def plan(
    after: After,
    epoch: str | None = None,
    *,
    epochs: Epochs = ONE,
    head: int = 9,
    first: int = 0,
    ended: bool = False,
) -> tuple[str, int]:
    found = plan_attach(after, epoch, epochs=epochs, head=head, first=first, ended=ended)
    return found.mode, found.after


def test_from_the_start_everything_is_replayed() -> None:
    assert plan("start") == ("replay", -1)


def test_from_now_only_what_comes_is_given() -> None:
    assert plan("now") == ("live", 9)


def test_from_now_an_ended_run_has_nothing_left() -> None:
    assert plan("now", ended=True) == ("ended", 9)


def test_a_cursor_in_the_middle_is_replayed_from_there() -> None:
    assert plan(4, "a") == ("replay", 4)
    assert plan(4) == ("replay", 4)


def test_a_cursor_at_the_head_is_live_or_the_end() -> None:
    assert plan(9, "a") == ("live", 9)
    assert plan(9, "a", ended=True) == ("ended", 9)


def test_an_ended_run_that_was_not_read_to_its_end_is_replayed() -> None:
    assert plan(8, "a", ended=True) == ("replay", 8)


def test_a_cursor_whose_events_are_gone_gets_a_snapshot() -> None:
    assert plan(3, "a", first=5) == ("snapshot", 9)
    assert plan("start", first=5) == ("snapshot", 9)
    assert plan(4, "a", first=5) == ("replay", 4)


def test_an_unknown_epoch_gets_a_snapshot_whatever_its_number() -> None:
    assert plan(3, "x") == ("snapshot", 9)
    assert plan(999, "x") == ("snapshot", 9)
    assert plan(3, "x", ended=True) == ("snapshot", 9)


def test_a_run_without_any_event_is_live_from_the_start() -> None:
    assert plan("start", head=-1) == ("live", -1)


@pytest.mark.parametrize(
    ("after", "epoch", "code"), [(10, "a", "cursor_in_future"), (10, None, "cursor_in_future")]
)
def test_a_cursor_from_the_future_is_refused(after: int, epoch: str | None, code: str) -> None:
    with pytest.raises(CursorError) as refused:
        plan(after, epoch)
    assert refused.value.code == code


@pytest.mark.parametrize(("after", "epoch"), [(5, "a"), (6, "a"), (5, None), (99, "a")])
def test_a_cursor_past_a_fork_is_refused(after: int, epoch: str | None) -> None:
    with pytest.raises(CursorError) as refused:
        plan(after, epoch, epochs=TWO)
    assert refused.value.code == "epoch_changed"
    assert refused.value.extra == {"epoch": "b", "fork": 5}


def test_a_cursor_below_a_fork_goes_on_in_the_new_epoch() -> None:
    assert plan(4, "a", epochs=TWO) == ("replay", 4)


afters = st.one_of(st.sampled_from(["start", "now"]), st.integers(-1, 15))


@given(afters, st.sampled_from([None, "a", "b", "x"]), st.integers(-1, 12), st.integers(0, 14), st.booleans())
def test_a_plan_never_gives_part_of_what_was_asked(
    after: After, epoch: str | None, head: int, first: int, ended: bool
) -> None:
    epochs = TWO if head >= 4 else ONE
    try:
        found = plan_attach(after, epoch, epochs=epochs, head=head, first=min(first, head + 1), ended=ended)
    except CursorError as error:
        assert isinstance(after, int)
        assert error.code in ("cursor_in_future", "epoch_changed")
        return
    asked = -1 if after == "start" else head if after == "now" else after
    if found.mode == "replay":
        assert found.after == asked
        assert found.after + 1 >= min(first, head + 1)
    elif found.mode == "snapshot":
        assert found.after == head
    else:
        assert found.after == head == asked
        assert (found.mode == "ended") == ended
