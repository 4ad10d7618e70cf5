"""The circuit breaker: when it opens, who probes it, and what closes it."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from antiphon.core.breaker import CircuitBreaker

OPEN_S = 30.0


def admitted(breaker: CircuitBreaker, now: float = 0.0) -> int:
    permit = breaker.admit(now)
    assert permit is not None
    return permit


def fail(breaker: CircuitBreaker, times: int = 1, now: float = 0.0) -> None:
    for _ in range(times):
        breaker.failed(admitted(breaker, now), now)


def opened(limit: int = 5) -> CircuitBreaker:
    """One that opened at 0."""
    breaker = CircuitBreaker(limit, OPEN_S)
    fail(breaker, limit)
    return breaker


def test_five_failures_in_a_row_open_it_for_thirty_seconds() -> None:
    breaker = CircuitBreaker(5, OPEN_S)
    fail(breaker, 4)
    assert (breaker.state(0), breaker.failures) == ("closed", 4)
    fail(breaker)
    assert (breaker.state(0), breaker.opened_until) == ("open", 30)
    assert breaker.admit(29.9) is None
    assert breaker.retry_after_s(10) == 20


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = CircuitBreaker(5, OPEN_S)
    fail(breaker, 4)
    breaker.succeeded(admitted(breaker))
    fail(breaker, 4)
    assert breaker.state(0) == "closed"


def test_an_answer_that_is_no_success_neither_counts_nor_starts_the_count_again() -> None:
    breaker = CircuitBreaker(5, OPEN_S)
    fail(breaker, 4)
    breaker.answered(admitted(breaker))
    breaker.released(admitted(breaker))
    assert breaker.failures == 4
    fail(breaker)
    assert breaker.state(0) == "open"


def test_one_probe_is_let_through_and_everybody_else_is_refused_meanwhile() -> None:
    breaker = opened()
    assert breaker.state(30) == "half_open"
    assert breaker.admit(30) is not None
    assert [breaker.admit(now) for now in (30, 40, 1000)] == [None, None, None]
    assert breaker.retry_after_s(40) == 1


def test_a_probe_that_is_answered_closes_it_at_once_and_its_later_break_counts_as_the_first() -> None:
    breaker = opened()
    probe = admitted(breaker, 30)
    breaker.answered(probe)
    assert (breaker.state(30), breaker.failures) == ("closed", 0)
    breaker.failed(probe, 31)
    assert (breaker.state(31), breaker.failures) == ("closed", 1)


def test_a_probe_that_fails_opens_it_for_the_whole_time_again() -> None:
    breaker = opened()
    fail(breaker, now=31)
    assert breaker.admit(60.9) is None
    assert breaker.admit(61) is not None


def test_a_probe_that_is_given_up_lets_the_next_call_probe() -> None:
    breaker = opened()
    given_up = admitted(breaker, 30)
    breaker.released(given_up)
    assert breaker.state(30) == "half_open"
    probe = admitted(breaker, 30)
    breaker.released(given_up)
    breaker.failed(given_up, 30)
    assert breaker.admit(30) is None, "the new probe is still the only one"
    breaker.succeeded(probe)
    assert breaker.state(30) == "closed"


def test_calls_from_before_it_opened_change_nothing() -> None:
    breaker = CircuitBreaker(2, OPEN_S)
    early, late, slow = (admitted(breaker) for _ in range(3))
    breaker.failed(early, 0)
    breaker.failed(late, 0)
    assert breaker.state(0) == "open"
    breaker.succeeded(slow)
    assert breaker.state(0) == "open"
    probe = admitted(breaker, 30)
    breaker.failed(slow, 30)
    breaker.released(slow)
    breaker.answered(slow)
    assert breaker.admit(30) is None
    breaker.succeeded(probe)
    assert breaker.state(30) == "closed"


class AnyOrder(RuleBasedStateMachine):
    """Calls that begin and end in any order, beside a plain account of what must come out."""

    LIMIT = 3

    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker(self.LIMIT, OPEN_S)
        self.now = 0.0
        self.running: list[int] = []
        self.counting: set[int] = set()
        self.probe: int | None = None
        self.calls = 0
        self.permits: dict[int, int] = {}
        self.in_a_row = 0
        self.until: float | None = None

    @rule(seconds=st.sampled_from([0.0, 1.0, 29.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begin(self) -> None:
        permit = self.breaker.admit(self.now)
        expected = self.until is None or (self.now >= self.until and self.probe is None)
        assert (permit is not None) == expected
        if permit is None:
            assert self.breaker.retry_after_s(self.now) >= 1
            return
        self.calls += 1
        self.permits[self.calls] = permit
        self.running.append(self.calls)
        self.counting.add(self.calls)
        if self.until is not None:
            self.probe = self.calls

    @rule(how=st.sampled_from(["succeeded", "failed", "answered", "released"]), which=st.integers(0, 20))
    def end(self, how: str, which: int) -> None:
        if not self.running:
            return
        call = self.running.pop(which % len(self.running))
        permit = self.permits[call]
        if how == "failed":
            self.breaker.failed(permit, self.now)
        else:
            getattr(self.breaker, how)(permit)
        if call not in self.counting:
            return
        is_probe = call == self.probe
        if how == "failed":
            self.in_a_row += 1
            if is_probe or self.in_a_row >= self.LIMIT:
                self.until, self.probe = self.now + OPEN_S, None
                self.counting.clear()
        elif how == "succeeded" or (how == "answered" and is_probe):
            self.in_a_row, self.until, self.probe = 0, None, None
        elif is_probe:
            self.probe = None

    @invariant()
    def it_is_in_the_state_that_what_happened_asks_for(self) -> None:
        assert self.breaker.opened_until == self.until
        assert self.breaker.failures == self.in_a_row
        state = self.breaker.state(self.now)
        assert (state == "closed") == (self.until is None)
        assert state != "open" or self.now < (self.until or 0)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=40)
