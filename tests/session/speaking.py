"""A STUB whose turns stop where a test wants it: before the first item, inside one, after one, at a call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from tests.support.stub_upstream import StubConn, StubRequest, events_of_calls, events_of_text

BEFORE = "before"
INSIDE = "inside"
AFTER = "after"
INSIDE_AND_AFTER = "inside and after"
WHOLE = "whole"


class Speaker:
    """Each request plays the next of `turns`; the last one repeats.

    `before`, `inside`, `after`: say so much of a text, then wait for `release` (or until nobody listens), `inside
    and after` twice. `whole`: say it all. A list of (name, arguments): make these calls, then wait. inputs: what
    each request brought.
    """

    def __init__(self, *turns: str | Sequence[tuple[str, str]]) -> None:
        self._turns = deque(turns)
        self._permits = asyncio.Semaphore(0)
        self.inputs: list[list[dict[str, Any]]] = []

    def release(self, count: int = 1) -> None:
        """Let so many waiting turns say the rest."""
        for _ in range(count):
            self._permits.release()

    def said_by_user(self, index: int = -1) -> list[str]:
        """The texts of the user in one request, in order."""
        return [item["content"] for item in self.inputs[index] if item.get("role") == "user"]

    async def __call__(self, request: StubRequest, conn: StubConn) -> None:
        self.inputs.append(request.body["input"])
        turn = self._turns.popleft() if len(self._turns) > 1 else self._turns[0]
        if isinstance(turn, str):
            events = events_of_text([f"answer {len(self.inputs)}", " goes on"])
            last = len(events) - 1
            stops = {BEFORE: [1], INSIDE: [5], AFTER: [last], INSIDE_AND_AFTER: [5, last], WHOLE: []}[turn]
        else:
            events = events_of_calls(*turn)
            stops = [len(events) - 1]
        conn.head()
        said = 0
        for stop in stops:
            for event in events[said:stop]:
                conn.sse(event)
            said = stop
            await _first(self._permits.acquire(), conn.gone.wait())
        for event in events[said:]:
            conn.sse(event)
        conn.end()


async def _first(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
