"""Python tools for the tests of the loop. What they do is asked for by key, so that tests do not meet."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

from antiphon.errors import ToolError
from antiphon.ports import ToolContext

begun: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
ended: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
running: defaultdict[str, set[int]] = defaultdict(set)
most: defaultdict[str, int] = defaultdict(int)
arguments_of: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)


async def do(arguments: dict[str, Any], context: ToolContext) -> str:
    """Ends as soon as the calls named in `after` have ended."""
    key = arguments["key"]
    arguments_of[key].append(arguments)
    begun[key].set()
    for other in arguments.get("after", ()):
        await ended[other].wait()
    ended[key].set()
    return f"did {key}"


async def hang(arguments: dict[str, Any], context: ToolContext) -> str:
    """Ends only when it is stopped."""
    begun[arguments["key"]].set()
    try:
        await asyncio.Event().wait()
    finally:
        ended[arguments["key"]].set()
    return "never"


async def crowd(arguments: dict[str, Any], context: ToolContext) -> str:
    """Counts how many run at the same time; each ends when as many as `full` were there, or all have come."""
    key = arguments["key"]
    inside = running[key]
    inside.add(arguments["n"])
    most[key] = max(most[key], len(inside))
    if len(inside) == arguments["full"]:
        begun[key].set()
    await begun[key].wait()
    await asyncio.sleep(0)
    inside.discard(arguments["n"])
    return str(arguments["n"])


async def refuse(arguments: dict[str, Any], context: ToolContext) -> str:
    raise ToolError("The cupboard is bare.")


async def crash(arguments: dict[str, Any], context: ToolContext) -> str:
    raise RuntimeError("the password is swordfish")


async def big(arguments: dict[str, Any], context: ToolContext) -> str:
    return "x" * 50_000_000


def note(arguments: dict[str, Any], context: ToolContext) -> str:
    """Writes a line into a file, so that another process sees how often it was called."""
    with Path(arguments["file"]).open("a", encoding="utf-8") as file:
        file.write("called\n")
    if arguments.get("hang"):
        threading.Event().wait(60)
    return "noted"
