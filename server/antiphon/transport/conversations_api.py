"""`GET /v1/conversations/{id}/runs`: what a second device rebuilds a conversation from (PROTOCOL 11.9)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.errors import RequestError
from antiphon.runs.engine import Engine
from antiphon.transport.body import principal_of
from antiphon.transport.replies import Json

_MOST_RUNS = 100


class ConversationsApi:
    """The endpoint."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        return [Route("/v1/conversations/{conversation_id}/runs", self.runs, methods=["GET"])]

    async def runs(self, request: Request) -> Response:
        query = request.query_params
        limit = query.get("limit", "20")
        if not limit.isascii() or not limit.isdigit() or len(limit) > 3 or not 1 <= int(limit) <= _MOST_RUNS:
            raise RequestError(f"limit is a number from 1 to {_MOST_RUNS}.", param="limit")
        page = await self._engine.conversation_runs.page(
            request.path_params["conversation_id"],
            principal_of(request),
            limit=int(limit),
            before=query.get("before"),
        )
        return Json({"object": "list", "data": page.states, "has_more": page.has_more})
