"""Instructions that come from several sides: the server's context, the agent, the request, in this order."""

from __future__ import annotations

from typing import Any


def put_before(text: str | None, instructions: Any) -> Any:
    """The instructions with `text` in front of them and a blank line between.

    instructions: as a create has them: a string, a list of items, or None.
    """
    if not text:
        return instructions
    if isinstance(instructions, list):
        return [{"type": "message", "role": "developer", "content": text}, *instructions]
    return f"{text}\n\n{instructions}" if instructions else text


def put_behind(instructions: Any, text: str) -> Any:
    """The instructions with `text` behind them, as the last word. instructions: as in `put_before`."""
    if isinstance(instructions, list):
        return [*instructions, {"type": "message", "role": "developer", "content": text}]
    return f"{instructions}\n\n{text}" if instructions else text
