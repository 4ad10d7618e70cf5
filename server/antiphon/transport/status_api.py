"""`GET /v1/admin/status`: nodes, upstreams, bus, store, and to admins totals, for dashboard and scripts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.ops.status import Status
from antiphon.transport.admin_api import at_least
from antiphon.transport.replies import Json


class StatusApi:
    """The endpoint."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def routes(self) -> list[Route]:
        return [Route("/v1/admin/status", self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        principal = at_least(request, "operator")
        return Json(await self._status.show(with_sums=principal.at_least("admin")))
