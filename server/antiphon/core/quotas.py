"""What a tenant may use, and what each run is checked against. Decisions only: who counts is a ledger.

A ledger counts per tenant, in named counters. Their names hold the start of the period, so that a new period
begins at zero by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

from antiphon.core.periods import Period, adjective, retry_after_s, start_of
from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, RequestError

FINAL = {"x-should-retry": "false"}
"""Header of refusals that are the same in a moment."""
_SOON_S = 2
"""When to ask again for a slot: runs end all the time."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Upper limits of one tenant. None: unlimited; 0: nothing.

    agents: of its own that it may keep. concurrent_runs: runs without a terminal. journal_bytes: of event logs.
    feed_subscriptions: on one node.
    """

    requests_per_month: int | None = None
    requests_per_day: int | None = None
    tokens_per_month: int | None = None
    agents: int | None = None
    concurrent_runs: int | None = None
    journal_bytes: int | None = None
    feed_subscriptions: int | None = None

    def changed(self, numbers: Mapping[str, int | None]) -> Quota:
        """With these numbers in place of its own."""
        return replace(self, **numbers)


QUOTA_NAMES = tuple(field.name for field in fields(Quota))

TIERS: dict[str, Quota] = {
    "free": Quota(requests_per_month=1_000, requests_per_day=50, tokens_per_month=100_000, agents=1),
    "dev": Quota(requests_per_month=50_000, requests_per_day=2_000, tokens_per_month=5_000_000, agents=10),
    "pro": Quota(requests_per_month=500_000, requests_per_day=20_000, tokens_per_month=50_000_000),
    "enterprise": Quota(),
}
"""By name in lower case. Configuration changes and adds to it."""


@dataclass(frozen=True, slots=True)
class Check:
    """A run is admitted only while `counter` is below `limit`. period: after which it is worth asking again."""

    counter: str
    limit: int
    code: Literal["quota_exceeded", "budget_exceeded"]
    message: str
    period: Period

    def refusal(self, now: float) -> RequestError:
        """What the caller is told. now: Unix seconds."""
        headers = {"retry-after": str(retry_after_s(self.period, now)), **FINAL}
        return RequestError(self.message, code=self.code, headers=headers)


def refuse_slot() -> RequestError:
    """As many runs as the tenant may have are going on."""
    return RequestError(
        "As many runs of this tenant are going on as may at once.",
        code="too_many_runs",
        headers={"retry-after": str(_SOON_S)},
    )


def requests_counter(period: Period, at: float) -> str:
    return f"requests:{period}:{start_of(period, at)}"


def tokens_counter(at: float) -> str:
    return f"tokens:month:{start_of('month', at)}"


def quota_checks(quota: Quota, at: float) -> list[Check]:
    """In the order in which they are told: the month before the day."""
    checks = []
    if quota.requests_per_month is not None:
        checks.append(_request_check("month", quota.requests_per_month, at))
    if quota.requests_per_day is not None:
        checks.append(_request_check("day", quota.requests_per_day, at))
    return [*checks, *token_checks(quota, at)]


def token_checks(quota: Quota, at: float) -> list[Check]:
    """What is looked at again before each call of a model."""
    if quota.tokens_per_month is None:
        return []
    limit = quota.tokens_per_month
    return [Check(tokens_counter(at), limit, "quota_exceeded", "Monthly token quota exceeded", "month")]


def _request_check(period: Period, limit: int, at: float) -> Check:
    message = f"{adjective(period)} request quota exceeded"
    return Check(requests_counter(period, at), limit, "quota_exceeded", message, period)


def check_agents(quota: Quota, count: int) -> None:
    """Whether a tenant that has `count` agents may have one more. Raises RequestError."""
    if quota.agents is not None and count >= quota.agents:
        raise RequestError("Agent quota exceeded", code="quota_exceeded", headers=FINAL)


def check_feed_subscriptions(quota: Quota, count: int) -> None:
    """Whether a tenant that has `count` subscriptions to feeds may have one more. Raises RequestError."""
    if quota.feed_subscriptions is not None and count >= quota.feed_subscriptions:
        raise RequestError("Feed subscription quota exceeded", code="quota_exceeded", headers=FINAL)


@dataclass(frozen=True, slots=True)
class Ask:
    """Who wants to start what."""

    principal: Principal
    run_id: str
    agent: str | None


Ballot = Literal["allow", "abstain"] | AntiphonError
"""What a policy says; a denial is the error the caller gets."""

Policy = Callable[[Ask], Ballot]


def decide(ballots: Iterable[Ballot]) -> None:
    """Any denial wins, whatever the others say; the first one is told. Raises AntiphonError."""
    for ballot in ballots:
        if isinstance(ballot, AntiphonError):
            raise ballot
