"""`/health` and `/ready`: whether the process lives, and whether new work is welcome. For anybody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.transport.replies import Json

Ready = Callable[[], Awaitable[str]]
"""Gives `ready`, or why not."""


class HealthApi:
    """The endpoints."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready

    def routes(self) -> list[Route]:
        return [
            Route("/health", self.health, methods=["GET"]),
            Route("/ready", self.ready, methods=["GET"]),
        ]

    async def health(self, request: Request) -> Response:
        return Json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        state = await self._ready()
        return Json({"status": state}, status_code=200 if state == "ready" else 503)
