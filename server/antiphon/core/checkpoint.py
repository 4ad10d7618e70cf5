"""What has to survive a process so that another one can go on with a run between two rounds, or while it waits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from antiphon.core.assembly.item import OpenItem
from antiphon.core.assembly.server_call import CallResult, ServerTool


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A run at rest.

    round: model calls made so far. waiting: its last round waits for clients. context: what finished rounds added
    for the model, encoded items joined by commas. compacted: what replaces everything before them, None if nothing
    does. usage: summed. items: of the round that waits, from output index `first` on (the log has those before).
    held: of the held calls. steers: said to it and not applied yet. calls_made: of tools of the server, so far.
    clean: its process stopped in order and showed nothing after this. takeovers: processes that died since while
    they had it to execute. spent: what its model calls came to, a `Spent` as JSON values. recent: signatures of
    its last turns, for loop detection.
    """

    round: int
    waiting: bool
    context: str
    usage: dict[str, Any] | None = None
    compacted: str | None = None
    first: int = 0
    items: list[dict[str, Any]] = field(default_factory=list)
    held: dict[str, Any] | None = None
    steers: list[dict[str, Any]] = field(default_factory=list)
    calls_made: int = 0
    clean: bool = False
    takeovers: int = 0
    spent: dict[str, Any] | None = None
    recent: list[list[str]] = field(default_factory=list)

    def encode(self) -> bytes:
        return orjson.dumps(self)


def read_checkpoint(payload: bytes) -> Checkpoint:
    """Raises ValueError or TypeError for what is no checkpoint."""
    return Checkpoint(**orjson.loads(payload))


def pack_item(item: OpenItem) -> dict[str, Any]:
    """A finished item, so that `unpack_item` can bring it back."""
    return {
        "id": item.id,
        "index": item.index,
        "upstream": item.for_model(),
        "call_id": item.call_id,
        "done": item.done.decode() if item.done is not None else None,
        "status": item.status,
        "tool": asdict(item.tool) if item.tool is not None else None,
        "result": asdict(item.result) if item.result is not None else None,
        "approval_request_id": item.approval_request_id,
        "to_model": item.to_model,
    }


def unpack_item(packed: dict[str, Any]) -> OpenItem:
    """The reverse of `pack_item`. Raises KeyError or TypeError for what it did not pack."""
    done, tool, result = packed["done"], packed["tool"], packed["result"]
    return OpenItem(
        id=packed["id"],
        index=packed["index"],
        upstream=packed["upstream"],
        call_id=packed["call_id"],
        done=done.encode() if done is not None else None,
        status=packed["status"],
        tool=ServerTool(**tool) if tool is not None else None,
        result=CallResult(**result) if result is not None else None,
        approval_request_id=packed["approval_request_id"],
        to_model=packed["to_model"],
        kept=packed["upstream"],
    )
