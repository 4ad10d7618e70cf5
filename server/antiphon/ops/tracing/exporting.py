"""Where traces go: OTLP over HTTP, from a thread of the library that collects them for a few seconds."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased

from antiphon import __version__
from antiphon.ops.registry import RunRegistry
from antiphon.ops.tracing.ids import RatioOfRuns, RunIds
from antiphon.ops.tracing.runs import RunTraces
from antiphon.settings.observability import TracingSettings

_EXPORT_WITHIN_S = 3.0
"""One attempt to send. A collector that is away costs spans, never runs."""


def export_traces(settings: TracingSettings, registry: RunRegistry) -> RunTraces:
    """Traces that go to the collector of the settings."""
    exporter = OTLPSpanExporter(endpoint=settings.endpoint or None, timeout=_EXPORT_WITHIN_S)
    return traces_to(BatchSpanProcessor(exporter), settings, registry)


def traces_to(processor: SpanProcessor, settings: TracingSettings, registry: RunRegistry) -> RunTraces:
    """Traces that go wherever `processor` sends them."""
    resource = Resource.create({"service.name": settings.service_name, "service.version": __version__})
    ids, sampler = RunIds(), RatioOfRuns(settings.sample_ratio)
    # Ours alone: the global provider belongs to a program that embeds the server.
    provider = TracerProvider(
        sampler=ParentBased(sampler), resource=resource, id_generator=ids, shutdown_on_exit=False
    )
    provider.add_span_processor(processor)
    return RunTraces(
        provider, ids, sampler, registry, trust_callers=settings.trust_callers, propagate=settings.propagate
    )
