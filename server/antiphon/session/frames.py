"""Frames that are not events of a log: request errors and refusals."""

from __future__ import annotations

from typing import Any

from antiphon.core.lanes import LaneName
from antiphon.errors import AntiphonError

_WEBSOCKET_STATUS = {"previous_response_not_found": 400, "item_not_found": 400}
"""Codes whose integer `status` on a socket differs from HTTP."""


def error_frame(error: AntiphonError, lane: LaneName = None) -> dict[str, Any]:
    """The `error` event: nested, with an integer status, retry hints in both places clients look."""
    frame: dict[str, Any] = {
        "type": "error",
        "status": _WEBSOCKET_STATUS.get(error.code, error.status),
        "error": error.body(),
    }
    if error.headers:
        frame["headers"] = error.headers
    if lane is not None:
        frame["stream_id"] = lane
    return frame


def command_error(command_id: str | None, error: AntiphonError) -> dict[str, Any]:
    """`antiphon:error`, the refusal of an extension command."""
    frame: dict[str, Any] = {
        "type": "antiphon:error",
        "id": command_id,
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        **error.extra,
    }
    if error.param is not None:
        frame["param"] = error.param
    return frame


def refused_frame(error: AntiphonError, kind: str, frame: dict[str, Any]) -> dict[str, Any]:
    """The answer to a frame that nobody looks into, of the kind its sender waits for. kind: the frame's type."""
    if kind.startswith("antiphon:"):
        command_id = frame.get("id")
        return command_error(command_id if isinstance(command_id, str) else None, error)
    lane = frame.get("stream_id")
    return error_frame(error, lane if isinstance(lane, str) else None)
