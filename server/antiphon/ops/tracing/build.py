"""Switches tracing on, if it is to be on."""

from __future__ import annotations

from importlib.util import find_spec

from antiphon.errors import StartupError
from antiphon.ops.registry import RunRegistry
from antiphon.ops.tracing.contract import Tracing
from antiphon.settings.observability import TracingSettings

_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def build_tracing(settings: TracingSettings, registry: RunRegistry) -> Tracing | None:
    """None where it is switched off; then nothing of OpenTelemetry is loaded. Raises StartupError without it."""
    if not settings.enabled:
        return None
    check_installed()
    from antiphon.ops.tracing.exporting import export_traces

    return export_traces(settings, registry)


def check_installed() -> None:
    """Raises StartupError if what tracing needs is not there."""
    for module in _NEEDED:
        if not _is_installed(module):
            raise StartupError(
                f"tracing.enabled needs {module}, which is not installed: pip install 'antiphon[otel]'"
            )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
