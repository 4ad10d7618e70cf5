"""The order in which a request or upgrade is checked.

Host (against DNS rebinding), forwarding headers, Origin (against other sites' pages), content type and coding,
for sockets the rate and number of the address; then credentials, and what their principal may have.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.errors import AntiphonError, RequestError
from antiphon.ops.counts import Counts
from antiphon.ports import Authenticator
from antiphon.session.rates import Rates
from antiphon.settings import Settings
from antiphon.transport.credentials import credentials_of, shows_nothing
from antiphon.transport.door.addresses import Addresses, is_forwarded
from antiphon.transport.door.hosts import KnownHosts
from antiphon.transport.door.origins import Origins
from antiphon.transport.door.places import Places
from antiphon.transport.replies import error_response, turn_away

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Door:
    """ASGI middleware.

    It leaves the client's `address` in `scope["state"]`, under /v1 the `principal`, and for a socket
    `on_authenticated`: called with the principal once it is known, it raises RequestError if that has too many.
    The socket's place in the counts is given back when the application is done with it.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        authenticator: Authenticator,
        rates: Rates,
        places: Places,
        counts: Counts,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._rates = rates
        self._places = places
        self._counts = counts
        self._auth_required = settings.auth_required
        self._loopback = settings.is_loopback
        self._hosts = KnownHosts(settings)
        self._origins = Origins(settings.allowed_origins)
        self._addresses = Addresses(settings.trusted_proxies)
        self._for_foreign_pages = self._origins.cors(self._inside)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        place = None
        try:
            foreign = self._check(scope, headers)
            state = scope.setdefault("state", {})
            state["address"] = self._addresses.client(scope, headers)
            if scope["type"] == "websocket":
                place = self._places.enter(state["address"])
                state["on_authenticated"] = place.admit
        except AntiphonError as error:
            await self._refuse(error, scope, receive, send)
            return
        app = self._for_foreign_pages if foreign else self._inside
        try:
            await app(scope, receive, send)
        finally:
            if place is not None:
                place.leave()

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Who asks, and whether it may have this much."""
        try:
            if scope["path"].startswith("/v1"):
                await self._identify(scope, _headers(scope))
        except AntiphonError as error:
            await self._refuse(error, scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _identify(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Raises AntiphonError. A socket that shows nothing has none until its first frame (PROTOCOL 3.7)."""
        state = scope["state"]
        credentials = credentials_of(scope, headers, state["address"])
        is_socket = scope["type"] == "websocket"
        if is_socket and self._auth_required and shows_nothing(credentials):
            return
        principal = await self._authenticator.authenticate(credentials)
        state["principal"] = principal
        if is_socket:
            state["on_authenticated"](principal)
        else:
            self._rates.request(principal, scope["method"], scope["path"])

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Whether it comes from a page of another, allowed site. Raises RequestError."""
        host = headers.get("host", "")
        self._hosts.check(host)
        if not self._auth_required:
            self._check_forwarded(scope, headers)
        foreign = self._check_origin(scope, headers, host)
        if scope["type"] == "http":
            _check_body(scope, headers)
        return foreign

    def _check_forwarded(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Without authentication only this machine is served; a proxy would hide who really asks."""
        if is_forwarded(headers) and not self._addresses.is_trusted(scope):
            raise RequestError(
                "Forwarded requests are refused while authentication is off; configure keys, or name the "
                "proxy in trusted_proxies.",
                code="forwarded_not_allowed",
            )

    async def _refuse(self, error: AntiphonError, scope: Scope, receive: Receive, send: Send) -> None:
        self._counts.refuse("door", error.code)
        if scope["type"] == "websocket":
            await turn_away(scope, error, receive, send)
        else:
            await error_response(error)(scope, receive, send)

    def _check_origin(self, scope: Scope, headers: Mapping[str, str], host: str) -> bool:
        """A browser sends Origin. A client that is no browser sends none (PROTOCOL 3.3.2)."""
        origin = headers.get("origin")
        if origin is not None:
            return self._origins.is_foreign(origin, host)
        reads = scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD")
        if not (reads or self._loopback or self._auth_required or "authorization" in headers):
            raise RequestError(
                "Send an Authorization header (any key) with this request; without it any page could send it.",
                code="origin_not_allowed",
            )
        return False


def _check_body(scope: Scope, headers: Mapping[str, str]) -> None:
    """A body is JSON, and is what it is: one that unpacks to more than was sent has no honest size."""
    if scope["method"] not in _WITH_BODY:
        return
    if headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
        raise RequestError(
            "Send the body without Content-Encoding.",
            code="unsupported_media_type",
            headers={"accept-encoding": "identity"},
        )
    has_body = headers.get("content-length", "0") not in ("", "0") or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        raise RequestError("Send the body as `Content-Type: application/json`.", code="unsupported_media_type")


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case name. One that was sent twice is both, joined: a host, origin or key that no check takes."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
