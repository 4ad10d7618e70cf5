"""Answers over HTTP: JSON bodies, errors, refused upgrades."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Send

from antiphon.errors import AntiphonError


class Json(Response):
    """A JSON body from an object, or from bytes that are JSON already."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else orjson.dumps(content)


def error_response(error: AntiphonError, **beside: Any) -> Json:
    """The error as clients of the API know it. beside: further keys of the body (a snapshot)."""
    return Json({"error": error.body(), **beside}, status_code=error.status, headers=retry_headers(error))


def retry_headers(error: AntiphonError) -> dict[str, str]:
    """Hints for SDKs. A conflict or a refusal for good is not to be sent again by itself."""
    headers = dict(error.headers)
    if error.status in (403, 409):
        headers.setdefault("x-should-retry", "false")
    return headers


async def refuse_upgrade(error: AntiphonError, receive: Receive, send: Send) -> None:
    """Answer a WebSocket upgrade with an HTTP error."""
    await receive()
    body = orjson.dumps({"error": error.body()})
    headers = {"content-type": "application/json", **retry_headers(error)}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "websocket.http.response.start", "status": error.status, "headers": encoded})
    await send({"type": "websocket.http.response.body", "body": body})
