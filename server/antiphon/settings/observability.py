"""The `[metrics]` and `[tracing]` tables: what monitoring gets to see."""

from __future__ import annotations

import os

from pydantic import Field, SecretStr

from antiphon.errors import StartupError
from antiphon.settings.table import Table


class MetricsSettings(Table):
    """`GET /metrics` for Prometheus. Each node has its own."""

    enabled: bool = Field(True, description="Whether there is such a page.")
    token_env: str | None = Field(
        None,
        min_length=1,
        description="Variable with a token that reads the metrics and nothing else, as a bearer token. Keys of "
        "admins read them, too.",
    )

    def token(self) -> SecretStr | None:
        """The token. Raises StartupError if its variable is empty."""
        if self.token_env is None:
            return None
        token = os.environ.get(self.token_env, "")
        if not token:
            raise StartupError(f"metrics.token_env names ${self.token_env}, which is not set")
        return SecretStr(token)


class TracingSettings(Table):
    """OpenTelemetry traces, one per run; needs `pip install 'antiphon[otel]'`."""

    enabled: bool = Field(False, description="Whether runs are traced.")
    endpoint: str = Field(
        "",
        description="URL that takes OTLP over HTTP, as `http://127.0.0.1:4318/v1/traces`. Empty: what the "
        "`OTEL_EXPORTER_OTLP_*` variables say, else that address.",
    )
    service_name: str = Field("antiphon", min_length=1, description="`service.name` of the spans.")
    sample_ratio: float = Field(
        1.0, ge=0, le=1, description="Share of the runs that are traced, where the caller has not decided."
    )
    trust_callers: bool = Field(
        True, description="Take the `traceparent` of a create: its trace, and its decision whether to sample."
    )
    propagate: bool = Field(
        True, description="Pass `traceparent` on to configured model servers and `http` tools."
    )
