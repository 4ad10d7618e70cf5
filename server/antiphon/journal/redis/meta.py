"""The meta hash of a run, read."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from antiphon.core.cursor import Epochs
from antiphon.journal.contract import LiveRun

LOOKED_AT = ("owner", "fence", "epochs", "head", "first", "stored", "ended", "state")
"""What a look at a run reads. A checkpoint may be megabytes, and only who adopts the run needs it."""


def live_run(run_id: str, meta: Mapping[bytes, bytes]) -> LiveRun | None:
    """The run that a meta hash describes; None if there is none, or it is no longer whole."""
    if b"fence" not in meta or b"epochs" not in meta or b"state" not in meta:
        return None
    checkpoint = None
    if b"cp" in meta:
        checkpoint = (int(meta[b"cph"]), meta[b"cp"])
    return LiveRun(
        id=run_id,
        owner=meta[b"owner"].decode(),
        fence=int(meta[b"fence"]),
        epochs=Epochs.parse(orjson.loads(meta[b"epochs"])),
        head=int(meta[b"head"]),
        first=int(meta[b"first"]),
        stored=meta[b"stored"] == b"1",
        ended=meta.get(b"ended") == b"1",
        state=meta[b"state"],
        checkpoint=checkpoint,
    )


def encode_epochs(epochs: Epochs) -> bytes:
    """As they stand in the meta and in the row."""
    return orjson.dumps(epochs.entries)
