"""The frames of the feed: every run of a tenant, live (PROTOCOL 10.10)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from antiphon_protocol.base import Command, Count, Id, Wire, opt
from antiphon_protocol.runstate import RunState, State

Term = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Terms = Term | Annotated[list[Term], Field(max_length=100)]
"""One value, or several of which one has to be equal. An empty list lets everything through."""


class FeedFilter(Wire):
    """Which runs to tell of: those in which every field that is given here has one of its values."""

    model_config = ConfigDict(extra="forbid")

    state: State | Annotated[list[State], Field(max_length=100)] | None = opt()
    agent: Terms | None = opt("The name of the agent.")
    model: Terms | None = opt()
    principal: Terms | None = opt("Who created the run.")
    conversation_id: Terms | None = opt()


class FeedPosition(Wire):
    """A place in a feed: that of a bookmark or a delta."""

    epoch: Id
    rev: Count


class FeedSubscribe(Command):
    """Tell me of the runs of my tenant. A second subscription to the same tenant takes the place of the first."""

    type: Literal["antiphon:feed.subscribe"] = "antiphon:feed.subscribe"
    filter: FeedFilter | None = opt()
    tenant: Id | None = opt("Another one than the caller's own; for admins.")
    from_: FeedPosition | None = Field(
        default=None, alias="from", exclude_if=lambda value: value is None, description="Go on after it."
    )
    mode: Literal["all", "latest"] = Field(
        default="all", description="`latest`: changes of a run that come close together are told as one."
    )


class FeedUnsubscribe(Command):
    """No more of it."""

    type: Literal["antiphon:feed.unsubscribe"] = "antiphon:feed.unsubscribe"
    tenant: Id | None = opt("Absent: the caller's own.")


class FeedItem(Wire):
    """A run as it stands when the subscription begins."""

    type: Literal["antiphon:feed.item"] = "antiphon:feed.item"
    tenant: Id
    run: RunState


class FeedBookmark(Wire):
    """Everything up to here has been told."""

    type: Literal["antiphon:feed.bookmark"] = "antiphon:feed.bookmark"
    id: Id | None = opt("Of the subscription that this answers.")
    tenant: Id
    epoch: Id
    rev: Count
    initial: Literal[True] | None = opt("All items have been given; deltas follow.")


class FeedDelta(Wire):
    """Something happened to a run."""

    type: Literal["antiphon:feed.delta"] = "antiphon:feed.delta"
    tenant: Id
    epoch: Id = Field(description="Of the feed, not of the run.")
    rev: int = Field(ge=1)
    prev: Count = Field(description="`rev` of the bookmark or delta before it on this subscription.")
    event: str = Field(pattern=r"^run\.[a-z_.]+$")
    op: Literal["upsert", "remove"] = Field(description="`remove`: the run does not pass the filter any more.")
    run: RunState = Field(description="The run after the event.")
    data: dict[str, Any]
    at: float = Field(description="Unix seconds.")
    coalesced: int | None = opt("How many changes of the run this one stands for, if it is more than one.", ge=2)


class FeedReset(Wire):
    """Forget all runs: items and an initial bookmark follow."""

    type: Literal["antiphon:feed.reset"] = "antiphon:feed.reset"
    tenant: Id
    reason: Literal["epoch", "too_old", "access"]


class RunProgress(Wire):
    """How far a run has come."""

    response_id: Id
    head: Count
    output_tokens: Count | None = opt()


class FeedProgress(Wire):
    """Runs that moved in the last second. It has no number and may be missing."""

    type: Literal["antiphon:feed.progress"] = "antiphon:feed.progress"
    tenant: Id
    runs: list[RunProgress]


class LiveRuns(Wire):
    """Body of `GET /v1/runs`. epoch, rev: where the feed stood."""

    object: Literal["list"]
    data: list[RunState]
    epoch: Id
    rev: Count


class TimelineEntry(Wire):
    """What happened to a run, and when."""

    event: str = Field(pattern=r"^run\.[a-z_.]+$")
    at: float = Field(description="Unix seconds.")
    data: dict[str, Any]


class RunWithTimeline(Wire):
    """Body of `GET /v1/runs/{id}`."""

    object: Literal["run"]
    run: RunState
    timeline: list[TimelineEntry] = Field(description="What the feed still has of the run, oldest first.")


class KnownTenant(Wire):
    """A tenant as an admin sees it."""

    id: Id
    paused: bool
    live_runs: Count = Field(description="Runs that have not ended, on all nodes.")


class TenantList(Wire):
    """Body of `GET /v1/admin/tenants`."""

    object: Literal["list"]
    data: list[KnownTenant]
