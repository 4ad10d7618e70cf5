"""`GET /v1/models`: what the caller may name in a create."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.errors import RequestError
from antiphon.governance.model_policy import ModelPolicy
from antiphon.transport.body import principal_of
from antiphon.transport.replies import Json

Models = Callable[[], Awaitable[list[dict[str, Any]]]]
"""Gives all that can be named, by anybody."""


class ModelsApi:
    """The endpoints."""

    def __init__(self, models: Models, policy: ModelPolicy) -> None:
        self._models = models
        self._policy = policy

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self.all, methods=["GET"]),
            Route("/v1/models/{model:path}", self.one, methods=["GET"]),
        ]

    async def all(self, request: Request) -> Response:
        return Json({"object": "list", "data": await self._open(request)})

    async def one(self, request: Request) -> Response:
        name = request.path_params["model"]
        for model in await self._open(request):
            if model["id"] == name:
                return Json(model)
        raise RequestError(f"The model '{name[:80]}' does not exist.", code="model_not_found", param="model")

    async def _open(self, request: Request) -> list[dict[str, Any]]:
        """Those that are open to the caller's tenant."""
        tenant = principal_of(request).tenant
        return [model for model in await self._models() if self._policy.may_use(tenant, model["id"])]
