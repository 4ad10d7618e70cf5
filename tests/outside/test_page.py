"""The page says what suites came to, and the command fails when one failed, found nothing or could not run."""

from __future__ import annotations

import pytest

from tests.outside.__main__ import outcome_of
from tests.outside.outcome import NotHereError, Outcome, Skipped
from tests.outside.page import PAGE, page

GOOD = Outcome("alpha", "1.2", "the wire", passed=5, skipped=[Skipped(2, "cases 12", "no compression")])
BAD = Outcome("beta", "0.1", "the pages", passed=3, failures=["index.html:\n a | b"])


async def _missing() -> Outcome:
    raise NotHereError("there is no Chromium")


async def _broken() -> Outcome:
    raise ValueError("no such case")


def test_a_row_has_the_counts_and_a_skip_its_reason() -> None:
    text = page([GOOD])
    assert "| alpha | 1.2 | the wire | 5 | 0 | 2 |\n" in text
    assert "- **alpha**, cases 12 (2): no compression.\n" in text
    assert text.endswith("Nothing failed, and every suite could run.\n")


def test_a_failure_is_one_line_that_cannot_break_the_table() -> None:
    text = page([GOOD, BAD])
    assert "| beta | 0.1 | the pages | 3 | 1 | 0 |\n" in text
    assert text.endswith("- **beta**: index.html: a \\| b\n")


def test_the_folder_in_which_it_ran_is_not_told() -> None:
    failed = Outcome("beta", "0.1", "the pages", passed=3, failures=[f"at {PAGE}:7"])
    assert page([failed]).endswith("- **beta**: at docs/conformance.md:7\n")


async def test_a_suite_that_cannot_run_or_breaks_says_so_in_the_table() -> None:
    outcomes = [await outcome_of("gamma", _missing), await outcome_of("delta", _broken)]
    text = page(outcomes)
    assert "| gamma | - | - | not run | - | - |\n" in text
    assert "- **gamma** could not run: there is no Chromium\n" in text
    assert "- **delta** could not run: it broke: ValueError: no such case\n" in text
    assert not any(outcome.good for outcome in outcomes)


@pytest.mark.parametrize(("outcome", "good"), [(GOOD, True), (BAD, False), (Outcome("empty", "1", "-"), False)])
def test_only_a_suite_that_passed_something_and_failed_nothing_is_good(outcome: Outcome, good: bool) -> None:
    assert outcome.good is good
