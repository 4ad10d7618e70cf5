"""Answers to standard frames whose feature this release does not have: handed back, never swallowed."""

from __future__ import annotations

from typing import Any

from antiphon.core.lanes import LaneName
from antiphon.core.principal import Principal
from antiphon.session.engine import Engine
from antiphon.session.turns import Turns


def refuse_steer(frame: dict[str, Any], turns: Turns, engine: Engine, principal: Principal) -> dict[str, Any]:
    """`response.steer.failed`, with the input."""
    target = frame.get("previous_response_id")
    response_id = target if isinstance(target, str) and target else "unknown"
    known = engine.directory.live(response_id, principal) is not None
    code = "steering_not_supported" if known else "response_not_found"
    message = "This server does not take steering yet." if known else "No live response has this id."
    given = frame.get("input")
    return _notice(
        "response.steer.failed",
        response_id,
        turns,
        engine,
        principal,
        error={"type": "invalid_request_error", "code": code, "message": message},
        steer={"previous_response_id": response_id, "input": given if isinstance(given, (str, list)) else []},
    )


def refuse_inject(frame: dict[str, Any], turns: Turns, engine: Engine, principal: Principal) -> dict[str, Any]:
    """`response.inject.failed`, with the input: no run of this release waits for an injected output."""
    target = frame.get("response_id")
    response_id = target if isinstance(target, str) and target else "unknown"
    given = frame.get("input")
    return _notice(
        "response.inject.failed",
        response_id,
        turns,
        engine,
        principal,
        response_id=response_id,
        input=given if isinstance(given, list) else [],
        error={"code": "response_not_found", "message": "No response with this id waits for outputs."},
    )


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
