"""Reading a request body within its limit."""

from __future__ import annotations

from typing import Any

from starlette.requests import ClientDisconnect, Request

from antiphon.core.json_input import parse_object
from antiphon.errors import RequestError
from antiphon.settings import LimitSettings


async def read_object(request: Request, limits: LimitSettings) -> dict[str, Any]:
    """The body as one JSON object. Raises RequestError `payload_too_large` or `invalid_json`."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.max_body_bytes:
        raise _too_large(limits)
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limits.max_body_bytes:
                raise _too_large(limits)
            chunks.append(chunk)
    except ClientDisconnect:
        raise RequestError("The client left before its request was whole.", code="invalid_json") from None
    return parse_object(b"".join(chunks), limits.json_depth)


def _too_large(limits: LimitSettings) -> RequestError:
    return RequestError(
        f"The body is larger than {limits.max_body_bytes} bytes.",
        code="payload_too_large",
        headers={"connection": "close"},
    )
