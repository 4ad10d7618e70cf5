"""docs/conformance.md: what the suites found, as a table without date or machine: only results change it."""

from __future__ import annotations

from collections.abc import Sequence

from tests.outside.outcome import Outcome
from tests.outside.programs import ROOT

PAGE = ROOT / "docs" / "conformance.md"
HEAD = """\
# Conformance

What suites find that others wrote, and our own that run others' programs. Written by `make test-outside`, which
runs all of them against servers that it starts, and fails when one fails or cannot run; not to be edited by hand.

| suite | version | run against | passed | failed | skipped |
|---|---|---|---:|---:|---:|
"""
GOOD = "Nothing failed, and every suite could run."


def page(outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    lines = [_row(outcome) for outcome in outcomes]
    skips = [(outcome, skip) for outcome in outcomes for skip in outcome.skipped if skip.count]
    text = HEAD + "\n".join(lines) + "\n\n## Skipped, and why\n\n"
    text += "\n".join(f"- **{o.suite}**, {s.what} ({s.count}): {s.reason}." for o, s in skips) or "Nothing."
    text += "\n\n## Failed\n\n"
    bad = [f"- **{o.suite}**: {_cell(line)}" for o in outcomes for line in o.failures]
    bad += [f"- **{o.suite}** could not run: {_cell(o.not_run)}" for o in outcomes if o.not_run is not None]
    return text + ("\n".join(bad) or GOOD) + "\n"


def _row(outcome: Outcome) -> str:
    if outcome.not_run is not None:
        counts = ("not run", "-", "-")
    else:
        counts = (str(outcome.passed), str(outcome.failed), str(outcome.skips))
    return f"| {' | '.join([outcome.suite, outcome.version, outcome.against, *counts])} |"


def _cell(text: str) -> str:
    """One line of a page, whatever a program wrote, without the folder in which it ran."""
    return " ".join(text.replace(f"{ROOT}/", "").split()).replace("|", "\\|")[:300]
