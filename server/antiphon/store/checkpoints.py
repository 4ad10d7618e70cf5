"""Where unfinished runs stand, so that another process can go on with them (see core/checkpoint.py).

Of a run that ended and is followed by itself: what follows, until that has begun (see runs/steering/following.py).
"""

from __future__ import annotations

from antiphon.store.writing import StoreConnection, Work

_KEEP = """
INSERT INTO checkpoints (run_id, head, payload) VALUES (?, ?, ?)
ON CONFLICT (run_id) DO UPDATE SET head = excluded.head, payload = excluded.payload
"""


def keep(run_id: str, head: int, payload: bytes) -> Work[None]:
    """Write where a run stands; only the newest counts. head: the last event of the log at that moment."""

    def work(connection: StoreConnection) -> None:
        connection.execute(_KEEP, (run_id, head, payload))

    return work


def forget(connection: StoreConnection, run_id: str) -> None:
    """The run is over, or what follows it has begun."""
    connection.execute("DELETE FROM checkpoints WHERE run_id = ?", (run_id,))
