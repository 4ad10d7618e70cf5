"""What `antiphon doctor` says of monitoring."""

from __future__ import annotations

from antiphon.cli.doctor_tools import Check
from antiphon.ops.tracing.build import check_installed
from antiphon.settings import Settings


def monitoring_checks(settings: Settings) -> list[tuple[str, Check]]:
    """Metrics and traces, those of them that are switched on."""

    async def metrics() -> str:
        readers = "admins read /metrics" if settings.auth_required else "everybody reads /metrics"
        return f"{readers}, and who has the token" if settings.metrics.token() is not None else readers

    async def tracing() -> str:
        check_installed()
        return f"to {settings.tracing.endpoint or 'where OTEL_EXPORTER_OTLP_ENDPOINT says'}"

    return [
        *([("metrics", metrics)] if settings.metrics.enabled else []),
        *([("traces", tracing)] if settings.tracing.enabled else []),
    ]
