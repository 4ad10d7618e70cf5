"""What a connection remembers: the newest finished response of each lane (PROTOCOL "Continuation").

This is the only place where a `store: false` response can be continued from. It dies with the connection.
"""

from __future__ import annotations

from antiphon.core.history import Turn
from antiphon.core.lanes import LaneName


class ConnectionMemory:
    """Newest turns per lane: the last one that ended by itself and, after a cancel, the cancelled one as well."""

    def __init__(self) -> None:
        self._newest: dict[LaneName, list[Turn]] = {}

    def find(self, response_id: str) -> Turn | None:
        """The turn, if it is the newest of some lane."""
        for turns in self._newest.values():
            for turn in turns:
                if turn.response_id == response_id:
                    return turn
        return None

    def remember(self, lane: LaneName, turn: Turn) -> None:
        """A response of the lane ended. A failed or cancelled one does not cost the lane its parent."""
        if turn.status == "failed":
            return
        kept = self._newest.get(lane, [])[:1] if turn.status == "cancelled" else []
        self._newest[lane] = [*kept, turn]

    def refused(self, lane: LaneName, response_id: str) -> None:
        """A continuation of `response_id` on `lane` was answered by an error.

        An unstored parent is forgotten if it is this lane's own; forks from other lanes do no harm.
        """
        turns = self._newest.get(lane, [])
        self._newest[lane] = [turn for turn in turns if turn.stored or turn.response_id != response_id]
