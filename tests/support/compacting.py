"""STUB: upstream models that are asked for summaries."""

from __future__ import annotations

from typing import Any

from antiphon.core.compaction import SUMMARY_HEAD
from antiphon.core.summary import SUMMARY_REQUEST
from tests.support.stub_upstream import Handler, StubConn, StubRequest, events_of_text, in_turn, play

Item = dict[str, Any]

LONG = "word " * 2000
"""More than the lowest threshold."""


def compacting(summary: str | Handler, *answers: Handler) -> Handler:
    """Give `summary` to calls that ask for one, and the answers in turn to all others."""
    write = play(events_of_text([summary])) if isinstance(summary, str) else summary
    answer = in_turn(*answers)

    async def handler(request: StubRequest, conn: StubConn) -> None:
        await (write if asks_for_summary(request.body) else answer)(request, conn)

    return handler


def asks_for_summary(body: Item) -> bool:
    """Whether a model call is a compaction's."""
    return bool(body["input"]) and text_of(body["input"][-1]) == SUMMARY_REQUEST


def text_of(item: Item) -> str:
    """What a message says, or the type of any other item."""
    if item.get("type", "message") != "message":
        return str(item["type"])
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def said(body: Item) -> list[str]:
    """What a model gets to read, item by item; a summary is marked."""
    return [text_of(item).replace(SUMMARY_HEAD, "SUMMARY ") for item in body["input"]]
