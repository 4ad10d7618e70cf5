"""The feed of a tenant as a reader keeps it: its rows, how far it was read, and whether it can be trusted
(PROTOCOL 10.10). No I/O; the time comes from outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from antiphon.cli.client.chat.outgoing import TRANSIENT
from antiphon.errors import ClientError

Frame = dict[str, Any]
Status = Literal["connecting", "live", "stale", "reset"]

SUBSCRIPTION = "feed"
ENDED = frozenset({"completed", "incomplete", "failed", "cancelled"})
KEEP_ENDED_S = 60.0
"""So long an ended run is shown; nothing is sent when it is over (10.10.7)."""
STALE_AFTER_S = 45.0
"""Bookmarks come every 30 s; half of that is for a slow network."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a feed."""

    epoch: str
    rev: int

    @classmethod
    def read(cls, text: str) -> Position:
        """From `EPOCH.REV`, as `--json` shows them and SSE has them in its ids. Raises ClientError."""
        epoch, _, rev = text.rpartition(".")
        if not epoch or not rev.isdecimal():
            raise ClientError(f"{text!r} is no position in a feed; it looks like 4c1d5a9e0b7f2836.1180")
        return cls(epoch, int(rev))


class FeedRows:
    """rows: the runs that are shown, by id. status: `stale` while what is shown may be old, `reset` while it is
    told anew. position: of the last bookmark or delta. why: what keeps the connection away."""

    def __init__(
        self, filters: Mapping[str, Any], *, tenant: str | None = None, since: Position | None = None
    ) -> None:
        self.rows: dict[str, Frame] = {}
        self.progress: dict[str, Frame] = {}
        self.status: Status = "connecting"
        self.position = since
        self.why: str | None = None
        self.deltas = 0
        self._filters = dict(filters)
        self._tenant = tenant
        self._heard_at = 0.0
        self._asked = False

    def subscribe(self) -> Frame:
        """The command that begins the feed, or goes on with it after what was read."""
        self._asked = True
        frame: Frame = {"type": "antiphon:feed.subscribe", "id": SUBSCRIPTION, "mode": "all"}
        frame |= {"filter": self._filters} if self._filters else {}
        frame |= {"tenant": self._tenant} if self._tenant is not None else {}
        if self.position is not None:
            frame["from"] = {"epoch": self.position.epoch, "rev": self.position.rev}
        else:
            self.rows.clear()
        return frame

    def lost(self, why: str) -> None:
        """The connection is gone."""
        self.status, self.why = "stale", why

    def take(self, frame: Frame, now: float) -> Literal["new", "gap", "later", "nothing"]:
        """Take a frame. `gap`: subscribe again at once; `later`: in a moment. Raises ClientError for a refusal."""
        kind = frame.get("type")
        if kind == "antiphon:error" and frame.get("id") == SUBSCRIPTION:
            if frame["code"] in TRANSIENT or frame.get("retryable"):
                return "later"
            raise ClientError(str(frame["message"]), code=str(frame["code"]))
        if not isinstance(kind, str) or not kind.startswith("antiphon:feed."):
            return "nothing"
        if self._asked and kind not in ("antiphon:feed.item", "antiphon:feed.bookmark", "antiphon:feed.reset"):
            return "nothing"  # of the subscription that is being replaced
        if kind == "antiphon:feed.delta":
            return self._delta(frame, now)
        if kind == "antiphon:feed.reset":
            self.rows.clear()
            self.progress.clear()
            self.position, self.status = None, "reset"
        elif kind == "antiphon:feed.item":
            self._put(frame["run"])
        elif kind == "antiphon:feed.bookmark":
            self._bookmark(frame, now)
        elif kind == "antiphon:feed.progress":
            self.progress |= {run["response_id"]: run for run in frame["runs"] if run["response_id"] in self.rows}
        return "new"

    def tick(self, now: float) -> None:
        """Time went by: drop runs that ended a while ago, doubt a feed that is silent."""
        old = [
            run_id
            for run_id, run in self.rows.items()
            if run["state"] in ENDED and now - run["updated_at"] >= KEEP_ENDED_S
        ]
        for run_id in old:
            self._drop(run_id)
        if self.status == "live" and now - self._heard_at > STALE_AFTER_S:
            self.status = "stale"

    def _delta(self, frame: Frame, now: float) -> Literal["new", "gap"]:
        if self.position is None or (frame["epoch"], frame["prev"]) != (self.position.epoch, self.position.rev):
            return "gap"
        self.position = Position(frame["epoch"], int(frame["rev"]))
        self.deltas += int(frame.get("coalesced") or 1)
        self._heard(now)
        if frame["op"] == "remove":
            self._drop(str(frame["run"]["response_id"]))
        else:
            self._put(frame["run"])
        return "new"

    def _bookmark(self, frame: Frame, now: float) -> None:
        if frame.get("initial"):
            self._asked = False
        elif self._asked:
            return
        self.position = Position(frame["epoch"], int(frame["rev"]))
        self._heard(now)

    def _heard(self, now: float) -> None:
        self.status, self.why, self._heard_at = "live", None, now

    def _put(self, run: Frame) -> None:
        self.rows[str(run["response_id"])] = run
        if run["state"] in ENDED:
            self.progress.pop(str(run["response_id"]), None)

    def _drop(self, run_id: str) -> None:
        self.rows.pop(run_id, None)
        self.progress.pop(run_id, None)
