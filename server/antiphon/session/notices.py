"""Answers to standard frames whose feature this release does not have: handed back, never swallowed."""

from __future__ import annotations

from typing import Any

from antiphon.core.lanes import LaneName
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.session.engine import Engine
from antiphon.session.turns import Turns


def refuse_steer(frame: dict[str, Any], turns: Turns, engine: Engine, principal: Principal) -> dict[str, Any]:
    """`response.steer.failed`, with the input. Raises RequestError for a frame that lacks its fields."""
    response_id = _target(frame, "previous_response_id")
    given = frame.get("input")
    if not isinstance(given, (str, list)):
        raise RequestError("response.steer needs input: a string or a list of items.", param="input")
    message = "This server does not take steering messages; send the text as the next create."
    return _notice(
        "response.steer.failed",
        response_id,
        turns,
        engine,
        principal,
        error={"type": "invalid_request_error", "code": "steering_not_supported", "message": message},
        steer={"previous_response_id": response_id, "input": given},
    )


def refuse_inject(frame: dict[str, Any], turns: Turns, engine: Engine, principal: Principal) -> dict[str, Any]:
    """`response.inject.failed`, with the input: no run of this release waits for an injected output.

    Raises RequestError for a frame that lacks its fields.
    """
    response_id = _target(frame, "response_id")
    given = frame.get("input")
    if not isinstance(given, list):
        raise RequestError("response.inject needs input: a list of items.", param="input")
    message = "No response with this id is waiting for tool outputs; bring them in the next create."
    return _notice(
        "response.inject.failed",
        response_id,
        turns,
        engine,
        principal,
        response_id=response_id,
        input=given,
        error={"code": "response_not_found", "message": message},
    )


def _target(frame: dict[str, Any], field: str) -> str:
    target = frame.get(field)
    if not isinstance(target, str) or not target:
        raise RequestError(f"{frame['type']} needs {field}.", param=field)
    return target


def _notice(
    kind: str, target: str, turns: Turns, engine: Engine, principal: Principal, **fields: Any
) -> dict[str, Any]:
    """A frame beside the log: it carries the last logged number and the run's lane here, if it has one."""
    run = engine.directory.live(target, principal)
    lane: LaneName
    _, lane = turns.lane_of(target)
    frame = {"type": kind, "sequence_number": max(run.log.shown, 0) if run else 0, **fields}
    if lane is not None:
        frame["stream_id"] = lane
    return frame
