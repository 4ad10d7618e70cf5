"""Usage as it is reported: over HTTP and by `antiphon usage`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.core.periods import DAY_S, date, parse_date, start_of
from antiphon.core.prices import amount
from antiphon.errors import RequestError
from antiphon.store.usage_reports import GROUPINGS, Grouping, UsageReader, UsageSum

_MOST_DAYS = 3_660


@dataclass(frozen=True, slots=True)
class Span:
    """Days since 1 January 1970, both included."""

    first: int
    last: int

    @classmethod
    def read(cls, first: str | None, last: str | None, now: float) -> Span:
        """From `YYYY-MM-DD`; absent: from the first of this month (UTC), to today. Raises RequestError."""
        span = cls(_day(first, "from", start_of("month", now) // DAY_S), _day(last, "to", int(now // DAY_S)))
        if not 0 <= span.last - span.first < _MOST_DAYS:
            raise RequestError(f"from is at most to, and at most {_MOST_DAYS} days before it.", param="from")
        return span


def grouping(by: str | None) -> Grouping:
    """Raises RequestError."""
    for known in GROUPINGS:
        if by in (known, None):
            return known
    raise RequestError(f"by is one of {', '.join(GROUPINGS)}.", param="by")


async def report(reader: UsageReader, by: Grouping, span: Span, tenant: str | None) -> dict[str, Any]:
    """The JSON form. tenant: of one only; None: of all. Raises StorageError."""
    sums = await reader.sums(by, tenant=tenant, first_day=span.first, last_day=span.last)
    return {
        "object": "usage",
        "by": by,
        "from": date(span.first),
        "to": date(span.last),
        "data": [_row(by, one) for one in sums],
        "total": _total(sums),
    }


def _row(by: Grouping, one: UsageSum) -> dict[str, Any]:
    key = date(one.key) if isinstance(one.key, int) else one.key
    return {by: key, "runs": one.runs, **_numbers([one])}


def _total(sums: Sequence[UsageSum]) -> dict[str, Any]:
    """Without runs: one can stand in several groups."""
    return _numbers(sums)


def _numbers(sums: Sequence[UsageSum]) -> dict[str, Any]:
    calls, unpriced = sum(one.calls for one in sums), sum(one.unpriced_calls for one in sums)
    return {
        "calls": calls,
        "input_tokens": sum(one.input_tokens for one in sums),
        "cached_tokens": sum(one.cached_tokens for one in sums),
        "output_tokens": sum(one.output_tokens for one in sums),
        "reasoning_tokens": sum(one.reasoning_tokens for one in sums),
        "total_tokens": sum(one.total_tokens for one in sums),
        # Of the calls whose price is known; null where none is.
        "cost": None if calls and unpriced == calls else amount(sum(one.cost_nano for one in sums)),
        "unpriced_calls": unpriced,
        "estimated_calls": sum(one.estimated_calls for one in sums),
    }


def _day(text: str | None, param: str, default: int) -> int:
    if text is None:
        return default
    try:
        return parse_date(text)
    except ValueError:
        raise RequestError(f"{param} is a day such as 2026-01-31.", param=param) from None
