"""Days, weeks and months of UTC, and when the next one begins."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.periods import Period, civil, date, day_number, end_of, parse_date, retry_after_s, start_of

UTC = datetime.UTC
moments = st.floats(0, 32_503_680_000)  # to the year 3000


def at(*parts: int) -> float:
    return datetime.datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@given(moments)
def test_every_period_begins_where_the_calendar_says(now: float) -> None:
    there = datetime.datetime.fromtimestamp(now, UTC)
    midnight = there.replace(hour=0, minute=0, second=0, microsecond=0)
    assert start_of("day", now) == midnight.timestamp()
    assert start_of("week", now) == (midnight - datetime.timedelta(days=midnight.weekday())).timestamp()
    assert start_of("month", now) == midnight.replace(day=1).timestamp()


@given(moments, st.sampled_from(["day", "week", "month"]))
def test_a_moment_is_in_one_period_and_the_next_begins_at_its_end(now: float, period: Period) -> None:
    start, end = start_of(period, now), end_of(period, now)
    assert start <= now < end
    assert start_of(period, end) == end and end_of(period, start) == end
    assert now + retry_after_s(period, now) >= end


@given(st.dates())
def test_dates_are_read_as_they_are_written(day: datetime.date) -> None:
    number = (day - datetime.date(1970, 1, 1)).days
    assert civil(number) == (day.year, day.month, day.day)
    assert day_number(day.year, day.month, day.day) == number
    assert date(number) == day.isoformat() and parse_date(day.isoformat()) == number


@pytest.mark.parametrize("text", ["2026-02-30", "2026-13-01", "2026-1-01", "26-01-01", "", "a", "2026-01-0１"])
def test_what_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_date(text)


def test_a_week_begins_on_monday_and_may_span_two_years() -> None:
    assert start_of("week", at(2027, 1, 1, 12)) == at(2026, 12, 28)
    assert end_of("month", at(2026, 12, 31, 23, 59, 59)) == at(2027, 1, 1)
    assert retry_after_s("day", at(2026, 5, 1, 23, 59, 59)) == 1
