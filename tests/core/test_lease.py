"""The lease of a node: it never acts on an old confirmation, and is told of each loss once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from antiphon.core.lease import SAFE_SHARE, Lease, LeaseEffect, LeaseState

LENGTH_S = 5.0
SAFE_S = SAFE_SHARE * LENGTH_S


def held() -> Lease:
    lease = Lease(LENGTH_S)
    assert lease.confirmed(0.0, 0.1) == []
    return lease


def suspended() -> Lease:
    lease = held()
    assert lease.check(SAFE_S) == [LeaseEffect.SUSPEND]
    return lease


def test_the_first_confirmation_is_no_return() -> None:
    assert held().holds(0.1)


def test_time_counts_from_the_sending_of_the_renewal() -> None:
    lease = held()
    assert lease.holds(SAFE_S - 0.001)
    assert not lease.holds(SAFE_S)


def test_an_answer_that_took_longer_than_the_lease_confirms_nothing() -> None:
    lease = suspended()
    assert lease.confirmed(1.0, 1.0 + SAFE_S) == []
    assert lease.state is LeaseState.SUSPENDED


def test_a_loss_is_told_once() -> None:
    lease = suspended()
    assert lease.check(SAFE_S + 1) == []


def test_a_suspended_node_acts_again_only_when_it_took_back_what_it_owned() -> None:
    lease = suspended()
    assert lease.confirmed(10.0, 10.1) == [LeaseEffect.RESUME]
    assert not lease.holds(10.1)
    assert lease.resumed(lease.generation, 10.2)
    assert lease.holds(10.2)


def test_a_lease_that_was_found_missing_is_a_loss_even_within_its_time() -> None:
    lease = held()
    assert lease.confirmed(1.0, 1.1, was_lost=True) == [LeaseEffect.SUSPEND, LeaseEffect.RESUME]
    assert not lease.holds(1.1)


def test_a_loss_while_things_are_taken_back_makes_that_void() -> None:
    lease = suspended()
    lease.confirmed(10.0, 10.1)
    generation = lease.generation
    assert lease.check(10.0 + SAFE_S) == [], "the node was told already that it may not act"
    lease.confirmed(20.0, 20.1)
    assert not lease.resumed(generation, 20.2)
    assert lease.resumed(lease.generation, 20.3)


def test_a_lease_that_was_given_up_holds_nothing_and_tells_nothing() -> None:
    lease = held()
    lease.give_up()
    assert not lease.holds(0.2)
    assert lease.check(99.0) == []


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100))
def test_an_older_confirmation_takes_nothing_away(first: float, second: float, at: float) -> None:
    """Answers of two renewals may come in any order."""
    lease = Lease(LENGTH_S)
    now = max(first, second)
    lease.confirmed(max(first, second), now)
    lease.confirmed(min(first, second), now)
    assert lease.holds(at) == (at < now + SAFE_S)


class LeaseMachine(RuleBasedStateMachine):
    """Any order of renewals, lost answers, looks and returns."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = Lease(LENGTH_S)
        self.now = 0.0
        self.newest_sent_at: float | None = None
        self.may_act = False
        self.generation: int | None = None

    def apply(self, effects: list[LeaseEffect]) -> None:
        for effect in effects:
            if effect is LeaseEffect.SUSPEND:
                assert self.may_act, "told of a loss twice, or before anything was held"
                self.may_act = False
            else:
                assert not self.may_act, "resumed without a loss"
                self.generation = self.lease.generation

    @rule(seconds=st.floats(0, 3))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def look(self) -> None:
        self.apply(self.lease.check(self.now))

    @rule(took_s=st.floats(0, 8), was_lost=st.booleans())
    def renew(self, took_s: float, was_lost: bool) -> None:
        sent_at = self.now
        self.now += took_s
        first = self.newest_sent_at is None
        self.newest_sent_at = sent_at
        self.apply(self.lease.confirmed(sent_at, self.now, was_lost=was_lost and not first))
        if first and took_s < SAFE_S:
            self.may_act = True
        elif first:
            self.newest_sent_at = None

    @rule()
    def took_back(self) -> None:
        if self.generation is None:
            return
        generation, self.generation = self.generation, None
        if self.lease.resumed(generation, self.now):
            self.may_act = True

    @invariant()
    def acts_only_on_a_fresh_confirmation(self) -> None:
        if self.lease.holds(self.now):
            assert self.may_act
            assert self.newest_sent_at is not None
            assert self.now < self.newest_sent_at + SAFE_S


TestLeaseMachine = LeaseMachine.TestCase
