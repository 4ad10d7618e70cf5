"""Tool: a function that models may call."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from antiphon.errors import ToolError
from antiphon.ports import ToolContext

_PRICES = {"pencil": 2, "paper": 5}


class Order(BaseModel):
    """Becomes the JSON Schema that the model is given."""

    article: str
    pieces: int = Field(1, ge=1)


async def price(order: Order, context: ToolContext) -> dict[str, Any]:
    """What so many pieces of an article cost."""
    if order.article not in _PRICES:
        raise ToolError(f"There is no article {order.article!r}; there are {', '.join(_PRICES)}.")
    return {"price": order.pieces * _PRICES[order.article], "currency": "CHF"}
