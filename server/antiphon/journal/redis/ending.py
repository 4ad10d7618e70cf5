"""What a run leaves behind when it ends."""

from __future__ import annotations

import orjson

from antiphon.core.run_state import RunState
from antiphon.store import records
from antiphon.store.records import Chunk, Ending, Verdict
from antiphon.store.writing import StoreConnection, Work


def decide(ending: Ending, epochs: str | None, whole: Chunk | None, *, behind: bool) -> Work[Verdict]:
    """The guarded terminal write of a run whose log is in Redis.

    behind: the row has an older fence, or older epochs; epochs: those, None if they did not change. A fence that
    is higher is another node's and stays. whole: the log with its terminal, if it goes into the same transaction.
    """

    def work(connection: StoreConnection) -> Verdict:
        if behind:
            records.take_over(ending.id, epochs, ending.fence)(connection)
        # Checkpoints are in Redis.
        return records.end(ending, [whole] if whole is not None else [], checkpointed=False)(connection)

    return work


def ended_state(state: RunState, terminal: bytes, now: float, kept_s: float) -> bytes:
    """The RunState row after a terminal event. now: Unix seconds. kept_s: how long it can still be attached to."""
    event = orjson.loads(terminal)
    response = event["response"]
    reason = response.get("error") or response.get("incomplete_details") or {}
    row = state.row() | {
        "state": response["status"],
        "revision": state.revision + 1,
        "head": event["sequence_number"],
        "updated_at": now,
        "expires_at": now + kept_s,
        "current_tool": None,
        "usage": response.get("usage"),
        "terminal": {"status": response["status"], "code": reason.get("code") or reason.get("reason"), "by": None},
    }
    return orjson.dumps(row)
