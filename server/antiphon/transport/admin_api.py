"""`/v1/admin`: pause of a tenant, emergency stop, the audit log. Every action is in the log before its answer."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.faults import refusal
from antiphon.core.principal import Principal, Role, is_tenant
from antiphon.core.quotas import FINAL
from antiphon.errors import RequestError
from antiphon.governance.accounts import Accounts
from antiphon.settings.limits import LimitSettings
from antiphon.transport.body import principal_of, read_object
from antiphon.transport.replies import Json
from antiphon_protocol.bodies import Holding

_MOST_ENTRIES = 1_000


class AdminApi:
    """The endpoints."""

    def __init__(self, accounts: Accounts, limits: LimitSettings) -> None:
        self._accounts = accounts
        self._limits = limits

    def routes(self) -> list[Route]:
        tenant = "/v1/admin/tenants/{tenant}"
        return [
            Route(f"{tenant}/pause", self.pause, methods=["POST"]),
            Route(f"{tenant}/resume", self.resume, methods=["POST"]),
            Route("/v1/admin/stop", self.stop, methods=["POST"]),
            Route("/v1/admin/start", self.start, methods=["POST"]),
            Route("/v1/admin/audit", self.audit, methods=["GET"]),
        ]

    async def pause(self, request: Request) -> Response:
        principal, tenant = _whose(request)
        holding = await self._read(request)
        await self._accounts.standing.pause(principal, tenant, cancel=holding.cancel)
        return Json({"object": "tenant", "id": tenant, "paused": True})

    async def resume(self, request: Request) -> Response:
        principal, tenant = _whose(request)
        await self._accounts.standing.resume(principal, tenant)
        return Json({"object": "tenant", "id": tenant, "paused": False})

    async def stop(self, request: Request) -> Response:
        principal = at_least(request, "admin")
        holding = await self._read(request)
        await self._accounts.standing.stop(principal, cancel=holding.cancel)
        return Json({"object": "server", "stopped": True})

    async def start(self, request: Request) -> Response:
        principal = at_least(request, "admin")
        await self._accounts.standing.start_again(principal)
        return Json({"object": "server", "stopped": False})

    async def audit(self, request: Request) -> Response:
        at_least(request, "admin")
        limit = _number(request, "limit", 100.0)
        if not 1 <= limit <= _MOST_ENTRIES:
            raise RequestError(f"limit is between 1 and {_MOST_ENTRIES}.", param="limit")
        before = _number(request, "before", None)
        entries = await self._accounts.usage.audit(before=before, limit=int(limit))
        return Json({"object": "list", "data": [entry.row() for entry in entries]})

    async def _read(self, request: Request) -> Holding:
        if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
            return Holding()
        body = await read_object(request, self._limits)
        try:
            return Holding.model_validate(body)
        except ValidationError as error:
            raise refusal(error, body) from error


def at_least(request: Request, role: Role) -> Principal:
    """Who asks, if its role is this one or a higher one. Raises RequestError `forbidden`."""
    principal = principal_of(request)
    if not principal.at_least(role):
        raise RequestError(f"This needs the role {role}.", code="forbidden", headers=dict(FINAL))
    return principal


def _whose(request: Request) -> tuple[Principal, str]:
    """Who asks, and for which tenant: operators for their own, and they learn of no other; admins for any."""
    principal = at_least(request, "operator")
    tenant: str = request.path_params["tenant"]
    its_own = tenant == principal.tenant or principal.at_least("admin")
    if not its_own or not is_tenant(tenant):
        raise RequestError("There is no such tenant.", code="tenant_not_found", param="tenant")
    return principal, tenant


def _number(request: Request, name: str, default: Any) -> Any:
    text = request.query_params.get(name)
    if text is None:
        return default
    if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text) is None:
        raise RequestError(f"{name} is a number.", param=name)
    return float(text)
