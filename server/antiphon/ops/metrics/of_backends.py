"""Metrics of what stands behind the ports: the store, the bus, the shared feed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric

from antiphon.core.durations import Durations
from antiphon.journal.contract import Journal
from antiphon.ops.metrics.families import counter, gauge, histogram
from antiphon.ports import Bus
from antiphon.store.writing import Writer


@dataclass(frozen=True, slots=True)
class Shared:
    """What only several nodes have; on one machine nothing ever happens to it.

    flushes: writes to the journal on Redis. cuts: of the subscriber. feed_waiting_bytes, feed_lost: of this node's
    entries for the shared feed.
    """

    flushes: Durations = field(default_factory=Durations)
    cuts: Callable[[], int] = lambda: 0
    feed_waiting_bytes: Callable[[], int] = lambda: 0
    feed_lost: Callable[[], int] = lambda: 0


class BackendMetrics:
    """See `Exporter`."""

    def __init__(self, writer: Writer, journal: Journal, bus: Bus, shared: Shared) -> None:
        self._writer = writer
        self._journal = journal
        self._bus = bus
        self._shared = shared

    def collect(self) -> Iterable[Metric]:
        shared = self._shared
        yield histogram("store_commit", "Transactions of the store's writer.", self._writer.commits)
        yield gauge("store_queue", "Writes that wait for a transaction.", self._writer.waiting)
        yield gauge("journal_healthy", "1 if the last write of events worked.", self._journal.healthy)
        yield histogram("journal_flush", "Writes of events to Redis.", shared.flushes)
        yield gauge("bus_healthy", "1 if the last exchange over the bus worked.", self._bus.healthy)
        yield counter("bus_cuts", "Times the subscriber was cut off from Redis.", shared.cuts())
        yield gauge("lease_held", "1 while this node may act.", self._bus.held)
        yield gauge("feed_outbox_bytes", "Feed entries not yet in Redis.", shared.feed_waiting_bytes())
        yield counter("feed_entries_lost", "Feed entries that found no room.", shared.feed_lost())
