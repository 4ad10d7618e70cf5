"""Structured logs: one event a line, JSON for machines, readable on a terminal. Never a prompt or a secret."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure_logs(level: str, log_format: str) -> None:
    """level: debug, info, warning, error. log_format: json, console, or auto (console on a terminal)."""
    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        shared.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.add_logger_name, *shared, renderer],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=level.upper(), stream=sys.stderr, format="%(message)s", force=True)
    for noisy in ("uvicorn.error", "aiosqlite", "alembic", "asyncio", "websockets"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
