"""The one error tree. Every error a client can see has a code from `antiphon_protocol.codes`.

AntiphonError
├── RequestError        the caller can mend it (4xx)
│   ├── Unauthorized    401, no or unknown credentials
│   ├── Deny            403, a middleware of the operator refused the run
│   └── CursorError     the position asked for cannot be served
├── UpstreamError       a model server refused, broke off or was silent
├── ToolError           a tool of the server failed; the model is told
├── HookError           an extension of the operator is missing, failed or was too slow
├── StorageError        the store did not take or give the data
│   └── BusError        the bus did not answer, so that nobody knows who owns the run
│       └── NodeGone    the node that was asked is dead
├── Draining            we are shutting down
├── ClientError         `antiphon tail` or `chat` cannot go on; the message tells the person what to do
└── StartupError        the process cannot start; the message tells the operator what to change
"""

from __future__ import annotations

import re
from typing import Any

from antiphon_protocol.codes import CODES

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class AntiphonError(Exception):
    """Base of all errors of ours.

    code: key of `CODES`, or an upstream's own code. status: HTTP status. message: one sentence a
    person can act on. param: the field at fault. headers: retry hints. extra: fields that stand
    beside `code` on the wire (`epoch`, `fork`, `head`, ...).
    """

    default_code = "server_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or self.default_code
        spec = CODES.get(self.code)
        self.status = status or (spec.status if spec else 500)
        self.retryable = spec.retryable if spec else self.status >= 500
        self.message = message
        self.param = param
        self.headers = headers or {}
        self.extra = extra or {}

    @property
    def type(self) -> str:
        """OpenAI's coarse error class, derived from the status."""
        if self.status >= 500:
            return "server_error"
        return _TYPES.get(self.status, "invalid_request_error")

    def body(self) -> dict[str, Any]:
        """The nested `error` object, equal on HTTP, SSE and WebSocket."""
        error: dict[str, Any] = {
            "type": self.type,
            "code": self.code,
            "message": self.message,
            "param": self.param,
            **self.extra,
        }
        if self.headers:
            error["headers"] = self.headers
        return error


class RequestError(AntiphonError):
    """The request cannot be served as sent."""

    default_code = "invalid_request"


class Unauthorized(RequestError):
    """No credentials, or none we know."""

    default_code = "invalid_api_key"


class Deny(RequestError):
    """A middleware refuses the run. code: one of ours or of the operator's own, lower case with underscores.

    Raises ValueError for what would not read as a refusal.
    """

    default_code = "denied"

    def __init__(self, code: str = "denied", message: str = "agent.run denied", status: int = 403) -> None:
        if not _CODE.fullmatch(code) or not 400 <= status < 600:
            raise ValueError("a deny has a code in lower case and a status from 400 to 599")
        super().__init__(message, code=code, status=status, headers={"x-should-retry": "false"})


class CursorError(RequestError):
    """The position asked for cannot be served: `epoch_changed`, `cursor_in_future` or `cursor_expired`."""

    default_code = "cursor_expired"


class UpstreamError(AntiphonError):
    """The model server refused, broke off, was silent or could not be reached.

    http_status: what the upstream answered, None where there was no answer. is_upstreams_fault: it would have
    happened to any call, so that another attempt, or another model, can go well; absent: statuses from 503 on.
    summary: the message without the upstream's own words. step: which part of asking it failed, `upstream` or
    `breaker`.
    """

    default_code = "upstream_error"

    def __init__(
        self,
        message: str,
        *,
        http_status: int | None = None,
        is_upstreams_fault: bool | None = None,
        summary: str | None = None,
        step: str = "upstream",
        **kwargs: Any,
    ) -> None:
        super().__init__(message, **kwargs)
        self.http_status = http_status
        self.summary = summary or message
        self.step = step
        self.is_upstreams_fault = self.status >= 503 if is_upstreams_fault is None else is_upstreams_fault


class ToolError(AntiphonError):
    """A tool of the server failed. The model reads the message; it ends no run and has no code of its own."""


class HookError(AntiphonError):
    """An extension of the operator is missing, failed or was too slow. What it said itself is in the log only."""


class StorageError(AntiphonError):
    """The store did not take or give the data."""

    default_code = "storage_unavailable"


class BusError(StorageError):
    """The bus did not take or give the data, or another node did not answer over it."""


class NodeGone(BusError):
    """The node that was asked is dead; another one will take over its runs."""

    default_code = "owner_unavailable"


class Draining(AntiphonError):
    """The server is shutting down and takes no new work; elsewhere, or in a moment here, it is welcome."""

    default_code = "server_draining"

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"retry-after": "2"})


class ClientError(AntiphonError):
    """A command in the terminal cannot go on: the server is not there, or refuses it for good."""


class StartupError(AntiphonError):
    """The configuration or the machine does not allow a start."""
