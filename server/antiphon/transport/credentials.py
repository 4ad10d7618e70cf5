"""What a caller shows: a bearer token in a header, or a ticket in the URL of an upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.types import Scope

from antiphon.ports import Credentials

_BEARER = "bearer "


def credentials_of(scope: Scope, headers: Mapping[str, str], address: str) -> Credentials:
    """headers: by lower-case name. address: of the client. A ticket that is given twice is none that counts."""
    given = headers.get("authorization", "")
    bearer = given[len(_BEARER) :].strip() if given[: len(_BEARER)].lower() == _BEARER else None
    ticket = None
    if scope["type"] == "websocket":
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if "ticket" in query:
            ticket = ",".join(query["ticket"])
    origin = headers.get("origin")
    return Credentials(bearer, ticket, origin.lower() if origin is not None else None, address)


def shows_nothing(credentials: Credentials) -> bool:
    """Whether there is nothing to tell who it is by."""
    return credentials.bearer is None and credentials.ticket is None
