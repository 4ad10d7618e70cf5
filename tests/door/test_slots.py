"""Counts of what is held: never above the limit, never below nothing, and back at nothing in the end."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from antiphon.core.slots import Slots

LIMIT = 3
KEYS = st.sampled_from("abc")


def test_what_nobody_took_cannot_be_freed() -> None:
    slots = Slots()
    assert slots.take("a", None)
    slots.free("a")
    for key in "ab":
        with pytest.raises(ValueError, match="holds nothing"):
            slots.free(key)


class TakeAndFree(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.slots = Slots()
        self.model: dict[str, int] = dict.fromkeys("abc", 0)

    @rule(key=KEYS)
    def take(self, key: str) -> None:
        assert self.slots.take(key, LIMIT) == (self.model[key] < LIMIT)
        self.model[key] += self.model[key] < LIMIT

    @rule(key=KEYS)
    def take_without_limit(self, key: str) -> None:
        assert self.slots.take(key, None)
        self.model[key] += 1

    @rule(key=KEYS)
    def free(self, key: str) -> None:
        if self.model[key]:
            self.slots.free(key)
            self.model[key] -= 1

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        assert {key: self.slots.held(key) for key in "abc"} == self.model
        assert len(self.slots) == sum(count > 0 for count in self.model.values())


TestTakeAndFree = TakeAndFree.TestCase
