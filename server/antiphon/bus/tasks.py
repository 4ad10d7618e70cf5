"""Ends tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_S = 0.2


async def end_tasks(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel and wait until they are over; what they raise is theirs.

    A cancellation can get lost: `asyncio.wait_for` of Python 3.11 swallows one that comes together with a result.
    """
    left = {task for task in tasks if task is not None and not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
