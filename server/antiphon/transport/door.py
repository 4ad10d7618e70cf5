"""The door: what is checked on every request and upgrade before anything else looks at it.

Host (against DNS rebinding), forwarding headers, Origin (against other sites' pages), credentials, content type.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.errors import AntiphonError, RequestError
from antiphon.ports import Authenticator
from antiphon.settings import Settings
from antiphon.transport.replies import error_response, refuse_upgrade

_FORWARDING = frozenset({"forwarded", "x-real-ip"})
_FORWARDING_PREFIX = "x-forwarded-"
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Door:
    """ASGI middleware. Leaves the principal in `scope["state"]["principal"]` for paths under /v1."""

    def __init__(self, app: ASGIApp, settings: Settings, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator
        self._auth_required = settings.auth_required
        self._trusted = frozenset(settings.trusted_proxies)
        self._loopback = settings.is_loopback
        self._hosts = _known_hosts(settings)
        # Bound to every address of the machine, each of them is one we are bound to; a rebound name is not.
        self._any_address = settings.auth_required and settings.host in _EVERY_ADDRESS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        try:
            self._check(scope, headers)
            if scope["path"].startswith("/v1"):
                scope.setdefault("state", {})["principal"] = self._authenticator.authenticate(headers)
        except AntiphonError as error:
            if scope["type"] == "websocket":
                await refuse_upgrade(error, receive, send)
            else:
                await error_response(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "")
        self._check_host(host)
        if not self._auth_required:
            self._check_forwarded(scope, headers)
        self._check_origin(scope, headers, host)
        if scope["type"] == "http":
            _check_content_type(scope, headers)

    def _check_host(self, host: str) -> None:
        name = _host_name(host)
        if name is None or not (name in self._hosts or (self._any_address and _is_address(name))):
            raise RequestError(
                f"This server does not answer to the host {host[:80]!r}; add it to allowed_hosts if it should.",
                code="host_not_allowed",
            )

    def _check_forwarded(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Without authentication only this machine is served; a proxy would hide who really asks."""
        client = scope.get("client")
        forwarded = any(name in _FORWARDING or name.startswith(_FORWARDING_PREFIX) for name in headers)
        if forwarded and (client is None or client[0] not in self._trusted):
            raise RequestError(
                "Forwarded requests are refused while authentication is off; configure keys, or name the "
                "proxy in trusted_proxies.",
                code="forwarded_not_allowed",
            )

    def _check_origin(self, scope: Scope, headers: Mapping[str, str], host: str) -> None:
        """A browser sends Origin: it must be our own. A client that is no browser sends none (PROTOCOL 3.3.2)."""
        origin = headers.get("origin")
        if origin is None:
            reads = scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD")
            if not (reads or self._loopback or self._auth_required or "authorization" in headers):
                raise RequestError(
                    "Send an Authorization header (any key) with this request; without it any page could send it.",
                    code="origin_not_allowed",
                )
            return
        scheme, _, place = origin.lower().partition("://")
        if scheme not in ("http", "https") or place != host.lower():
            raise RequestError(
                f"Pages of {origin[:80]!r} may not use this server.",
                code="origin_not_allowed",
                headers={"x-should-retry": "false"},
            )


def _known_hosts(settings: Settings) -> frozenset[str]:
    """Names served: what we are bound to, the loopback names where that is loopback, and what was configured."""
    names = {_canonical(name.strip("[]")) for name in (*settings.allowed_hosts, settings.host)}
    if settings.is_loopback or not settings.auth_required or settings.host in _EVERY_ADDRESS:
        names |= _LOOPBACK_NAMES
    return frozenset(names)


def _host_name(host: str) -> str | None:
    """The name in a Host header, without port and brackets; None if it is none."""
    parts = _HOST.fullmatch(host)
    return _canonical(parts[1].strip("[]")) if parts is not None else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower().rstrip(".")


def _check_content_type(scope: Scope, headers: Mapping[str, str]) -> None:
    if scope["method"] not in _WITH_BODY:
        return
    has_body = headers.get("content-length", "0") not in ("", "0") or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        raise RequestError("Send the body as `Content-Type: application/json`.", code="unsupported_media_type")


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
