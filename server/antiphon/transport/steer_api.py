"""`POST /v1/responses/{id}/steer`: steering for those who have no socket (PROTOCOL 7.3, 11.1)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.errors import RequestError
from antiphon.runs.engine import Engine
from antiphon.transport.body import principal_of, read_object
from antiphon.transport.replies import Json


class SteerApi:
    """The endpoint."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        return [Route("/v1/responses/{response_id}/steer", self.steer, methods=["POST"])]

    async def steer(self, request: Request) -> Response:
        given = await read_object(request, self._engine.settings.limits)
        if extra := given.keys() - {"input"}:
            field = min(extra)[:80]
            raise RequestError(f"A steer has no field {field!r}.", code="invalid_input", param=field)
        response_id = request.path_params["response_id"]
        taken = await self._engine.reach.steer(response_id, given.get("input"), principal_of(request))
        target = {"id": taken.steer_id, "previous_response_id": response_id}
        return Json({"object": "response.steer", "steer": target, "successor": taken.successor_id})
