"""Cursors against a model that knows which reader saw which events."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.cursor import BEFORE_FIRST, Epochs, parse_event_id
from antiphon.errors import CursorError


@dataclass(frozen=True)
class History:
    """A log that forked: each epoch keeps `kept` events of the one before and wrote up to `last` itself.

    What an epoch's reader may have seen is the list of (epoch, number) that wrote each number.
    """

    spans: tuple[tuple[int, int], ...]

    @property
    def epochs(self) -> Epochs:
        return Epochs.parse((f"e{i}", first) for i, (first, _) in enumerate(self.spans))

    @property
    def head(self) -> int:
        return self.spans[-1][1]

    def seen_in(self, epoch: int) -> list[int]:
        """Who wrote each number that a reader of this epoch could see: position is number, value is writer."""
        log: list[int] = []
        for writer, (first, last) in enumerate(self.spans[: epoch + 1]):
            log = log[:first] + [writer] * (last + 1 - first)
        return log


@st.composite
def histories(draw: st.DrawFn) -> History:
    last = draw(st.integers(-1, 12))
    spans = [(0, last)]
    for _ in range(draw(st.integers(0, 3))):
        first = draw(st.integers(spans[-1][0], spans[-1][1] + 1))
        spans.append((first, draw(st.integers(first - 1, first + 8))))
    return History(tuple(spans))


def verdict(epochs: Epochs, after: int, epoch: str | None, head: int) -> str:
    try:
        epochs.check(after, epoch, head)
    except CursorError as error:
        return error.code
    return "ok"


@given(histories(), st.data())
def test_a_cursor_is_good_exactly_if_everything_its_reader_saw_is_still_the_log(
    history: History, data: st.DataObject
) -> None:
    epoch = data.draw(st.integers(0, len(history.spans) - 1))
    seen = history.seen_in(epoch)
    after = data.draw(st.integers(-1, len(seen) - 1))
    now = history.seen_in(len(history.spans) - 1)
    # A number of the fork that nobody wrote yet is void as well: it may come to mean another event.
    later = [first for first, _ in history.spans[epoch + 1 :]]
    good = seen[: after + 1] == now[: after + 1] and not any(after >= first for first in later[:1])
    code = verdict(history.epochs, after, f"e{epoch}", history.head)
    assert code == ("ok" if good else "epoch_changed")


@given(histories(), st.data())
def test_a_good_cursor_never_hides_an_event_of_the_log_from_its_reader(
    history: History, data: st.DataObject
) -> None:
    """Soundness: where the check says yes, what the reader has plus what follows is the whole log."""
    epoch = data.draw(st.integers(0, len(history.spans) - 1))
    seen = history.seen_in(epoch)
    after = data.draw(st.integers(-1, len(seen) - 1))
    if verdict(history.epochs, after, f"e{epoch}", history.head) == "ok":
        now = history.seen_in(len(history.spans) - 1)
        assert seen[: after + 1] + now[after + 1 :] == now


@given(histories(), st.integers(-1, 30))
def test_a_number_without_an_epoch_is_good_only_if_no_epoch_disputes_it(history: History, after: int) -> None:
    code = verdict(history.epochs, after, None, history.head)
    forks = [first for first, _ in history.spans[1:]]
    if after == BEFORE_FIRST or (after <= history.head and all(after < fork for fork in forks)):
        assert code == "ok"
    elif any(after >= fork for fork in forks):
        assert code == "epoch_changed"
    else:
        assert code == "cursor_in_future"


@given(histories(), st.integers(-1, 30))
def test_an_epoch_the_run_never_had_is_expired(history: History, after: int) -> None:
    assert verdict(history.epochs, after, "strange", history.head) == "cursor_expired"


@given(histories(), st.integers(1, 30))
def test_a_number_past_the_head_is_from_the_future(history: History, more: int) -> None:
    assert verdict(history.epochs, history.head + more, history.epochs.current, history.head) == "cursor_in_future"


@given(histories(), st.integers(-9, -2))
def test_a_number_below_the_first_cursor_is_no_number(history: History, after: int) -> None:
    assert verdict(history.epochs, after, None, history.head) == "invalid_request"


@given(histories())
def test_every_number_of_the_log_is_said_to_be_of_the_epoch_that_wrote_it(history: History) -> None:
    now = history.seen_in(len(history.spans) - 1)
    assert [history.epochs.at(number) for number in range(len(now))] == [f"e{writer}" for writer in now]


@given(histories())
def test_the_lowest_fork_is_the_first_number_in_more_than_one_epoch(history: History) -> None:
    forks = [first for first, _ in history.spans[1:]]
    assert history.epochs.lowest_fork == (min(forks) if forks else None)


@given(histories(), st.integers(0, 9))
def test_a_takeover_adds_an_epoch_and_keeps_the_old_ones(history: History, more: int) -> None:
    first = history.spans[-1][0] + more
    forked = history.epochs.forked("new", first)
    assert forked.entries == (*history.epochs.entries, ("new", first))
    assert forked.current == "new"
    assert forked.fork_after(history.epochs.current) == first
    assert forked.fork_after("new") is None


def test_an_epoch_cannot_begin_before_the_one_it_follows() -> None:
    with pytest.raises(ValueError, match="begin"):
        Epochs.starting("a").forked("b", 5).forked("c", 4)


def test_what_a_refused_cursor_says_helps_its_reader_on() -> None:
    epochs = Epochs.starting("a").forked("b", 5)
    for after, epoch, extra in [
        (5, "a", {"epoch": "b", "fork": 5}),
        (11, "b", {"epoch": "b", "head": 10}),
        (3, "x", {"epoch": "b", "head": 10}),
    ]:
        with pytest.raises(CursorError) as refused:
            epochs.check(after, epoch, 10)
        assert refused.value.extra == extra


def test_epochs_survive_being_stored_as_pairs() -> None:
    epochs = Epochs.starting("a").forked("b", 5)
    assert Epochs.parse([["a", 0], ["b", 5]]) == epochs  # type: ignore[list-item]


@given(st.text("0123456789abcdef", min_size=1, max_size=16), st.integers(0, 10**15 - 1))
def test_an_event_id_is_read_as_it_was_written(epoch: str, number: int) -> None:
    assert parse_event_id(f"{epoch}.{number}") == (epoch, number)
    assert parse_event_id(str(number)) == (None, number)


@pytest.mark.parametrize(
    "text",
    ["", ".", "a.", "a", "-1", "a.-1", "1.5e3", "a.\u0661", "a.1 ", "a. 1", "a.+1", "9" * 16, "a." + "9" * 5000],
)
def test_something_else_is_no_event_id(text: str) -> None:
    with pytest.raises(CursorError) as refused:
        parse_event_id(text)
    assert (refused.value.code, refused.value.status) == ("invalid_request", 400)
    assert len(refused.value.message) < 200


@given(st.text())
def test_any_text_is_an_event_id_or_refused(text: str) -> None:
    try:
        epoch, number = parse_event_id(text)
    except CursorError:
        return
    assert epoch != ""
    assert number >= 0
