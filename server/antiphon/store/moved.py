"""A log that lived elsewhere while its run went on, moved here piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from antiphon.store import records
from antiphon.store.records import Chunk
from antiphon.store.writing import StoreConnection, Work

_TELL_ROW = "UPDATE responses SET fence = ?, epochs = ? WHERE id = ? AND fence <= ? AND deleted = 0"

Moved = Literal["kept", "deleted", "no row"]


def keep_log(run_id: str, epochs: str, fence: int, chunks: Sequence[Chunk]) -> Work[Moved]:
    """Keep a piece of an ended run's log, and what its row has to know of it.

    Nothing is kept of a response that was deleted, nor of one whose row is not written yet. It may be repeated.
    """

    def work(connection: StoreConnection) -> Moved:
        if connection.execute(_TELL_ROW, (fence, epochs, run_id, fence)).rowcount == 0:
            row = connection.execute("SELECT deleted FROM responses WHERE id = ?", (run_id,)).fetchone()
            if row is None:
                return "no row"
            if row[0]:
                return "deleted"
        records.keep_chunks(chunks)(connection)
        return "kept"

    return work
