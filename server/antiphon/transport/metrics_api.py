"""`GET /metrics`: this node's numbers, for Prometheus.

Who may read: with authentication off whoever reaches the server, as everything else; with authentication on a key
of an admin, for the numbers are sums over all tenants, or the token of `metrics.token_env`. An address proves
nothing: behind a proxy on the same machine the whole world comes from loopback.
"""

from __future__ import annotations

import hmac

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from antiphon.core.quotas import FINAL
from antiphon.errors import RequestError
from antiphon.ops.metrics.exporter import Exporter
from antiphon.ops.metrics.of_workers import WorkerMetrics
from antiphon.ports import Authenticator
from antiphon.transport.credentials import credentials_of


class MetricsApi:
    """The endpoint. token: reads this page and nothing else. exporter: None where the page is switched off.

    workers: of a server that is one of several processes, which all have to be on the page.
    """

    def __init__(
        self,
        exporter: Exporter | None,
        authenticator: Authenticator,
        token: SecretStr | None,
        workers: WorkerMetrics | None = None,
    ) -> None:
        self._exporter = exporter
        self._workers = workers
        self._authenticator = authenticator
        self._token = token

    def routes(self) -> list[Route]:
        return [Route("/metrics", self.metrics, methods=["GET"])] if self._exporter is not None else []

    async def metrics(self, request: Request) -> Response:
        assert self._exporter is not None
        await self._admit(request)
        accept = request.headers.get("accept", "")
        if self._workers is not None:
            page, media_type = await self._workers.render(accept)
        else:
            page, media_type = self._exporter.render(accept)
        return Response(page, headers={"content-type": media_type, "cache-control": "no-store"})

    async def _admit(self, request: Request) -> None:
        """Raises Unauthorized, RequestError `forbidden`."""
        if not self._authenticator.required:
            return
        headers = {name.lower(): value for name, value in request.headers.items()}
        shown = credentials_of(request.scope, headers, request.state.address)
        if self._token is not None and shown.bearer is not None:
            given, token = shown.bearer.encode(), self._token.get_secret_value().encode()
            if hmac.compare_digest(given, token):
                return
        principal = await self._authenticator.authenticate(shown)
        if not principal.at_least("admin"):
            raise RequestError("This needs the role admin.", code="forbidden", headers=dict(FINAL))
