"""`POST /v1/tickets`: what a page gets for its key, to open a socket with."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.errors import RequestError
from antiphon.ports import Authenticator
from antiphon.settings.limits import LimitSettings
from antiphon.transport.body import principal_of, read_object
from antiphon.transport.replies import Json

_MAX_ORIGIN = 300


class TicketsApi:
    """The endpoint."""

    def __init__(self, authenticator: Authenticator, limits: LimitSettings) -> None:
        self._authenticator = authenticator
        self._limits = limits

    def routes(self) -> list[Route]:
        return [Route("/v1/tickets", self.issue, methods=["POST"])]

    async def issue(self, request: Request) -> Response:
        """A page gets one for itself; a server that has no Origin names that of the page it is for."""
        own = request.headers.get("origin")
        named = await self._named_origin(request)
        if own is not None and named is not None and named != own.lower():
            raise RequestError("A page gets tickets for its own origin only.", param="origin")
        origin = own.lower() if own is not None else named
        ticket, expires_at = await self._authenticator.issue_ticket(principal_of(request), origin)
        return Json({"object": "ticket", "ticket": ticket, "expires_at": expires_at})

    async def _named_origin(self, request: Request) -> str | None:
        headers = request.headers
        if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
            return None
        origin = (await read_object(request, self._limits)).get("origin")
        if origin is not None and not (isinstance(origin, str) and 0 < len(origin) <= _MAX_ORIGIN):
            raise RequestError("origin is a text such as https://chat.example.", param="origin")
        return origin.lower() if origin is not None else None
