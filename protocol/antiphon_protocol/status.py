"""Body of `GET /v1/admin/status`: how the whole installation does."""

from __future__ import annotations

from typing import Literal

from antiphon_protocol.base import Count, Id, Wire

BreakerState = Literal["closed", "half_open", "open"]


class NodeLease(Wire):
    """`expires_at`: Unix seconds; the node renews it long before."""

    expires_at: float


class NodeStatus(Wire):
    """One node. `silent`: it has a lease and did not answer; then nothing else is known of it.

    `self`: it gave this answer. `loop_lag_ms`: how late its event loop was at worst in the last ten seconds.
    `live_runs`, `sockets`: for admins only, null for others.
    """

    id: Id
    self: bool
    state: Literal["ready", "draining", "suspended", "silent"]
    version: str | None
    started_at: float | None
    live_runs: Count | None
    sockets: Count | None
    loop_lag_ms: float | None
    lease: NodeLease | None


class Percentiles(Wire):
    """Of the newest measurements, in milliseconds."""

    p50: float
    p99: float


class CountedPercentiles(Percentiles):
    """`count`: of all since the start."""

    count: Count


class UpstreamStatus(Wire):
    """A configured model server: its worst breaker of any node. `open_until`: Unix seconds."""

    name: str
    breaker: BreakerState
    failures: Count
    open_until: float | None
    calls: Count
    latency_ms: Percentiles | None


class BusStatus(Wire):
    """How the node that answered reaches the others. `detail`: a sentence for people."""

    kind: Literal["memory", "redis"]
    healthy: bool
    detail: str | None


class StoreStatus(Wire):
    """How the node that answered reaches the store."""

    kind: Literal["sqlite", "postgresql"]
    healthy: bool


class Totals(Wire):
    """Sums since the start, of all nodes that answered. `errors`: failed runs and refused creates."""

    runs_started: Count
    runs_live: Count
    events: Count
    output_tokens: Count
    first_token_ms: CountedPercentiles | None
    errors: dict[str, Count]


class Status(Wire):
    """The answer. `totals`: for admins only, null for others."""

    object: Literal["status"]
    at: float
    version: str
    node: Id
    nodes: list[NodeStatus]
    upstreams: list[UpstreamStatus]
    bus: BusStatus
    store: StoreStatus
    totals: Totals | None
