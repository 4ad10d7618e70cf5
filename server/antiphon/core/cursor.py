"""Positions in a run's log: (epoch, number), and what may be served from there (PROTOCOL "Cursor").

The numbers of a run never have holes. An unclean takeover may have lost events that somebody saw, so it
opens a new epoch at the first number it will write itself; cursors of the old epoch past that fork are void.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from antiphon.errors import CursorError

BEFORE_FIRST = -1
"""The cursor of a reader that has seen nothing."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of one run, oldest first: pairs (token, first number written in it)."""

    entries: tuple[tuple[str, int], ...]

    @classmethod
    def starting(cls, token: str) -> Epochs:
        return cls(((token, 0),))

    @classmethod
    def parse(cls, pairs: Iterable[tuple[str, int]]) -> Epochs:
        return cls(tuple((str(token), int(first)) for token, first in pairs))

    @property
    def current(self) -> str:
        return self.entries[-1][0]

    @property
    def lowest_fork(self) -> int | None:
        """The first number that exists in more than one epoch, None while there is one epoch."""
        return min(first for _, first in self.entries[1:]) if len(self.entries) > 1 else None

    def fork_after(self, token: str) -> int | None:
        """Where the epoch that followed `token` began; None if it is the current one. KeyError if unknown."""
        for index, (name, _) in enumerate(self.entries):
            if name == token:
                return self.entries[index + 1][1] if index + 1 < len(self.entries) else None
        raise KeyError(token)

    def forked(self, token: str, first: int) -> Epochs:
        """A takeover: `token` begins at `first`."""
        if first < self.entries[-1][1]:
            raise ValueError("an epoch cannot begin before the one it follows")
        return Epochs((*self.entries, (token, first)))

    def at(self, number: int) -> str:
        """The epoch in which a number that stands in the log was written."""
        for token, first in reversed(self.entries):
            if number >= first:
                return token
        return self.entries[0][0]

    def check(self, after: int, epoch: str | None, head: int) -> None:
        """Whether a reader that has seen everything up to `after` (of `epoch`) may go on from there.

        head: last number of the log. Raises CursorError with code `cursor_in_future`, `epoch_changed`
        or `cursor_expired`.
        """
        if after < BEFORE_FIRST:
            raise CursorError(f"{after} is not a sequence number.", code="invalid_request", param="starting_after")
        if after == BEFORE_FIRST and epoch is None:
            return
        fork = self.lowest_fork if epoch is None else self._fork_of(epoch, head)
        if fork is not None and after >= fork:
            raise CursorError(
                f"The log of this run changed at number {fork}; read it again from there.",
                code="epoch_changed",
                extra={"epoch": self.current, "fork": fork},
            )
        if after > head:
            raise CursorError(
                f"Number {after} does not exist yet; the last one is {head}.",
                code="cursor_in_future",
                extra={"epoch": self.current, "head": head},
            )

    def _fork_of(self, epoch: str, head: int) -> int | None:
        try:
            return self.fork_after(epoch)
        except KeyError:
            raise CursorError(
                "The epoch of this cursor is not one of this run.",
                code="cursor_expired",
                extra={"epoch": self.current, "head": head},
            ) from None


def parse_event_id(text: str) -> tuple[str | None, int]:
    """Read an SSE event id `<epoch>.<n>` or a plain number. Raises CursorError (400)."""
    epoch, _, number = text.rpartition(".")
    if not number.isascii() or not number.isdigit() or len(number) > 15:
        raise CursorError(f"{text[:80]!r} is not an event id.", code="invalid_request", param="Last-Event-ID")
    return (epoch or None), int(number)
