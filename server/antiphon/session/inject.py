"""`response.inject`: outputs for held calls, from any connection, hello or not (PROTOCOL 7.4)."""

from __future__ import annotations

from typing import Any

from antiphon.core.held_calls import Sender
from antiphon.core.lanes import LaneName
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.runs.elsewhere.reach import Reach


def read_inject(frame: dict[str, Any]) -> tuple[str, list[Any]]:
    """(response id, input). Raises RequestError for a frame that lacks one of them."""
    response_id, given = frame.get("response_id"), frame.get("input")
    if not isinstance(response_id, str) or not response_id:
        raise RequestError("response.inject needs response_id.", param="response_id")
    if not isinstance(given, list):
        raise RequestError("response.inject needs input: a list of items.", param="input")
    return response_id, given


async def answer_inject(
    reach: Reach, response_id: str, given: list[Any], sender: Sender, principal: Principal
) -> dict[str, Any]:
    """`response.inject.created`, or `response.inject.failed` with the input exactly as it came."""
    injected = await reach.inject(response_id, given, sender, principal)
    head = {"sequence_number": injected.sequence_number, "response_id": response_id}
    error = injected.error
    if error is None:
        repeated = {"duplicate": True} if injected.duplicate else {}
        return {"type": "response.inject.created", **head, **repeated}
    wrong = {"code": error.code, "message": error.message, **error.extra}
    if error.param is not None:
        wrong["param"] = error.param
    return {"type": "response.inject.failed", **head, "input": given, "error": wrong}


def on_lane(frame: dict[str, Any], lane: LaneName) -> dict[str, Any]:
    """The frame on the lane its run has on this connection, if that is a named one."""
    return frame if lane is None else {**frame, "stream_id": lane}
