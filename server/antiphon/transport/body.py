"""What every endpoint reads of a request: its body within the limit, and who sent it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import ClientDisconnect, Request

from antiphon.core.json_input import parse_object
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.settings.limits import LimitSettings

_DISCARD_FACTOR = 4
_DISCARD_S = 10.0
"""How much more than the limit, and for how long, is read of a body that is refused: a client that is still
sending would see a reset instead of the answer."""


def principal_of(request: Request) -> Principal:
    """Who asks, as the door found out."""
    principal: Principal = request.state.principal
    return principal


async def read_object(request: Request, limits: LimitSettings) -> dict[str, Any]:
    """The body as one JSON object. Raises RequestError `payload_too_large` or `invalid_json`."""
    stream = request.stream()
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.max_body_bytes:
        raise await _too_large(stream, limits)
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in stream:
            size += len(chunk)
            if size > limits.max_body_bytes:
                chunks.clear()
                raise await _too_large(stream, limits)
            chunks.append(chunk)
    except ClientDisconnect:
        raise RequestError("The client left before its request was whole.", code="invalid_json") from None
    return parse_object(b"".join(chunks), limits.json_depth)


async def _too_large(stream: AsyncIterator[bytes], limits: LimitSettings) -> RequestError:
    """Read what is still coming, within bounds, and say what is wrong."""
    left = _DISCARD_FACTOR * limits.max_body_bytes
    try:
        async with asyncio.timeout(_DISCARD_S):
            async for chunk in stream:
                left -= len(chunk)
                if left < 0:
                    break
    except (TimeoutError, ClientDisconnect):
        pass
    return RequestError(
        f"The body is larger than {limits.max_body_bytes} bytes.",
        code="payload_too_large",
        headers={"connection": "close"},
    )
