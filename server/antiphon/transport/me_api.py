"""`GET /v1/me`: who the caller is, so that a page offers only what its reader may do."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.transport.body import principal_of
from antiphon.transport.replies import Json


class MeApi:
    """The endpoint. It tells a caller nothing but what its own credential stands for."""

    def routes(self) -> list[Route]:
        return [Route("/v1/me", self.me, methods=["GET"])]

    async def me(self, request: Request) -> Response:
        principal = principal_of(request)
        who = {"id": principal.id, "tenant": principal.tenant, "role": principal.role}
        return Json({"object": "principal", **who})
