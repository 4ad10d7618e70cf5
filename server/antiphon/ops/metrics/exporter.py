"""What `GET /metrics` answers: all collectors of this node in the format that was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric


class Source(Protocol):
    """Something that knows numbers. It is asked in the event loop, at each scrape, and must not wait."""

    def collect(self) -> Iterable[Metric]: ...


class _Collector:
    """A source as the library wants it."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterable[Metric]:
        return self._source.collect()

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are known when they are collected, not at registration."""
        return ()


class Exporter:
    """A registry of its own: several servers in one process, as in tests, share nothing."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        for source in sources:
            self._registry.register(_Collector(source))

    def render(self, accept: str) -> tuple[bytes, str]:
        """The page and its media type. accept: the header of the request; Prometheus' own text without it."""
        encode, media_type = choose_encoder(accept)
        return encode(self._registry), media_type

    def names(self) -> set[str]:
        """Families as they are documented: a counter with its `_total`."""
        families = self._registry.collect()
        return {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
