"""Queries that several lists take: how many, in which order, and what to include."""

from __future__ import annotations

from typing import Literal

from starlette.requests import Request

from antiphon.core.create_request import check_includes
from antiphon.errors import RequestError

MOST = 100
"""Entries of one page."""


def limit_of(request: Request) -> int:
    """How many entries a page shall have. Raises RequestError."""
    limit = request.query_params.get("limit", "20")
    if not limit.isascii() or not limit.isdigit() or len(limit) > 3 or not 1 <= int(limit) <= MOST:
        raise RequestError(f"limit is a number from 1 to {MOST}.", param="limit")
    return int(limit)


def order_of(request: Request) -> Literal["asc", "desc"]:
    """Raises RequestError."""
    order = request.query_params.get("order", "desc")
    if order == "asc":
        return "asc"
    if order != "desc":
        raise RequestError("order is asc or desc.", param="order")
    return "desc"


def wants_stream(request: Request) -> bool:
    """Whether `stream` asks for events; absent is no. Raises RequestError."""
    stream = request.query_params.get("stream", "").lower()
    if stream not in ("true", "1", "false", "0", ""):
        raise RequestError("stream is true or false.", param="stream")
    return stream in ("true", "1")


def check_include(request: Request) -> None:
    """What is kept is given whole. Names of what nobody knows are refused, as in a create. Raises RequestError."""
    query = request.query_params
    check_includes([*query.getlist("include"), *query.getlist("include[]")])
