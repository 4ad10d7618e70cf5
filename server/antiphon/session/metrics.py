"""Metrics of the open sockets."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from antiphon.ops.metrics.families import gauge
from antiphon.session.hub import Hub


class SocketMetrics:
    """See `ops/metrics/exporter.py:Exporter`."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def collect(self) -> Iterable[Metric]:
        yield gauge("sockets", "Open sockets that are let in.", len(self._hub))
        yield gauge("outbox_bytes", "Written to them, not yet taken by the system.", self._hub.unsent_bytes)
