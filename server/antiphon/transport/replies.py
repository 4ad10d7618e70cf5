"""Answers over HTTP: JSON bodies, errors, refused upgrades."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.errors import AntiphonError
from antiphon.session.frames import error_frame

_CLOSE_CODES = {
    "host_not_allowed": 4504,
    "origin_not_allowed": 4504,
    "forwarded_not_allowed": 4504,
    "too_many_connections": 4503,
    "rate_limited": 4029,
    "forbidden": 4502,
    "server_draining": 4000,
}
"""Closes of upgrades by the refusal's code (PROTOCOL 13)."""


class Json(Response):
    """A JSON body from an object, or from bytes that are JSON already. It is the caller's, and in no cache."""

    media_type = "application/json"

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        super().init_headers(headers)
        self.headers.setdefault("cache-control", "no-store")

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


async def close_upgrade(error: AntiphonError, receive: Receive, send: Send) -> None:
    """Accept an upgrade only to say in a frame why it is refused, and close: what the script of a page can see."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": orjson.dumps(error_frame(error)).decode()})
    await send({"type": "websocket.close", "code": close_code(error), "reason": error.code})


async def turn_away(scope: Scope, error: AntiphonError, receive: Receive, send: Send) -> None:
    """Refuse an upgrade so that the client can tell why: browsers hide the HTTP answer from pages."""
    if any(name.lower() == b"origin" for name, _ in scope["headers"]):
        await close_upgrade(error, receive, send)
    else:
        await refuse_upgrade(error, receive, send)


def close_code(error: AntiphonError) -> int:
    """What a page's refused upgrade closes with: 45xx is for good, the others may come back."""
    if error.status == 401:
        return 4500
    return _CLOSE_CODES.get(error.code, 1013 if error.status == 503 else 1008)
