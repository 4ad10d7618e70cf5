"""`python -m tests.outside`: run the suites in turn, write docs/conformance.md, fail when one of them did.

With names of suites only these are run, and the page is left alone.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time

from antiphon.cli.logs import configure_logs
from tests.outside.outcome import NotHereError, Outcome
from tests.outside.page import PAGE, page
from tests.outside.suites import SUITES, Suite


async def outcome_of(name: str, suite: Suite) -> Outcome:
    """Run one suite; whatever goes wrong is its outcome."""
    try:
        return await suite()
    except NotHereError as error:
        reason = str(error)
    except Exception as error:
        logging.getLogger(__name__).exception("the suite %s broke", name)
        reason = f"it broke: {type(error).__name__}: {error}"
    return Outcome(name, "-", "-", not_run=reason)


async def _run(names: list[str]) -> list[Outcome]:
    outcomes = []
    for name in names:
        began = time.monotonic()
        print(f"{name} ...", flush=True)
        outcome = await outcome_of(name, SUITES[name])
        outcomes.append(outcome)
        counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.skips} skipped"
        print(f"  {outcome.not_run or counts} ({time.monotonic() - began:.0f} s)")
        for failure in outcome.failures:
            print(f"  {failure}")
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outside", description=__doc__)
    parser.add_argument("suite", nargs="*", help=f"of {', '.join(SUITES)}; all if none is named")
    asked = parser.parse_args().suite
    if unknown := set(asked) - set(SUITES):
        parser.error(f"there is no suite {', '.join(sorted(unknown))}")
    configure_logs("error", "console")
    outcomes = asyncio.run(_run(asked or list(SUITES)))
    if not asked:
        PAGE.write_text(page(outcomes), encoding="utf-8")
        print(f"wrote {PAGE}")
    return 0 if all(outcome.good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
