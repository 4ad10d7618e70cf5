"""A log and its readers: whoever attaches wherever gets every shown event once, in order, never too early."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from antiphon.core.cursor import Epochs
from antiphon.journal.frames import Batch
from antiphon.journal.log import LogOrderError, RunLog


def event(number: int, size: int = 10) -> bytes:
    return b'{"type":"x","n":%d,"pad":"%b"}' % (number, b"." * size)


def new_log(*, window: int = 1 << 30, stored: bool = True, strict: bool = False, head: int = -1) -> RunLog:
    return RunLog("resp_1", Epochs.starting("a"), window_bytes=window, stored=stored, strict=strict, head=head)


class Reader:
    """Pages through the log, then listens, as an attachment does; goes back to paging when it falls behind."""

    def __init__(self, log: RunLog, after: int, durable: Callable[[int], bytes]) -> None:
        self.log = log
        self.after = self.last = after
        self.got: list[bytes] = []
        self.live = self.lost = False
        self._durable = durable

    def page(self, max_bytes: int) -> None:
        """One step of catching up; what left memory is read from the store."""
        page = self.log.page(self.last, max_bytes)
        if page is None and not self.log.stored:
            self.lost = True
            return
        if page is None:
            page = [self._durable(self.last + 1)]
        self.got += page
        self.last += len(page)
        if self.last == self.log.shown:
            self.live = True
            self.log.listen(self.on_batch)

    def on_batch(self, batch: Batch) -> None:
        assert batch.first == self.last + 1, "a hole or a repeat"
        self.got += batch.events
        self.last = batch.last
        assert self.last <= self.log.shown, "shown too early"

    def fall_behind(self) -> None:
        self.live = False
        self.log.unlisten(self.on_batch)


class ReplayMachine(RuleBasedStateMachine):
    """Random appends, flushes, readers and ends."""

    @initialize(stored=st.booleans(), strict=st.booleans(), window=st.sampled_from([0, 100, 1 << 20]))
    def begin(self, stored: bool, strict: bool, window: int) -> None:
        self.strict = strict and stored
        self.log = new_log(window=window, stored=stored, strict=self.strict)
        self.written: list[bytes] = []
        self.readers: list[Reader] = []

    @precondition(lambda self: not self.log.ended)
    @rule(sizes=st.lists(st.integers(0, 60), max_size=4), hold=st.booleans())
    def append(self, sizes: list[int], hold: bool) -> None:
        events = [event(len(self.written) + i, size) for i, size in enumerate(sizes)]
        self.written += events
        self.log.append(events, self.log.head + 1, hold=hold)

    @precondition(lambda self: self.log.stored and self.written)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        self.log.mark_durable(data.draw(st.integers(0, self.log.head)))

    @precondition(lambda self: not self.log.ended and self.written)
    @rule(durable=st.booleans())
    def end(self, durable: bool) -> None:
        self.written.append(event(len(self.written)))
        self.log.end(self.written[-1], durable=durable and self.log.stored)

    @rule(data=st.data())
    def attach(self, data: st.DataObject) -> None:
        after = data.draw(st.integers(-1, self.log.shown))
        self.readers.append(Reader(self.log, after, self.read_durable))

    def read_durable(self, number: int) -> bytes:
        assert number <= self.log.durable, "a stored log let go of what is not durable"
        return self.written[number]

    @precondition(lambda self: any(not r.live and not r.lost for r in self.readers))
    @rule(data=st.data(), max_bytes=st.sampled_from([1, 50, 1000]))
    def page(self, data: st.DataObject, max_bytes: int) -> None:
        data.draw(st.sampled_from([r for r in self.readers if not r.live and not r.lost])).page(max_bytes)

    @precondition(lambda self: any(r.live for r in self.readers))
    @rule(data=st.data())
    def fall_behind(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([r for r in self.readers if r.live])).fall_behind()

    @invariant()
    def readers_have_exactly_what_was_shown_to_them(self) -> None:
        for reader in self.readers:
            assert reader.got == self.written[reader.after + 1 : reader.last + 1]
            if reader.live:
                assert reader.last == self.log.shown

    @invariant()
    def positions_agree(self) -> None:
        log = self.log
        assert log.head == len(self.written) - 1
        assert log.shown <= log.head
        assert log.durable <= log.head
        if self.strict and not log.ended:
            assert log.shown <= log.durable
        if log.ended:
            assert log.shown == log.head
        assert log.since(log.first) == self.written[log.first :]
        kept = log.durable if log.stored else log.shown
        assert log.first <= max(0, kept + 1), "what nobody keeps elsewhere left memory"
        assert log.first <= log.shown + 1, "what nobody saw left memory"

    def teardown(self) -> None:
        """At the end everybody who is not lost can read on to the last shown event."""
        for reader in self.readers:
            while not reader.live and not reader.lost:
                reader.page(50)
            if not reader.lost:
                assert reader.got == self.written[reader.after + 1 : self.log.shown + 1]


TestReplay = ReplayMachine.TestCase
TestReplay.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_readers_of_a_relaxed_log_get_identical_bytes_from_any_cursor(
    batches: list[int], data: st.DataObject
) -> None:
    log = new_log()
    readers: list[Reader] = []
    for size in batches:
        log.append([event(log.head + 1 + i) for i in range(size)], log.head + 1)
        readers.append(Reader(log, data.draw(st.integers(-1, log.shown)), lambda number: b""))
        readers[-1].page(1 << 20)
    log.end(event(log.head + 1), durable=True)
    whole = log.since(0)
    for reader in readers:
        assert reader.got == whole[reader.after + 1 :]


def test_a_number_that_does_not_follow_the_head_is_not_written() -> None:
    log = new_log()
    log.append([event(0), event(1)], 0)
    for first in (0, 1, 3):
        with pytest.raises(LogOrderError):
            log.append([event(first)], first)
    assert log.head == 1


def test_a_strict_log_shows_nothing_before_it_is_durable() -> None:
    log = new_log(strict=True)
    seen: list[int] = []
    log.listen(lambda batch: seen.extend(range(batch.first, batch.last + 1)))
    log.append([event(0), event(1), event(2)], 0)
    assert (seen, log.page(-1, 1000)) == ([], [])
    log.mark_durable(1)
    assert seen == [0, 1]


def test_held_events_are_shown_with_the_terminal_in_one_batch() -> None:
    log = new_log()
    batches: list[Batch] = []
    log.listen(batches.append)
    log.append([event(0)], 0, hold=True)
    assert (batches, log.shown) == ([], -1)
    log.end(event(1), durable=True)
    assert [(batch.first, batch.last) for batch in batches] == [(0, 1)]


def test_held_events_that_became_durable_are_still_there_when_they_are_shown() -> None:
    log = new_log(window=0)
    batches: list[Batch] = []
    log.listen(batches.append)
    log.append([event(0), event(1)], 0, hold=True)
    log.mark_durable(1)
    log.end(event(2), durable=True)
    assert list(batches[0].events) == [event(0), event(1), event(2)]


def test_a_stored_log_keeps_what_is_not_durable_however_small_its_window() -> None:
    log = new_log(window=0)
    log.append([event(number) for number in range(100)], 0)
    assert log.first == 0
    log.mark_durable(41)
    assert log.first == 42
    assert log.since(42) == [event(number) for number in range(42, 100)]


def test_a_log_in_memory_forgets_the_oldest_and_says_so() -> None:
    log = new_log(window=200, stored=False)
    for number in range(50):
        log.append([event(number)], number)
    assert log.first > 0
    assert log.page(-1, 1000) is None
    assert log.page(log.first - 1, 10_000) == [event(number) for number in range(log.first, 50)]


def test_a_log_in_memory_keeps_its_terminal_event() -> None:
    log = new_log(window=0, stored=False)
    log.append([event(0), event(1)], 0)
    log.end(event(2, 500), durable=False)
    assert log.page(1, 1000) == [event(2, 500)]


def test_one_reader_that_crashes_leaves_the_run_and_the_others_alone() -> None:
    log = new_log()
    seen: list[int] = []

    def crash(batch: Batch) -> None:
        raise RuntimeError("a broken socket")

    log.listen(crash)
    log.listen(lambda batch: seen.append(batch.first))
    log.append([event(0)], 0)
    log.append([event(1)], 1)
    assert seen == [0, 1]
    assert log.listeners == 1


def test_a_reader_that_another_one_sent_away_gets_nothing_more() -> None:
    log = new_log()
    seen: list[int] = []

    def second(batch: Batch) -> None:
        seen.append(batch.first)

    log.listen(lambda batch: log.unlisten(second))
    log.listen(second)
    log.append([event(0)], 0)
    assert seen == []


def test_a_reader_that_attaches_while_a_batch_is_shown_gets_it_once() -> None:
    log = new_log()
    late = Reader(log, -1, lambda number: b"")

    def attach(batch: Batch) -> None:
        if not late.live:
            late.page(1000)

    log.listen(attach)
    log.append([event(0), event(1)], 0)
    log.append([event(2)], 2)
    assert late.got == [event(0), event(1), event(2)]


def test_reading_and_leaving_has_no_effect_on_other_readers() -> None:
    log = new_log()
    faithful = Reader(log, -1, lambda number: b"")
    faithful.page(1000)
    for number in range(50):
        visitor = Reader(log, -1, lambda n: b"")
        visitor.page(1000)
        visitor.fall_behind()
        log.append([event(number)], number)
    assert faithful.got == [event(number) for number in range(50)]
    assert log.listeners == 1


def test_a_log_taken_over_goes_on_after_the_kept_head() -> None:
    log = new_log(head=9)
    assert (log.first, log.shown, log.durable) == (10, 9, 9)
    log.append([event(10)], 10)
    assert log.page(9, 1000) == [event(10)]
    assert log.page(8, 1000) is None
