"""How a response ended, in our words and the upstream's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["completed", "incomplete", "failed", "cancelled"]

_MAX_COUNT = 2**53 - 1
"""What JavaScript can count to."""

_EVENTS: dict[str, str] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "cancelled": "response.incomplete",
    "failed": "response.failed",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a response.

    error: `{code, message}` for failed. reason: of incomplete_details. usage: as on the wire, or None.
    http_status: what an HTTP JSON create answers with, None for 200. retry_after: the upstream's hint.
    by: the principal who cancelled.
    """

    status: Status
    error: dict[str, Any] | None = None
    reason: str | None = None
    usage: dict[str, Any] | None = None
    http_status: int | None = None
    headers: dict[str, str] | None = None
    by: str | None = None

    @property
    def event_type(self) -> str:
        return _EVENTS[self.status]

    @property
    def summary(self) -> dict[str, Any]:
        """The end as RunState shows it."""
        return {"status": self.status, "code": self.code, "by": self.by}

    @property
    def code(self) -> str | None:
        """The one word that says why it did not complete."""
        return self.error["code"] if self.error else self.reason


def failed(
    code: str,
    message: str,
    *,
    http_status: int = 500,
    headers: dict[str, str] | None = None,
    usage: Any = None,
) -> Outcome:
    return Outcome(
        "failed",
        error={"code": code, "message": message},
        http_status=http_status,
        headers=headers,
        usage=usage,
    )


def cancelled(by: str) -> Outcome:
    return Outcome("cancelled", reason="cancelled", by=by)


def stopped() -> Outcome:
    """The server went away in order, and the run with it."""
    return failed("server_lost", "The server stopped before the run ended.")


def from_response(response: dict[str, Any], event_type: str) -> Outcome:
    """The verdict of an upstream's terminal event or whole answer."""
    usage = normal_usage(response.get("usage"))
    if event_type == "response.completed":
        return Outcome("completed", usage=usage)
    if event_type in ("response.incomplete", "response.cancelled"):
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return Outcome("incomplete", reason=str(reason or "upstream_error"), usage=usage)
    error = response.get("error")
    return _failure(error if isinstance(error, dict) else {}, usage)


def from_error_event(event: dict[str, Any]) -> Outcome:
    """An `error` event in any of the shapes seen: nested, flat, without a code."""
    nested = event.get("error")
    return _failure(nested if isinstance(nested, dict) else event, None)


def _failure(error: dict[str, Any], usage: dict[str, Any] | None) -> Outcome:
    code = error.get("code")
    message = error.get("message")
    return failed(
        code if isinstance(code, str) and code else "upstream_error",
        message[:2000] if isinstance(message, str) and message else "The upstream failed without saying why.",
        http_status=502,
        usage=usage,
    )


def normal_usage(usage: Any) -> dict[str, Any] | None:
    """Usage with every field clients require; None if the upstream gave none that can be read."""
    if not isinstance(usage, dict):
        return None
    given = _count(usage, "input_tokens")
    made = _count(usage, "output_tokens")
    inner, outer = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    inner = inner if isinstance(inner, dict) else {}
    outer = outer if isinstance(outer, dict) else {}
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": _count(inner, "cached_tokens"),
            "cache_write_tokens": _count(inner, "cache_write_tokens"),
        },
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": _count(outer, "reasoning_tokens")},
        "total_tokens": _count(usage, "total_tokens") or min(given + made, _MAX_COUNT),
    }


def _count(of: dict[str, Any], key: str) -> int:
    value = of.get(key)
    return min(value, _MAX_COUNT) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
