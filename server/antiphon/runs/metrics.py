"""Metrics of the engine: events, leases, claims, mirrors of other nodes' runs, model servers, the feed."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from antiphon.ops.metrics.families import counter, counters, gauge, gauges, histograms
from antiphon.runs.engine import Engine

_BREAKER = ("closed", "half_open", "open")
_CLAIMS = ("claimed", "renewed", "released")


class EngineMetrics:
    """See `ops/metrics/exporter.py:Exporter`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterable[Metric]:
        engine = self._engine
        events = engine.journal.appended + engine.counts.terminals
        yield counter("events", "Events that runs of this node wrote.", events)
        yield gauge("draining", "1 while this node takes no new work.", engine.service.draining)
        made = {(action,): engine.held.claims.made[action] for action in _CLAIMS}
        yield counters("claims", "What clients did with claims on calls.", ("action",), made.items())
        yield gauge("feed_subscribers", "Subscriptions to the feed.", engine.feeds.subscriptions)
        yield counter("feed_coalesced", "Changes told with a later one.", engine.feeds.coalesced)
        yield from self._ownership()
        yield from self._mirrors()
        yield from self._upstreams()

    def _ownership(self) -> Iterable[Metric]:
        engine = self._engine
        yield counter("lease_suspensions", "Times the lease was in doubt.", engine.ownership.suspensions)
        yield counter("runs_lost", "Runs another node took from this one.", engine.ownership.runs_lost)
        yield counter("runs_adopted", "Runs this node took over.", engine.adopter.adopted)

    def _mirrors(self) -> Iterable[Metric]:
        remote = self._engine.remote
        yield gauge("tailers", "Runs of other nodes that are followed here.", len(remote.all()))
        yield gauge("tailer_behind_seconds", "Longest that one of them lacks events.", remote.behind_s)
        yield counter("tailer_looks", "Looks at the journal for them.", remote.tails.looks)
        yield counter("tailer_repaired_events", "Events no hint brought.", remote.tails.repaired)

    def _upstreams(self) -> Iterable[Metric]:
        states = {(state.name,): state for state in self._engine.router.states()}
        label = ("upstream",)
        calls = {key: state.calls for key, state in states.items()}
        yield counters("upstream_calls", "Calls of model servers.", label, calls.items())
        retries = {key: state.retries for key, state in states.items()}
        yield counters("upstream_retries", "Calls that were made again.", label, retries.items())
        failures = {key: state.failed for key, state in states.items()}
        yield counters("upstream_failures", "Calls that failed by their fault.", label, failures.items())
        opened = {key: state.opened for key, state in states.items()}
        yield counters("upstream_breaker_opened", "Times a breaker opened.", label, opened.items())
        breakers = {
            (*key, breaker): float(state.breaker == breaker)
            for key, state in states.items()
            for breaker in _BREAKER
        }
        yield gauges(
            "upstream_breaker", "1 for the state of its breaker.", ("upstream", "state"), breakers.items()
        )
        first = {key: state.first_output for key, state in states.items()}
        yield histograms("upstream_first_output", "From a call to its first output.", label, first.items())
        whole = {key: state.whole for key, state in states.items()}
        yield histograms("upstream_answer", "From a call to the end of its answer.", label, whole.items())
