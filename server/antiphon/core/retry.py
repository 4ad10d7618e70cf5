"""Whether a failed call of a model is made again, and when. Only for calls that have delivered nothing yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from antiphon.errors import UpstreamError

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{0,6})?", re.ASCII)
_QUOTA_IS_USED_UP = "insufficient_quota"
"""A 429 that waiting does not mend."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """max_attempts: calls in all. base_s: the first wait is below it; the bound doubles each time up to
    max_wait_s. retry_after_max_s: an upstream that asks for a longer wait is not waited for.
    """

    max_attempts: int
    base_s: float
    max_wait_s: float
    retry_after_max_s: float

    def wait_s(self, attempt: int, error: UpstreamError, *, now: float, chance: float) -> float | None:
        """How long to wait after attempt number `attempt` (from 1) failed; None to give up.

        now: Unix seconds. chance: 0 to 1, spreads callers that failed together (full jitter).
        """
        if attempt >= self.max_attempts or not is_worth_repeating(error):
            return None
        jitter = chance * min(self.max_wait_s, self.base_s * 2.0 ** min(attempt - 1, 32))
        asked = retry_after_s(error.headers, now)
        if asked is None:
            return jitter
        return asked + chance * self.base_s if asked <= self.retry_after_max_s else None


def is_worth_repeating(error: UpstreamError) -> bool:
    """Whether the same call can work soon. A timeout is not repeated: its patience is used up."""
    if error.status == 429:
        return error.code != _QUOTA_IS_USED_UP
    return error.is_upstreams_fault and error.code != "upstream_timeout"


def is_worth_another_model(error: UpstreamError) -> bool:
    """Whether another model may answer instead. A refusal that the caller can mend is the caller's to see."""
    refused_us = error.status >= 500 and error.http_status is not None and 300 <= error.http_status < 500
    return error.is_upstreams_fault or error.status == 429 or refused_us


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that `retry-after-ms` or `retry-after` (seconds or a date) asks for; None if there is none.

    now: Unix seconds.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    text = headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(0.0, date.timestamp() - now) if date.tzinfo else None
