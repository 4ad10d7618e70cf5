"""Metrics of what was counted on this node: runs, refusals, readers, tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from antiphon import __version__
from antiphon.core.run_state import TERMINAL, TRANSITIONS
from antiphon.ops.counts import Counts
from antiphon.ops.loop_lag import LoopLag
from antiphon.ops.metrics.families import counter, counters, gauge, gauges, histogram
from antiphon.ops.registry import RunRegistry

_LIVE = [state for state in TRANSITIONS if state not in TERMINAL]


class CountsMetrics:
    """See `Exporter`."""

    def __init__(self, counts: Counts, registry: RunRegistry, lag: LoopLag) -> None:
        self._counts = counts
        self._registry = registry
        self._lag = lag

    def collect(self) -> Iterable[Metric]:
        yield gauges("build_info", "Version of the server.", ("version",), [((__version__,), 1)])
        yield histogram("event_loop_lag", "How late a timer of the event loop was.", self._lag.lags)
        yield from self._live()
        yield from self._runs()
        yield from self._tools()
        yield from self._readers()

    def _live(self) -> Iterable[Metric]:
        states: Counter[tuple[str, ...]] = Counter({(state,): 0 for state in _LIVE})
        pending = 0
        for run in self._registry:
            if run.state not in TERMINAL:
                states[(run.state,)] += 1
                pending += len(run.pending_calls)
        yield gauges("runs", "Live runs of this node by state.", ("state",), states.items())
        yield gauge("pending_calls", "Calls that wait for a client.", pending)

    def _runs(self) -> Iterable[Metric]:
        counts = self._counts
        yield counter("runs_started", "Runs that began here.", counts.runs_started)
        yield counters("runs_ended", "Ends of runs.", ("state", "code"), counts.runs_ended.items())
        refused: Counter[tuple[str, ...]] = Counter()
        creates: Counter[tuple[str, ...]] = Counter()
        for (where, code), number in counts.refused.items():
            if where == "create":
                creates[(code,)] += number
            else:
                refused[where, code] += number
        yield counters("creates_refused", "Creates that became no run.", ("code",), creates.items())
        yield counters(
            "refusals",
            "Requests, frames and upgrades that were refused; creates over HTTP are among them.",
            ("where", "code"),
            refused.items(),
        )
        tokens = {("input",): counts.input_tokens, ("output",): counts.output_tokens}
        yield counters("tokens", "Tokens of model calls that are over.", ("direction",), tokens.items())
        yield histogram("first_output", "From a create to its first output.", counts.first_output)
        yield histogram("run_duration", "From a create to its end.", counts.whole_run)
        yield histogram("cancel", "From a cancel to the end of the run.", counts.cancels)

    def _tools(self) -> Iterable[Metric]:
        counts = self._counts
        yield counters(
            "tool_calls", "Calls that got an answer.", ("owner", "result"), counts.tools_resolved.items()
        )
        yield histogram("server_tool", "Calls that the server made.", counts.server_tools)
        yield histogram("client_tool_wait", "From a call of a client to its answer.", counts.client_waits)

    def _readers(self) -> Iterable[Metric]:
        counts = self._counts
        yield counters("attaches", "Attachments to runs.", ("transport", "mode"), counts.attaches.items())
        yield counter("replayed_events", "Events that attachments had to catch up with.", counts.replayed)
        yield counter("attachments_parked", "Times an attachment fell behind its run.", counts.parked)
        evicted = {(transport,): counts.evicted[transport] for transport in ("websocket", "sse")}
        yield counters("evictions", "Readers cut off because they took nothing.", ("transport",), evicted.items())
        closes = {(str(code),): number for code, number in counts.closes.items()}
        yield counters("socket_closes", "Sockets that are over.", ("code",), closes.items())
