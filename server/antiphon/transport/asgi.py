"""The ASGI application: routes, pages, health, the door in front of everything."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from antiphon.errors import AntiphonError, RequestError
from antiphon.ops.status import Status
from antiphon.ports import Authenticator
from antiphon.runs.engine import Engine
from antiphon.session.hub import Hub
from antiphon.session.rates import Rates
from antiphon.transport.admin_api import AdminApi
from antiphon.transport.agents_api import AgentsApi
from antiphon.transport.conversations_api import ConversationsApi
from antiphon.transport.door import Door
from antiphon.transport.door.places import Places
from antiphon.transport.health_api import HealthApi, Ready
from antiphon.transport.held_api import HeldApi
from antiphon.transport.me_api import MeApi
from antiphon.transport.metrics_api import MetricsApi
from antiphon.transport.models_api import Models, ModelsApi
from antiphon.transport.openapi_api import OpenApi
from antiphon.transport.replies import error_response, refuse_upgrade
from antiphon.transport.responses_api import ResponsesApi
from antiphon.transport.runs_api import RunsApi
from antiphon.transport.status_api import StatusApi
from antiphon.transport.steer_api import SteerApi
from antiphon.transport.tickets_api import TicketsApi
from antiphon.transport.usage_api import UsageApi
from antiphon.transport.websocket import ResponsesSocket

log = structlog.get_logger(__name__)

_PAGES = Path(__file__).parent.parent / "pages"
_NAMED_PAGES = {"ops": "ops.html"}
"""Pages with an address of their own; the chat is the index."""
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


class _Pages(StaticFiles):
    """The pages, with the headers that keep them from loading or leaking anything else."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await refuse_upgrade(RequestError("There is no socket at this path.", code="not_found"), receive, send)
            return
        await super().__call__(scope, receive, send)

    async def get_response(self, path: str, scope: MutableMapping[str, Any]) -> Response:
        name = _NAMED_PAGES.get(path, path)
        if scope["method"] not in ("GET", "HEAD") and not self._has(name):
            raise HTTPException(404)
        if name != path and scope["path"].endswith("/"):
            # Its links are relative to where it stands.
            response: Response = RedirectResponse(f"../{path}")
        else:
            response = await super().get_response(name, scope)
        response.headers.update(_PAGE_HEADERS)
        return response

    def _has(self, path: str) -> bool:
        try:
            return self.lookup_path(path)[1] is not None
        except (OSError, ValueError):  # too long, or with a NUL: no file can have this name
            return False


def build_asgi(
    engine: Engine,
    hub: Hub,
    authenticator: Authenticator,
    models: Models,
    ready: Ready,
    status: Status,
    metrics: MetricsApi,
) -> Starlette:
    """models: all that can be named. ready: what /ready says."""

    limits = engine.settings.door_limits
    rates = Rates(limits, engine.clock)
    places = Places(limits, engine.settings.tenant, engine.clock)
    app = Starlette(
        routes=[
            WebSocketRoute("/v1/responses", ResponsesSocket(engine, hub, authenticator, rates)),
            *ResponsesApi(engine, authenticator).routes(),
            *HeldApi(engine).routes(),
            *SteerApi(engine).routes(),
            *RunsApi(engine, authenticator).routes(),
            *ConversationsApi(engine).routes(),
            *AgentsApi(engine).routes(),
            *AdminApi(engine.accounts, engine.settings.limits).routes(),
            *UsageApi(engine.accounts, engine.clock).routes(),
            *TicketsApi(authenticator, engine.settings.limits).routes(),
            *MeApi().routes(),
            *ModelsApi(models, engine.models).routes(),
            *StatusApi(status).routes(),
            *HealthApi(ready).routes(),
            *OpenApi().routes(),
            *metrics.routes(),
        ],
        middleware=[
            Middleware(
                Door,
                settings=engine.settings,
                authenticator=authenticator,
                rates=rates,
                places=places,
                counts=engine.counts,
            )
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
    app.state.counts = engine.counts
    return app


async def _antiphon_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AntiphonError)
    request.app.state.counts.refuse("http", error.code)
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
