"""How far one run was read: each number once, in order, over any number of connections (PROTOCOL 6.4)."""

from __future__ import annotations

from typing import Any, Literal

TERMINALS = frozenset({"response.completed", "response.incomplete", "response.failed"})

Verdict = Literal["new", "old", "gap"]


class RunCursor:
    """last: number of the last event that was taken, -1 before the first. epoch: the one it was taken in.

    told: the epoch the next event comes in, as the server last said. ended: the terminal event was taken.
    """

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        self.last = -1
        self.epoch: str | None = None
        self.told: str | None = None
        self.ended = False

    def position(self) -> dict[str, Any]:
        """The fields of an attach that goes on from here."""
        if self.last < 0:
            return {"response_id": self.response_id, "after": "start"}
        known = {} if self.epoch is None else {"epoch": self.epoch}
        return {"response_id": self.response_id, "after": self.last, **known}

    def attached(self, answer: dict[str, Any]) -> bool:
        """Take the answer to an attach; whether it is a snapshot, so that events before it are gone."""
        self.told = answer.get("epoch")
        mode = answer.get("mode")
        if mode == "snapshot":
            self.last, self.epoch = int(answer["head"]), self.told
        elif mode == "ended":
            self.ended = True
        return mode == "snapshot"

    def take(self, event: dict[str, Any]) -> Verdict:
        """Whether this event is the next one. `old`: it is known. `gap`: events before it are missing."""
        number = int(event["sequence_number"])
        if number <= self.last:
            return "old"
        if number > self.last + 1:
            return "gap"
        self.last, self.epoch = number, self.told or self.epoch
        self.ended = self.ended or event["type"] in TERMINALS
        return "new"

    def forked(self, epoch: str, fork: int) -> bool:
        """The log is another one from `fork` on; whether events that were taken are not in it any more."""
        lost = self.last >= fork
        self.last = min(self.last, fork - 1)
        self.epoch = self.told = epoch
        self.ended = self.ended and not lost
        return lost

    def anew(self) -> None:
        """Read everything again."""
        self.last, self.epoch, self.told, self.ended = -1, None, None, False
