"""Which failed calls are made again, when, and which may go to another model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.retry import (
    RetryPolicy,
    is_worth_another_model,
    is_worth_repeating,
    retry_after_s,
)
from antiphon.errors import UpstreamError

POLICY = RetryPolicy(max_attempts=3, base_s=0.5, max_wait_s=8, retry_after_max_s=20)
NOW = 784_111_777.0
"""Sun, 06 Nov 1994 08:49:37 GMT"""


def error(status: int, **fields: Any) -> UpstreamError:
    return UpstreamError("m", status=status, **fields)


UNAVAILABLE = error(503, code="upstream_unavailable")

CASES: dict[str, tuple[UpstreamError, bool, bool]] = {
    "unreachable or 5xx": (UNAVAILABLE, True, True),
    "rate limit": (error(429, code="rate_limit_exceeded"), True, True),
    "quota used up": (error(429, code="insufficient_quota"), False, True),
    "silent": (error(504, code="upstream_timeout"), False, True),
    "broke off": (error(502, is_upstreams_fault=True), True, True),
    "says its own fault": (error(502, code="server_error", http_status=200, is_upstreams_fault=True), True, True),
    "says something else": (error(502, code="context_length_exceeded", http_status=200), False, False),
    "does not say why": (error(502, http_status=200), False, False),
    "our credentials": (error(502, http_status=401), False, True),
    "caller's credentials": (error(401, http_status=401), False, False),
    "bad request": (error(400, http_status=400), False, False),
    "unknown there": (error(404, http_status=404), False, False),
    "unprocessable": (error(422, http_status=422), False, False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_repeated_and_what_another_model_may_answer(name: str) -> None:
    failure, again, other = CASES[name]
    assert (is_worth_repeating(failure), is_worth_another_model(failure)) == (again, other)


def wait(attempt: int, failure: UpstreamError = UNAVAILABLE, chance: float = 1.0) -> float | None:
    return POLICY.wait_s(attempt, failure, now=NOW, chance=chance)


def test_waits_double_and_the_last_attempt_has_none() -> None:
    assert [wait(attempt) for attempt in (1, 2, 3)] == [0.5, 1.0, None]


def test_waits_are_spread_over_the_whole_time_and_have_a_bound() -> None:
    patient = RetryPolicy(max_attempts=2000, base_s=0.5, max_wait_s=8, retry_after_max_s=20)
    waits = [patient.wait_s(n, UNAVAILABLE, now=NOW, chance=c) for n in (5, 6, 1999) for c in (0.0, 0.5, 1.0)]
    assert waits == [0, 4, 8] * 3


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "1"}, 1.5),
        ({"retry-after": "20"}, 20.5),
        ({"retry-after": "20.1"}, None),
        ({"retry-after": "3600"}, None),
        ({"retry-after-ms": "250"}, 0.75),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.75),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:39 GMT"}, 2.5),
        ({"retry-after": "soon"}, 0.5),
    ],
)
def test_what_the_upstream_asks_for_is_waited_for_up_to_the_limit(
    headers: dict[str, str], expected: float | None
) -> None:
    assert wait(1, error(429, headers=headers)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        (" 5 ", 5),
        ("1.5", 1.5),
        ("Sun, 06 Nov 1994 08:49:30 GMT", 0),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("٣", None),
        ("Sun, 06 Nov 1994 08:50:37", None),
        ("Sun, 99 Nov 9999 99:99:99 GMT", None),
    ],
)
def test_every_form_of_the_hint_is_read_and_nonsense_is_none(text: str, expected: float | None) -> None:
    assert retry_after_s({"retry-after": text}, NOW) == expected


@given(st.text(max_size=60))
def test_no_hint_breaks_the_reading(text: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        seconds = retry_after_s({name: text}, NOW)
        assert seconds is None or seconds >= 0
