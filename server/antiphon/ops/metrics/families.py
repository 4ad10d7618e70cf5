"""How our numbers become families of Prometheus: each function gives one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from antiphon.core.durations import BUCKETS_S, Durations

PREFIX = "antiphon_"

Labels = tuple[str, ...]
Values = Iterable[tuple[Labels, float]]
"""Numbers by the values of their labels."""

_ENDS = (*(f"{end:g}" for end in BUCKETS_S), "+Inf")


def counter(name: str, about: str, value: float) -> Metric:
    """What only rises. name: without the prefix and `_total`."""
    return CounterMetricFamily(PREFIX + name, about, value=value)


def counters(name: str, about: str, labels: Labels, values: Values) -> Metric:
    """As `counter`, one for each combination of labels that was seen."""
    family = CounterMetricFamily(PREFIX + name, about, labels=labels)
    for key, value in sorted(values):
        family.add_metric(key, value)
    return family


def gauge(name: str, about: str, value: float) -> Metric:
    """How something is now."""
    return GaugeMetricFamily(PREFIX + name, about, value=value)


def gauges(name: str, about: str, labels: Labels, values: Values) -> Metric:
    """As `gauge`, one for each combination of labels."""
    family = GaugeMetricFamily(PREFIX + name, about, labels=labels)
    for key, value in sorted(values):
        family.add_metric(key, value)
    return family


def histogram(name: str, about: str, durations: Durations) -> Metric:
    """Durations in seconds. name: without `_seconds`."""
    return histograms(name, about, (), [((), durations)])


def histograms(name: str, about: str, labels: Labels, durations: Iterable[tuple[Labels, Durations]]) -> Metric:
    """As `histogram`, one for each combination of labels."""
    family = HistogramMetricFamily(f"{PREFIX}{name}_seconds", about, labels=labels)
    for key, given in sorted(durations, key=lambda one: one[0]):
        # A copy, because the store's thread may add meanwhile: count and buckets have to agree.
        buckets = list(zip(_ENDS, accumulate(list(given.in_bucket)), strict=True))
        family.add_metric(key, buckets, given.sum_s)
    return family
