"""Where unfinished runs stand, so that another process can go on with them (see core/checkpoint.py).

Of a run that ended and is followed by itself: what follows, until that has begun (see runs/steering/following.py).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable


def keep(run_id: str, head: int, payload: bytes) -> Callable[[sqlite3.Connection], None]:
    """Write where a run stands; only the newest counts. head: the last event of the log at that moment."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO checkpoints (run_id, head, payload) VALUES (?, ?, ?)", (run_id, head, payload)
        )

    return work


def forget(connection: sqlite3.Connection, run_id: str) -> None:
    """The run is over, or what follows it has begun."""
    connection.execute("DELETE FROM checkpoints WHERE run_id = ?", (run_id,))
