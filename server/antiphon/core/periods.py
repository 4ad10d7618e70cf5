"""Days, weeks and months by which usage is counted, all in UTC. Arithmetic only: the time is given.

A day begins at midnight, a week on Monday (ISO 8601), a month on its first.
"""

from __future__ import annotations

import math
from typing import Literal

Period = Literal["day", "week", "month"]

DAY_S = 86_400
_MONDAY = 3
"""Days from 1 January 1970, a Thursday, back to its Monday."""
_ADJECTIVES: dict[Period, str] = {"day": "Daily", "week": "Weekly", "month": "Monthly"}


def adjective(period: Period) -> str:
    """`Daily`, `Weekly` or `Monthly`."""
    return _ADJECTIVES[period]


def start_of(period: Period, at: float) -> int:
    """Unix seconds at which the period that holds `at` (Unix seconds) began."""
    day = math.floor(at) // DAY_S
    if period == "day":
        return day * DAY_S
    if period == "week":
        return (day - (day + _MONDAY) % 7) * DAY_S
    year, month, _ = civil(day)
    return day_number(year, month, 1) * DAY_S


def end_of(period: Period, at: float) -> int:
    """Unix seconds at which the next one begins."""
    start = start_of(period, at)
    if period == "day":
        return start + DAY_S
    if period == "week":
        return start + 7 * DAY_S
    year, month, _ = civil(start // DAY_S)
    return day_number(year + month // 12, month % 12 + 1, 1) * DAY_S


def retry_after_s(period: Period, at: float) -> int:
    """Whole seconds from `at` to the next period, at least one."""
    return max(1, math.ceil(end_of(period, at) - at))


def civil(day: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1 January 1970 (Gregorian)."""
    # Years begin in March here, so that the leap day is the last one (H. Hinnant, "chrono-compatible algorithms").
    shifted = day + 719_468
    era, of_era = divmod(shifted, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * of_year + 2) // 153
    month = from_march + 3 if from_march < 10 else from_march - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * from_march + 2) // 5 + 1


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1 January 1970 of a date."""
    from_march = year - (month <= 2)
    era, year_of_era = divmod(from_march, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719_468


def date(day: int) -> str:
    """`YYYY-MM-DD` of a number of days since 1 January 1970."""
    year, month, of_month = civil(day)
    return f"{year:04d}-{month:02d}-{of_month:02d}"


def parse_date(text: str) -> int:
    """Days since 1 January 1970 of `YYYY-MM-DD`. Raises ValueError."""
    parts = text.split("-")
    if [len(part) for part in parts] != [4, 2, 2] or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"{text[:20]!r} is no date such as 2026-01-31")
    day = day_number(*(int(part) for part in parts))
    if date(day) != text:
        raise ValueError(f"there is no day {text}")
    return day
