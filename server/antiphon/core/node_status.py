"""What each node says of itself, and the one picture that is made of it (`GET /v1/admin/status`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from antiphon.core.durations import percentile

NodeState = Literal["ready", "draining", "suspended"]

_WORST_FIRST = ("open", "half_open", "closed")


@dataclass(frozen=True, slots=True)
class UpstreamReport:
    """A configured upstream as one node sees it. failures: in a row. open_until: Unix seconds, None while closed.

    calls: attempts since the start. newest_ms: how long the newest whole answers took.
    """

    name: str
    breaker: str
    failures: int
    open_until: float | None
    calls: int
    newest_ms: Sequence[int]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node. started_at, lease_expires_at: Unix seconds; the latter None where there is no lease.

    All counts are those since its start. first_token_ms: newest times from a create to its first output, out of
    first_tokens.
    """

    id: str
    state: NodeState
    version: str
    started_at: float
    live_runs: int
    sockets: int
    loop_lag_ms: float
    lease_expires_at: float | None
    runs_started: int
    events: int
    output_tokens: int
    first_tokens: int
    first_token_ms: Sequence[int]
    errors: dict[str, int]
    upstreams: list[UpstreamReport] = field(default_factory=list)

    @classmethod
    def read(cls, fields: dict[str, Any]) -> NodeReport:
        """From JSON values; those of a later version may hold more. Raises KeyError, TypeError where some lack."""
        names = UpstreamReport.__dataclass_fields__
        upstreams = [UpstreamReport(**{name: given[name] for name in names}) for given in fields["upstreams"]]
        known = {name: fields[name] for name in cls.__dataclass_fields__}
        return cls(**known | {"upstreams": upstreams})

    def row(self, asked: str, *, with_sums: bool) -> dict[str, Any]:
        """Its line among `nodes`. asked: the node that answers. with_sums: also what it has of all tenants."""
        expires_at = self.lease_expires_at
        return {
            "id": self.id,
            "self": self.id == asked,
            "state": self.state,
            "version": self.version,
            "started_at": self.started_at,
            "live_runs": self.live_runs if with_sums else None,
            "sockets": self.sockets if with_sums else None,
            "loop_lag_ms": self.loop_lag_ms,
            "lease": {"expires_at": expires_at} if expires_at is not None else None,
        }


def silent_row(node: str) -> dict[str, Any]:
    """The line of a node that has a lease and did not answer in time."""
    unknown = dict.fromkeys(("version", "started_at", "live_runs", "sockets", "loop_lag_ms", "lease"))
    return {"id": node, "self": False, "state": "silent", **unknown}


def merge_upstreams(reports: Iterable[NodeReport]) -> list[dict[str, Any]]:
    """Each upstream once: its worst breaker of any node, all calls, the newest answers of all."""
    by_name: dict[str, list[UpstreamReport]] = {}
    for report in reports:
        for upstream in report.upstreams:
            by_name.setdefault(upstream.name, []).append(upstream)
    return [_merged(name, seen) for name, seen in by_name.items()]


def _merged(name: str, seen: Sequence[UpstreamReport]) -> dict[str, Any]:
    return {
        "name": name,
        "breaker": min((one.breaker for one in seen), key=_WORST_FIRST.index),
        "failures": max(one.failures for one in seen),
        "open_until": max((one.open_until for one in seen if one.open_until is not None), default=None),
        "calls": sum(one.calls for one in seen),
        "latency_ms": percentiles([value for one in seen for value in one.newest_ms]),
    }


def totals(reports: Sequence[NodeReport]) -> dict[str, Any]:
    """The sums over all nodes."""
    errors: Counter[str] = Counter()
    for report in reports:
        errors.update(report.errors)
    first = percentiles([value for report in reports for value in report.first_token_ms])
    if first is not None:
        first["count"] = sum(report.first_tokens for report in reports)
    return {
        "runs_started": sum(report.runs_started for report in reports),
        "runs_live": sum(report.live_runs for report in reports),
        "events": sum(report.events for report in reports),
        "output_tokens": sum(report.output_tokens for report in reports),
        "first_token_ms": first,
        "errors": dict(errors),
    }


def percentiles(values_ms: Sequence[int]) -> dict[str, Any] | None:
    """Median and 99th percentile; None without values."""
    if not values_ms:
        return None
    return {"p50": percentile(values_ms, 0.5), "p99": percentile(values_ms, 0.99)}
