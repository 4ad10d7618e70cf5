"""One OpenTelemetry trace per run, made from lifecycle events. What it needs comes with `antiphon[otel]`."""
