"""`GET /v1/usage`: what was used, per tenant, agent, model or day."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.quotas import FINAL
from antiphon.errors import RequestError
from antiphon.governance.accounts import Accounts
from antiphon.governance.usage.report import Span, grouping, report
from antiphon.ports import Clock
from antiphon.transport.body import principal_of
from antiphon.transport.replies import Json


class UsageApi:
    """The endpoint. Operators see their own tenant, admins all, or the one they name with `tenant`."""

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock

    def routes(self) -> list[Route]:
        return [Route("/v1/usage", self.usage, methods=["GET"])]

    async def usage(self, request: Request) -> Response:
        principal, query = principal_of(request), request.query_params
        if not principal.at_least("operator"):
            raise RequestError("This needs the role operator.", code="forbidden", headers=dict(FINAL))
        tenant = query.get("tenant")
        if not principal.at_least("admin"):
            if tenant not in (None, principal.tenant):
                raise RequestError("There is no such tenant.", code="tenant_not_found", param="tenant")
            tenant = principal.tenant
        by = grouping(query.get("by"))
        span = Span.read(query.get("from"), query.get("to"), self._clock.now())
        return Json(await report(self._accounts.usage, by, span, tenant))
