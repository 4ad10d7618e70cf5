"""The lease of a node: when it may act, when it has to hold still, and when it may go on.

unconfirmed ──confirmed──▶ held ──not confirmed for 80 %, or found lost──▶ suspended
                             ▲                                                 │ confirmed
                             └──────────── took back what it owned ──── resuming
                                                                           │ not confirmed for 80 %
                                                                           └──▶ suspended
"""

from __future__ import annotations

from enum import Enum

SAFE_SHARE = 0.8
"""Of the lease, counted from the sending of its last renewal. The rest covers clocks that run apart and the time
between a look at the lease and the act it allows."""


class LeaseState(Enum):
    UNCONFIRMED = "unconfirmed"
    HELD = "held"
    SUSPENDED = "suspended"
    RESUMING = "resuming"


class LeaseEffect(Enum):
    """What the shell has to do after a step."""

    SUSPEND = "suspend"
    """Hold still: the node may not act any more."""
    RESUME = "resume"
    """Take back what was owned, then say `resumed`."""


class Lease:
    """What this node knows of its own lease. All times are monotonic seconds of this machine, handed in.

    deadline: until when the last confirmation is good. generation: rises with each interruption.
    """

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self.state = LeaseState.UNCONFIRMED
        self.deadline = 0.0
        self.generation = 0

    def holds(self, now: float) -> bool:
        """Whether the node may act. Says nothing of a deadline that passed unnoticed: see `check`."""
        return self.state is LeaseState.HELD and now < self.deadline

    def check(self, now: float) -> list[LeaseEffect]:
        """Notice that the deadline has passed."""
        if now < self.deadline or self.state not in (LeaseState.HELD, LeaseState.RESUMING):
            return []
        return self._interrupt(LeaseState.SUSPENDED)

    def confirmed(self, sent_at: float, now: float, *, was_lost: bool = False) -> list[LeaseEffect]:
        """A renewal sent at `sent_at` is acknowledged.

        was_lost: the lease had run out, or was wiped, before it: somebody may have taken what this node owned.
        """
        effects = self.check(now)
        self.deadline = max(self.deadline, sent_at + SAFE_SHARE * self.length_s)
        if now >= self.deadline:
            return effects
        if self.state is LeaseState.UNCONFIRMED:
            self.state = LeaseState.HELD
        elif self.state is LeaseState.SUSPENDED:
            self.state = LeaseState.RESUMING
            effects.append(LeaseEffect.RESUME)
        elif was_lost:
            effects += [*self._interrupt(LeaseState.RESUMING), LeaseEffect.RESUME]
        return effects

    def resumed(self, generation: int, now: float) -> bool:
        """What was owned is taken back. False: there was another interruption meanwhile, this came too late."""
        self.check(now)
        if self.state is not LeaseState.RESUMING or generation != self.generation:
            return False
        self.state = LeaseState.HELD
        return True

    def give_up(self) -> None:
        """The node stops: it may not act from here on, and nothing of it is to be taken back."""
        self.state = LeaseState.UNCONFIRMED
        self.deadline = 0.0
        self.generation += 1

    def _interrupt(self, state: LeaseState) -> list[LeaseEffect]:
        was_held = self.state is LeaseState.HELD
        self.state = state
        self.generation += 1
        return [LeaseEffect.SUSPEND] if was_held else []
