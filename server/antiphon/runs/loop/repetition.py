"""Turns that repeat themselves: the model is warned, then forced to do something else, then the run is halted."""

from __future__ import annotations

from typing import Any

import orjson
import structlog

from antiphon.core.assembly.outcome import Outcome
from antiphon.core.instructions import put_behind
from antiphon.core.loop_detection import OTHER_WAY, WARNING, Repeat, observe, rebuilt, signatures, verdict
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.run import Run

log = structlog.get_logger(__name__)

LOOP_DETECTED = "loop_detected"


def recall(parts: LoopParts, run: Run) -> None:
    """Take up what was seen in the conversation so far: by this run in another process, or by those before it."""
    limits, loop = parts.loop_limits, run.loop
    if limits is None:
        return
    if loop.recent is None:
        loop.recent = rebuilt(run.parent, limits)
    loop.repeat = verdict(loop.recent, limits)


def watch(parts: LoopParts, run: Run) -> Outcome | None:
    """Look at the model's newest turn before anything of it is executed; gives the end of a run that is halted."""
    limits, loop = parts.loop_limits, run.loop
    if limits is None or not run.model.charged:
        return None
    made = [item.for_model() for item in run.assembler.round_items if item.to_model == "whole"]
    loop.recent = observe(loop.recent or (), signatures(made, limits), limits)
    repeat = loop.repeat = verdict(loop.recent, limits)
    if repeat is None:
        return None
    data = {"repeats": repeat.repeats, "action": repeat.action, "kind": repeat.kind}
    log.warning("loop_detected", response_id=run.id, step=loop.round, **data)
    parts.registry.note(run.state, event="run.loop_detected", data=data)
    return Outcome("incomplete", reason=LOOP_DETECTED) if repeat.action == "halt" else None


def against_loop(
    asked: dict[str, Any], history: list[bytes], repeat: Repeat | None
) -> tuple[dict[str, Any], list[bytes]]:
    """The request and the input of the next model call, so that it does not repeat the last ones.

    A run that goes on behind a halted one is forced to change as well.
    """
    if repeat is None:
        return asked, history
    if repeat.action == "warn":
        return asked, [*history, _message(WARNING)]
    if repeat.kind == "call" and asked.get("tools"):
        return {**asked, "tool_choice": "none"}, history
    return {**asked, "instructions": put_behind(asked.get("instructions"), OTHER_WAY)}, history


def _message(text: str) -> bytes:
    part = {"type": "input_text", "text": text}
    return orjson.dumps({"type": "message", "role": "developer", "content": [part]})
