"""Which pages may use this server (PROTOCOL 3.3.2): its own, and those of the origins that are listed."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from antiphon.errors import RequestError

_METHODS = ("GET", "POST", "PUT", "DELETE")
_EXPOSED = ("retry-after", "retry-after-ms", "x-should-retry", "x-request-id")
_PREFLIGHT_S = 600
"""How long browsers may remember an answer about what is allowed."""


class Origins:
    """Compared whole: scheme, host and port. No pattern, no suffix, and never `null`."""

    def __init__(self, allowed: Sequence[str]) -> None:
        """allowed: serialised origins, as browsers send them."""
        self._allowed = frozenset(allowed)

    def is_foreign(self, origin: str, host: str) -> bool:
        """Whether an allowed origin is another site than ours. Raises RequestError `origin_not_allowed`.

        host: the Host header. Behind a proxy that ends TLS our own scheme is not known: both are ours.
        """
        scheme, _, place = origin.lower().partition("://")
        if scheme in ("http", "https") and place == host.lower():
            return False
        if origin in self._allowed:
            return True
        raise RequestError(
            f"Pages of {origin[:80]!r} may not use this server.",
            code="origin_not_allowed",
            headers={"x-should-retry": "false"},
        )

    def cors(self, app: ASGIApp) -> ASGIApp:
        """app, with answers that pages of the listed origins may read. No cookies: there are none."""
        return CORSMiddleware(
            app,
            allow_origins=sorted(self._allowed),
            allow_methods=_METHODS,
            allow_headers=["*"],
            expose_headers=_EXPOSED,
            max_age=_PREFLIGHT_S,
        )
