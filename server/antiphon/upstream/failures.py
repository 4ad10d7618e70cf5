"""From what an upstream did to the one error a client sees: code, status and a sentence without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import orjson

from antiphon.errors import UpstreamError

_OWN_WORDS = 500
"""Characters of the upstream's own message that are passed on."""

_KEPT = frozenset({400, 404, 413, 422, 429})
_CALLERS = frozenset({401, 403})
_CODE = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_RETRY_HINTS = ("retry-after", "retry-after-ms")
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "NotFoundError": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
}
_PASSING = frozenset(
    {
        "api_error",
        "engine_overloaded",
        "internal_error",
        "internal_server_error",
        "overloaded",
        "overloaded_error",
        "server_error",
        "server_is_overloaded",
        "server_overloaded",
        "service_unavailable",
        "slow_down",
    }
)
"""Codes and types of errors that are the upstream's own and pass."""


@dataclass(frozen=True, slots=True)
class Said:
    """What an upstream's error body says: its code, its message, the status it names in the body, and whether
    it calls the fault its own."""

    code: str | None = None
    message: str = ""
    status: int | None = None
    is_own_fault: bool = False

    def without(self, secret: str | None) -> Said:
        """The same with a credential blotted out: some upstreams quote the key they refuse."""
        if not secret or secret not in self.message:
            return self
        return replace(self, message=self.message.replace(secret, "***"))


def error_of(body: Any) -> dict[str, Any] | None:
    """The error object inside a JSON value, in any of the shapes seen; None if it is not an error.

    Shapes: `{"error": {...}}`, `{"error": "text"}`, `{"object": "error", ...}`, `{"detail": ...}`.
    """
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict) and error:
        return error
    if isinstance(error, str) and error:
        return {**body, "message": error}
    if body.get("object") == "error" or body.get("type") == "error":
        return body
    if body.get("detail"):
        detail = body["detail"]
        return {"message": detail if isinstance(detail, str) else orjson.dumps(detail).decode()}
    return None


def read_error(body: bytes) -> Said:
    """What the body of a refusal says. A page of HTML says nothing a caller could use."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace").strip()
        return Said(message="" if text.startswith("<") else _one_line(text))
    error = error_of(parsed)
    if error is None and isinstance(parsed, dict) and isinstance(parsed.get("message"), str):
        error = parsed
    return said_by(error) if error is not None else Said()


def said_by(error: dict[str, Any]) -> Said:
    """Code, message and status of an error object."""
    code, message = error.get("code"), error.get("message")
    status = next((v for v in (code, error.get("status"), error.get("status_code")) if _is_status(v)), None)
    if status is None:
        known = (_STATUS_OF_TYPE.get(word) for word in (error.get("type"), code) if isinstance(word, str))
        status = next((v for v in known if v), None)
    return Said(
        code if isinstance(code, str) and _CODE.fullmatch(code) else None,
        _one_line(message) if isinstance(message, str) else "",
        status,
        any(isinstance(word, str) and word in _PASSING for word in (code, error.get("type"))),
    )


def refused(
    name: str, status: int, said: Said, *, callers_token: bool, headers: Mapping[str, str], answered: int
) -> UpstreamError:
    """The error for a refusal.

    status: what the refusal amounts to. answered: the HTTP status of the answer. callers_token: the call was
    made with the caller's own credential, so that 401 and 403 are the caller's business.
    """
    sentence = f"Upstream {name!r} answered {status}" + (f": {said.message}" if said.message else ".")
    hints = {key: headers[key] for key in _RETRY_HINTS if key in headers and headers[key].isprintable()}
    if status in _KEPT or (callers_token and status in _CALLERS):
        return UpstreamError(
            sentence, code=said.code or "upstream_error", status=status, http_status=answered, headers=hints
        )
    if status in _CALLERS:
        sentence = f"Upstream {name!r} did not accept the credentials of this server ({status})."
        return UpstreamError(sentence, status=502, http_status=answered)
    if status >= 500:
        summary = f"Upstream {name!r} answered {status}."
        return UpstreamError(
            sentence, code="upstream_unavailable", http_status=answered, headers=hints, summary=summary
        )
    return UpstreamError(sentence, status=502, http_status=answered, headers=hints)


def error_inside(name: str, said: Said, *, callers_token: bool, answered: int) -> UpstreamError:
    """The error for a success status whose body is an error."""
    if said.status is not None:
        return refused(name, said.status, said, callers_token=callers_token, headers={}, answered=answered)
    sentence = f"Upstream {name!r} failed" + (f": {said.message}" if said.message else " without saying why.")
    return UpstreamError(
        sentence, code=said.code, status=502, http_status=answered, is_upstreams_fault=said.is_own_fault
    )


def unusable(name: str, body: bytes, content_type: str, answered: int) -> UpstreamError:
    """The error for an answer that is neither events nor a response."""
    kind = content_type.partition(";")[0].strip() or "unknown type"
    if not body.strip():
        what = "closed its answer without sending anything"
    elif body.lstrip()[:1] == b"<":
        what = f"answered with a page ({kind}) instead of events; its url may be wrong"
    else:
        what = f"answered with something that is neither events nor a response ({kind})"
    return UpstreamError(f"Upstream {name!r} {what}.", http_status=answered, is_upstreams_fault=True)


def not_reached(name: str, error: httpx2.TransportError) -> UpstreamError:
    """The error for a call that got no head of an answer."""
    if isinstance(error, httpx2.ConnectTimeout):
        sentence = f"Upstream {name!r} cannot be reached: no connection in time."
        return UpstreamError(sentence, code="upstream_unavailable")
    if isinstance(error, httpx2.TimeoutException):
        return UpstreamError(f"Upstream {name!r} did not begin to answer in time.", code="upstream_timeout")
    if isinstance(error, httpx2.ReadError):
        sentence = f"Upstream {name!r} closed the connection without an answer."
        return UpstreamError(sentence, code="upstream_unavailable")
    if isinstance(error, httpx2.ProtocolError):
        sentence = f"Upstream {name!r} does not answer in HTTP that can be read."
        return UpstreamError(sentence, is_upstreams_fault=True)
    sentence = f"Upstream {name!r} cannot be reached: {error}."
    return UpstreamError(sentence, code="upstream_unavailable")


def broke_off(name: str, error: httpx2.TransportError, answered: int) -> UpstreamError:
    """The error for an answer that did not come to its end."""
    if isinstance(error, httpx2.TimeoutException):
        sentence = f"Upstream {name!r} fell silent in the middle of its answer."
        return UpstreamError(sentence, code="upstream_timeout", http_status=answered)
    sentence = f"Upstream {name!r} broke off in the middle of its answer."
    return UpstreamError(sentence, http_status=answered, is_upstreams_fault=True)


def _is_status(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599


def _one_line(text: str) -> str:
    return " ".join(text[: 4 * _OWN_WORDS].split())[:_OWN_WORDS]
