"""The ASGI application: routes, pages, health, the door in front of everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from antiphon.errors import AntiphonError, RequestError
from antiphon.ports import Authenticator
from antiphon.runs.engine import Engine
from antiphon.session.hub import Hub
from antiphon.session.rates import Rates
from antiphon.transport.admin_api import AdminApi
from antiphon.transport.agents_api import AgentsApi
from antiphon.transport.door import Door
from antiphon.transport.door.places import Places
from antiphon.transport.held_api import HeldApi
from antiphon.transport.replies import Json, error_response, refuse_upgrade
from antiphon.transport.responses_api import ResponsesApi
from antiphon.transport.steer_api import SteerApi
from antiphon.transport.tickets_api import TicketsApi
from antiphon.transport.usage_api import UsageApi
from antiphon.transport.websocket import ResponsesSocket

log = structlog.get_logger(__name__)

_PAGES = Path(__file__).parent.parent / "pages"
_PAGE_HEADERS = {
    "content-security-policy": "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-cache",
}

Models = Callable[[], Awaitable[list[dict[str, Any]]]]
Ready = Callable[[], Awaitable[str]]


class _Pages(StaticFiles):
    """The pages, with the headers that keep them from loading or leaking anything else."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await refuse_upgrade(RequestError("There is no socket at this path.", code="not_found"), receive, send)
            return
        await super().__call__(scope, receive, send)

    async def get_response(self, path: str, scope: MutableMapping[str, Any]) -> Response:
        if scope["method"] not in ("GET", "HEAD") and not self._has(path):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers.update(_PAGE_HEADERS)
        return response

    def _has(self, path: str) -> bool:
        try:
            return self.lookup_path(path)[1] is not None
        except (OSError, ValueError):  # too long, or with a NUL: no file can have this name
            return False


def build_asgi(engine: Engine, hub: Hub, authenticator: Authenticator, models: Models, ready: Ready) -> Starlette:
    """models: all that can be named. ready: what /ready says, `ready` or why not."""

    async def open_models(request: Request) -> list[dict[str, Any]]:
        principal = request.state.principal
        return [model for model in await models() if engine.models.may_use(principal.tenant, model["id"])]

    async def list_models(request: Request) -> Response:
        return Json({"object": "list", "data": await open_models(request)})

    async def one_model(request: Request) -> Response:
        name = request.path_params["model"]
        for model in await open_models(request):
            if model["id"] == name:
                return Json(model)
        raise RequestError(f"The model '{name[:80]}' does not exist.", code="model_not_found", param="model")

    async def health(request: Request) -> Response:
        return Json({"status": "ok"})

    async def readiness(request: Request) -> Response:
        state = await ready()
        return Json({"status": state}, status_code=200 if state == "ready" else 503)

    limits = engine.settings.door_limits
    rates = Rates(limits, engine.clock)
    places = Places(limits, engine.settings.tenant, engine.clock)
    app = Starlette(
        routes=[
            WebSocketRoute("/v1/responses", ResponsesSocket(engine, hub, authenticator, rates)),
            *ResponsesApi(engine, authenticator).routes(),
            *HeldApi(engine).routes(),
            *SteerApi(engine).routes(),
            *AgentsApi(engine).routes(),
            *AdminApi(engine.accounts, engine.settings.limits).routes(),
            *UsageApi(engine.accounts, engine.clock).routes(),
            *TicketsApi(authenticator, engine.settings.limits).routes(),
            Route("/v1/models", list_models, methods=["GET"]),
            Route("/v1/models/{model:path}", one_model, methods=["GET"]),
            Route("/health", health, methods=["GET"]),
            Route("/ready", readiness, methods=["GET"]),
        ],
        middleware=[
            Middleware(Door, settings=engine.settings, authenticator=authenticator, rates=rates, places=places)
        ],
        exception_handlers={
            AntiphonError: _antiphon_error,
            HTTPException: _http_error,
            Exception: _crash,
        },
    )
    # Not a Mount: that would match every path, and a wrong method on one of ours would be an unknown page.
    app.router.default = _Pages(directory=_PAGES, html=True)
    app.router.redirect_slashes = False
    return app


async def _antiphon_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AntiphonError)
    return error_response(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid_request")
    message = {404: "There is nothing at this path.", 405: "This path does not take this method."}
    text = message.get(error.status_code, str(error.detail))
    return error_response(
        RequestError(text, code=code, status=error.status_code, headers=dict(error.headers or {}))
    )


async def _crash(request: Request, error: Exception) -> Response:
    log.error("request_crashed", path=request.url.path, exc_info=error)
    return error_response(AntiphonError("The server failed to handle this request."))
