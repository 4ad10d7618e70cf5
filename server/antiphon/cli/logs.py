"""Structured logs: one event a line, JSON for machines, readable on a terminal. Never a prompt or a secret."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog

from antiphon.cli.log_lines import LineWriter
from antiphon.cli.log_secrets import mask_secrets


def configure_logs(level: str, log_format: str) -> None:
    """level: debug, info, warning, error. log_format: json, console, or auto (console on a terminal).

    Our own lines are written straight to standard error; libraries' lines come through `logging` and get the
    same form.
    """
    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,  # here, so that what an exception says is looked through, too
    ]
    if as_json:
        renderer: Any = structlog.processors.JSONRenderer(serializer=_dump)
        lines = LineWriter(sys.stderr.buffer)
        factory: Any = lambda *_: lines  # noqa: E731
    else:
        # Tracebacks are plain already: the default of a machine with rich prints the local variables, prompts and
        # keys among them.
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        factory = structlog.PrintLoggerFactory(sys.stderr)
    structlog.configure(
        processors=[*shared, mask_secrets, renderer],
        logger_factory=factory,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        cache_logger_on_first_use=True,
    )
    _configure_libraries(shared, renderer, number)


def _configure_libraries(shared: list[Any], renderer: Any, level: int) -> None:
    def render(logger: Any, name: str, event: Any) -> str:
        line = renderer(logger, name, event)
        return line.decode() if isinstance(line, bytes) else str(line)

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, mask_secrets, render],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").addFilter(_is_about_us)
    for noisy in ("uvicorn.error", "aiosqlite", "alembic", "asyncio", "websockets"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))


def _is_about_us(record: logging.LogRecord) -> bool:
    """False for what clients did wrong and were answered for (1007, 400): they must not fill the log."""
    return not record.getMessage().startswith(("Invalid UTF-8", "Invalid HTTP request"))


def _dump(event: Any, **options: Any) -> bytes:
    return orjson.dumps(event, default=str)
