"""Claims, injects, deadlines, rounds and the end of the run, in every order hypothesis can think of."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from antiphon.core.held_answers import read_answers
from antiphon.core.held_calls import DEADLINE, Claim, HeldCall, HeldCalls, Resolution, Sender
from antiphon.errors import RequestError

SENDERS = [
    Sender("key:anna", "conn_1", "tab-1"),
    Sender("key:anna", "conn_2", "tab-1"),
    Sender("key:anna", "conn_3"),
    Sender("key:bob", "conn_4", "tab-1"),
    Sender("key:bob", "conn_5"),
]
senders = st.sampled_from(SENDERS)
numbers = st.integers(0, 4)


class Racing(RuleBasedStateMachine):
    """Between check and commit an answer is on its way to the store: there others may overtake it."""

    def __init__(self) -> None:
        super().__init__()
        self.held = HeldCalls()
        self.now = 1000.0
        self.opened: list[str] = []
        self.answers: dict[str, Resolution] = {}
        """What became true, by us: the first commit of each call."""
        self.on_the_way: list[tuple[Sender, list[Resolution]]] = []
        self.committed: Counter[str] = Counter()
        self.fences: dict[str, list[int]] = {}
        self.kept_claims: dict[str, Claim] = {}
        self.holder: dict[str, tuple[tuple[str, str], int, float]] = {}
        self.taken: list[str] = []

    def call_id(self, number: int) -> str:
        return self.opened[number % len(self.opened)] if self.opened else "none"

    @rule(side_effects=st.booleans(), waits=st.booleans(), deadline_s=st.integers(1, 60))
    def open(self, side_effects: bool, waits: bool, deadline_s: int) -> None:
        if self.held.over:
            return
        call_id = f"c{len(self.opened)}"
        self.opened.append(call_id)
        self.held.open(
            HeldCall(
                call_id,
                "look",
                "function_call",
                "0" * 64,
                self.now,
                self.now + deadline_s,
                "wait" if waits else "fail",
                side_effects,
            )
        )

    @rule(sender=senders, chosen=st.lists(numbers, min_size=1, max_size=3, unique=True), fence=st.none() | numbers)
    def begin_inject(self, sender: Sender, chosen: list[int], fence: int | None) -> None:
        call_ids = list(dict.fromkeys(self.call_id(number) for number in chosen))
        options: dict[str, Any] = {} if fence is None else {"antiphon": {"fence": fence}}
        given = [{"type": "function_call_output", "call_id": c, "output": "x", **options} for c in call_ids]
        try:
            new = self.held.check(read_answers(given), sender, self.now)
        except RequestError as error:
            self.judge_refusal(error, call_ids, sender)
            return
        for call_id in call_ids:
            known = self.answers.get(call_id)
            assert (known is None) == any(answer.call_id == call_id for answer in new)
            assert known is None or known.repeated_by(sender.identity, None)
        for answer in new:
            assert not self.held.over
            live = self.live_claim(answer.call_id)
            assert live is None or live[0] == sender.identity, "a foreign claim was overrun"
        if new:
            self.on_the_way.append((sender, new))

    def judge_refusal(self, error: RequestError, call_ids: list[str], sender: Sender) -> None:
        if error.code == "already_resolved":
            winner = error.extra["winner"]
            assert winner == self.answers[winner["call_id"]].row()
            assert winner["call_id"] in call_ids
            return
        foreign = [
            c for c in call_ids if c in self.answers and not self.answers[c].repeated_by(sender.identity, None)
        ]
        assert not foreign, "a loser was not told that it lost"
        if error.code == "claim_held":
            lives = [self.live_claim(c) for c in call_ids]
            assert any(live is not None and live[0] != sender.identity for live in lives)
        elif error.code == "response_already_completed":
            assert self.held.over
        elif error.code == "unknown_call":
            assert any(c not in self.opened or c in self.taken for c in call_ids)
        else:
            assert error.code == "stale_fence"

    @precondition(lambda self: self.on_the_way)
    @rule(number=numbers)
    def finish_inject(self, number: int) -> None:
        """The store takes lists one after the other, all of one or nothing of it."""
        _, answers = self.on_the_way.pop(number % len(self.on_the_way))
        if any(answer.call_id in self.answers for answer in answers):
            known = [self.answers[answer.call_id] for answer in answers if answer.call_id in self.answers]
            assert self.held.commit(known) == []
            return
        self.commit(answers)

    def commit(self, answers: list[Resolution]) -> None:
        for call in self.held.commit(answers):
            self.committed[call.call_id] += 1
        for answer in answers:
            self.answers.setdefault(answer.call_id, answer)
            self.holder.pop(answer.call_id, None)

    @rule(sender=senders, number=numbers, eligible=st.booleans(), lease_s=st.integers(1, 30))
    def claim(self, sender: Sender, number: int, eligible: bool, lease_s: int) -> None:
        call_id = self.call_id(number)
        live = self.live_claim(call_id)
        try:
            claim = self.held.claim(call_id, sender, lease_s, self.now, eligible=eligible)
        except RequestError as error:
            if error.code == "claim_held":
                assert live is not None and live[0] != sender.identity
            return
        assert call_id not in self.answers and not self.held.over
        fences = self.fences.setdefault(call_id, [0])
        if live is not None:
            assert live[0] == sender.identity and claim.fence == live[1]
        else:
            assert eligible and claim.fence > fences[-1], "fences strictly rise"
            fences.append(claim.fence)
        self.holder[call_id] = (sender.identity, claim.fence, claim.expires_at)
        self.kept_claims[call_id] = claim

    @rule(sender=senders, number=numbers, fence=numbers)
    def renew(self, sender: Sender, number: int, fence: int) -> None:
        call_id = self.call_id(number)
        try:
            claim = self.held.renew(call_id, sender, fence, 20, self.now)
        except RequestError:
            return
        assert self.holder[call_id][:2] == (sender.identity, fence)
        self.holder[call_id] = (sender.identity, fence, claim.expires_at)
        self.kept_claims[call_id] = claim

    @rule(sender=senders, number=numbers, fence=numbers)
    def release(self, sender: Sender, number: int, fence: int) -> None:
        call_id = self.call_id(number)
        try:
            self.kept_claims[call_id] = self.held.release(call_id, sender, fence)
        except RequestError:
            return
        assert self.holder.pop(call_id)[:2] == (sender.identity, fence)

    def live_claim(self, call_id: str) -> tuple[tuple[str, str], int, float] | None:
        holder = self.holder.get(call_id)
        return holder if holder is not None and holder[2] > self.now else None

    @rule(seconds=st.integers(0, 25))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def deadlines_pass(self) -> None:
        if self.held.over:
            return
        expired = self.held.expired(self.now)
        assert all(call.deadline <= self.now and call.on_expiry == "fail" for call in expired)
        late = [(call.call_id, call.late) for call in expired]
        self.commit(
            [Resolution(c, item, DEADLINE, DEADLINE, None, self.now) for c, item in late if item is not None]
        )
        assert self.held.expired(self.now) == []

    @rule()
    def next_round(self) -> None:
        if self.held.pending:
            return
        answers = self.held.take()
        assert [answer.call_id for answer in answers] == [c for c in self.opened if c not in self.taken]
        assert all(answer == self.answers[answer.call_id] for answer in answers)
        self.taken += [answer.call_id for answer in answers]

    @rule()
    def restart(self) -> None:
        """What was on its way to the store is lost; what the store took counts."""
        over = self.held.over
        self.on_the_way.clear()
        answers = sorted(self.answers.values(), key=lambda answer: answer.at)
        self.held = HeldCalls.restore(self.held.snapshot(), answers, self.kept_claims)
        if over:
            self.held.close()

    @precondition(lambda self: len(self.opened) > 3)
    @rule()
    def run_ends(self) -> None:
        self.held.close()

    @invariant()
    def each_call_has_at_most_one_answer_and_is_pending_until_then(self) -> None:
        assert all(count == 1 for count in self.committed.values())
        pending = [call.call_id for call in self.held.pending]
        assert pending == [c for c in self.opened if c not in self.answers]


TestRacing = Racing.TestCase
TestRacing.settings = settings(max_examples=150, stateful_step_count=40)
