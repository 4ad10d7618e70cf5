"""Python tools as somebody might write them."""

from __future__ import annotations

import sys
import threading
from datetime import date
from typing import Any

from pydantic import BaseModel, Field

from antiphon.errors import ToolError
from antiphon.ports import ToolContext

release = threading.Event()


class Order(BaseModel):
    """What to look up."""

    number: int = Field(gt=0)


async def order(arguments: Order, context: ToolContext) -> dict[str, Any]:
    """Looks up an order.

    This part is for people.
    """
    return {"number": arguments.number, "run": context.run_id, "day": date(2026, 7, 1)}


def threaded(arguments: dict[str, Any], context: ToolContext) -> str:
    on_loop = threading.current_thread() is threading.main_thread()
    return f"{arguments['word']} from {'the loop' if on_loop else 'a thread'}"


def hanging(arguments: dict[str, Any], context: ToolContext) -> str:
    release.wait(30)
    return "late"


async def refusing(arguments: dict[str, Any], context: ToolContext) -> str:
    raise ToolError("There is no such order.")


async def leaving(arguments: dict[str, Any], context: ToolContext) -> str:
    sys.exit(1)


def leaving_thread(arguments: dict[str, Any], context: ToolContext) -> str:
    sys.exit(1)


class Uncaught(BaseException):
    """What no handler of exceptions catches, as the timeouts of some libraries are."""


async def slipping(arguments: dict[str, Any], context: ToolContext) -> str:
    raise Uncaught


def slipping_thread(arguments: dict[str, Any], context: ToolContext) -> str:
    raise Uncaught


async def odd(arguments: dict[str, Any], context: ToolContext) -> Any:
    return object()


async def alone() -> str:
    return ""


NOT_A_FUNCTION = 5
