"""`GET /openapi.json`: the HTTP side for programs that read its description. For anybody."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.transport.openapi.document import encoded
from antiphon.transport.replies import Json


class OpenApi:
    """The endpoint. The document is made when it is first asked for."""

    def __init__(self) -> None:
        self._encoded: bytes | None = None

    def routes(self) -> list[Route]:
        return [Route("/openapi.json", self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        if self._encoded is None:
            self._encoded = (await asyncio.to_thread(encoded)).encode()  # a quarter of a second of work
        return Json(self._encoded)
