"""The frames of a feed, encoded once for everybody who gets the same (PROTOCOL 10.10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from antiphon.core.feed_log import Change, FeedEntry

ResetReason = Literal["epoch", "too_old", "access"]


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """A frame of a feed as JSON. position: what resumes after it, empty where nothing does."""

    kind: str
    payload: bytes
    position: str = ""


class FeedFrames:
    """Makes the frames of one tenant."""

    def __init__(self, tenant: str) -> None:
        self._tenant = orjson.dumps(tenant)

    def item(self, entry: FeedEntry) -> FeedMessage:
        kind = "antiphon:feed.item"
        return FeedMessage(kind, b'{"type":"%b","tenant":%b,"run":%b}' % (kind.encode(), self._tenant, entry.row))

    def bookmark(
        self, epoch: str, rev: int, *, initial: bool = False, command_id: str | None = None
    ) -> FeedMessage:
        fields: dict[str, Any] = {"type": "antiphon:feed.bookmark"}
        if command_id is not None:
            fields["id"] = command_id
        fields |= {"tenant": orjson.Fragment(self._tenant), "epoch": epoch, "rev": rev}
        if initial:
            fields["initial"] = True
        return FeedMessage("antiphon:feed.bookmark", orjson.dumps(fields), f"{epoch}.{rev}")

    def delta(self, epoch: str, change: Change, prev: int) -> FeedMessage:
        """prev: number of the frame before it on the subscription."""
        entry = change.entry
        fields: dict[str, Any] = {
            "type": "antiphon:feed.delta",
            "tenant": orjson.Fragment(self._tenant),
            "epoch": epoch,
            "rev": entry.rev,
            "prev": prev,
            "event": entry.event,
            "op": change.op,
            "run": orjson.Fragment(entry.row),
            "data": orjson.Fragment(entry.data),
            "at": entry.at,
        }
        if change.count > 1:
            fields["coalesced"] = change.count
        return FeedMessage("antiphon:feed.delta", orjson.dumps(fields), f"{epoch}.{entry.rev}")

    def reset(self, reason: ResetReason) -> FeedMessage:
        fields = {"type": "antiphon:feed.reset", "tenant": orjson.Fragment(self._tenant), "reason": reason}
        return FeedMessage("antiphon:feed.reset", orjson.dumps(fields))

    def progress(self, runs: Iterable[dict[str, Any]]) -> FeedMessage:
        """runs: as `Progress.row` gives them."""
        fields = {
            "type": "antiphon:feed.progress",
            "tenant": orjson.Fragment(self._tenant),
            "runs": list(runs),
        }
        return FeedMessage("antiphon:feed.progress", orjson.dumps(fields))
