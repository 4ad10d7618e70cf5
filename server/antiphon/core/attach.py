"""What an attach gets: replay, live, snapshot or the end (PROTOCOL "Attach modes")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.errors import CursorError

Mode = Literal["replay", "live", "snapshot", "ended"]
After = int | Literal["start", "now"]


@dataclass(frozen=True, slots=True)
class AttachPlan:
    """mode: what is announced. after: events with a higher number follow."""

    mode: Mode
    after: int


def plan_attach(
    after: After, epoch: str | None, *, epochs: Epochs, head: int, first: int, ended: bool
) -> AttachPlan:
    """Decide what a reader gets.

    head: last number shown. first: lowest number that can still be read (head + 1 if none can).
    An unknown epoch is an expired cursor: the reader gets the snapshot.
    Raises CursorError for a cursor from the future or from another branch of the log.
    """
    number = BEFORE_FIRST if after == "start" else head if after == "now" else after
    if isinstance(after, int):
        try:
            epochs.check(after, epoch, head)
        except CursorError as error:
            if error.code != "cursor_expired":
                raise
            return AttachPlan("snapshot", head)
    if number >= head:
        return AttachPlan("ended" if ended else "live", head)
    if number + 1 < first:
        return AttachPlan("snapshot", head)
    return AttachPlan("replay", number)
