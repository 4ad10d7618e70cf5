"""What a run leaves behind when it ends."""

from __future__ import annotations

import dataclasses

import orjson

from antiphon.core.run_state import RunState
from antiphon.journal.redis.live import Live
from antiphon.journal.redis.meta import encode_epochs
from antiphon.store import records
from antiphon.store.records import Ending, Verdict
from antiphon.store.writing import StoreConnection, Work


def decide(live: Live, ending: Ending) -> tuple[Work[Verdict], bool]:
    """The guarded terminal write of a run whose log is in Redis, and whether it keeps the whole log too."""
    mine = dataclasses.replace(ending, fence=live.fence)
    whole = live.whole(ending.terminal_event)
    behind = live.epochs_changed or live.fence != live.row_fence  # a suspension raises it
    epochs = encode_epochs(live.log.epochs).decode() if live.epochs_changed else None

    def work(connection: StoreConnection) -> Verdict:
        if behind:  # a higher fence is another node's, and stays
            records.take_over(mine.id, epochs, mine.fence)(connection)
        # Checkpoints are in Redis.
        return records.end(mine, [whole] if whole is not None else [], checkpointed=False)(connection)

    return work, whole is not None


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
