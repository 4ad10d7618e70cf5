"""What one run of one suite came to: counts, what was skipped and why, what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Skipped:
    """Cases that were not run, or whose verdict does not count. reason: why, for a reader of the page."""

    count: int
    what: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """One line of the page.

    suite: as its authors call it, with the part that was run. version: what was installed. against: what of ours
    it judged. failures: one line for each case that failed. not_run: why the suite could not run at all; it then
    has no counts, and the command fails all the same.
    """

    suite: str
    version: str
    against: str
    passed: int = 0
    failures: Sequence[str] = ()
    skipped: Sequence[Skipped] = ()
    not_run: str | None = None

    @property
    def failed(self) -> int:
        return len(self.failures)

    @property
    def skips(self) -> int:
        return sum(skip.count for skip in self.skipped)

    @property
    def good(self) -> bool:
        """Whether something was run and nothing failed."""
        return self.not_run is None and not self.failures and self.passed > 0


class NotHereError(Exception):
    """A suite cannot run: something that it needs is missing. The message says what, and how to get it."""
