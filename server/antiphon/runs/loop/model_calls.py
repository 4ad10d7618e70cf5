"""One model call of a run, as the upstream gets it."""

from __future__ import annotations

from typing import Any

from antiphon.core.instructions import put_before
from antiphon.core.model_body import model_body
from antiphon.core.rounds import next_tool_choice
from antiphon.core.tool_registry import ToolRegistry
from antiphon.ports import ModelCall
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.loop.repetition import against_loop
from antiphon.runs.run import Run


def model_call(parts: LoopParts, run: Run, history: list[bytes]) -> ModelCall:
    """The call of the run's current round. history: see `Run.model_input`."""
    loop = run.loop
    settings = run.model.settings
    native = settings is not None and settings.native_compaction
    asked, history = against_loop(_asked(run), history, loop.repeat)
    if loop.injected is not None:
        asked = {**asked, "instructions": put_before(loop.injected, asked.get("instructions"))}
    body = model_body(asked, run.model.name, history, native_compaction=native)

    def degraded(named: str, got: str) -> None:
        loop.answering = got
        parts.registry.change(
            run.state,
            event="run.degraded",
            data={"fallback_from": named, "fallback_to": got},
            degraded=True,
            fallback_from=named,
            upstream=run.model.upstream.name,
        )

    # Once clients have seen output of one model, no other may go on in its place.
    may_degrade = degraded if loop.round == 1 else None
    trace = parts.tracing.of_step(run.id) if parts.tracing is not None else {}
    return ModelCall(run.id, run.model.name, body, run.create.caller_token, may_degrade, trace)


def _asked(run: Run) -> dict[str, Any]:
    """The create, with the tools as the model knows them."""
    raw = with_tools(run.asked, run.loop.registry)
    if run.loop.round > 1 and raw.get("tool_choice") is not None:
        raw = {**raw, "tool_choice": next_tool_choice(raw["tool_choice"])}
    return raw


def with_tools(raw: dict[str, Any], registry: ToolRegistry) -> dict[str, Any]:
    """A create, without its input, with the tools as the model knows them."""
    if registry.server or len(registry.for_model) != len(raw.get("tools") or ()):
        tools = registry.for_model
        if not tools:  # none is left, and upstreams refuse a choice among none
            return {key: value for key, value in raw.items() if key not in ("tools", "tool_choice")}
        return {**raw, "tools": tools, "tool_choice": registry.choice_for_model(raw.get("tool_choice"))}
    return raw
