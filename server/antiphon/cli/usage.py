"""`antiphon usage`: what was used, read from the store."""

from __future__ import annotations

from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from antiphon.clock import SystemClock
from antiphon.errors import RequestError, StartupError, StorageError
from antiphon.governance.usage.report import Span, grouping, report
from antiphon.settings import Settings
from antiphon.store.opening import open_store
from antiphon.store.usage_reports import UsageReader

_COLUMNS = {
    "runs": "runs",
    "calls": "calls",
    "input_tokens": "input",
    "cached_tokens": "cached",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
    "total_tokens": "total",
    "cost": "cost",
}


async def usage(
    settings: Settings,
    console: Console,
    *,
    by: str,
    first: str | None,
    last: str | None,
    tenant: str | None,
    as_json: bool,
) -> None:
    """Print a report. first, last: `YYYY-MM-DD`. Raises StartupError."""
    if settings.store_engine == "sqlite" and not settings.database_path.is_file():
        raise StartupError(f"there is no database {settings.database_path} yet; a server makes it at its start")
    store = open_store(settings)
    try:
        span = Span.read(first, last, SystemClock().now())
        found = await report(UsageReader(store.reader), grouping(by), span, tenant)
    except RequestError as error:
        raise StartupError(error.message) from error
    except StorageError as error:
        raise StartupError(f"the database {store.place} cannot be read: {error.__cause__ or error}") from error
    finally:
        await store.aclose()
    if as_json:
        console.print(orjson.dumps(found).decode(), soft_wrap=True, markup=False)
    else:
        console.print(_table(found))


def _table(found: dict[str, Any]) -> Table:
    table = Table(title=f"Usage from {found['from']} to {found['to']} (UTC)", show_footer=bool(found["data"]))
    table.add_column(found["by"], footer="all")
    for name, title in _COLUMNS.items():
        table.add_column(title, justify="right", footer=_shown(name, found["total"].get(name, "")))
    for row in found["data"]:
        name = row[found["by"]]
        cells = [_shown(column, row[column]) for column in _COLUMNS]
        table.add_row(escape(str(name)) if name is not None else "-", *cells)
    if found["total"]["unpriced_calls"] or found["total"]["estimated_calls"]:
        table.caption = (
            f"{found['total']['unpriced_calls']} calls have no price, "
            f"{found['total']['estimated_calls']} are estimates"
        )
    return table


def _shown(column: str, value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.6f}" if column == "cost" else f"{value:,}" if isinstance(value, int) else str(value)
