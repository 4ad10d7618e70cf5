"""One model call of a run, as the upstream gets it, and what it cost."""

from __future__ import annotations

from typing import Any

from antiphon.core.model_body import model_body
from antiphon.core.rounds import next_tool_choice
from antiphon.ports import ModelCall
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.run import Run


def model_call(parts: LoopParts, run: Run, history: bytes) -> ModelCall:
    """The call of the run's current round. history: the encoded input list."""
    loop = run.loop
    settings = run.model.settings
    native = settings is not None and settings.native_compaction
    body = model_body(_asked(run), run.model.name, history, native_compaction=native)

    def degraded(asked: str, got: str) -> None:
        parts.registry.change(
            run.state,
            event="run.degraded",
            data={"fallback_from": asked, "fallback_to": got},
            degraded=True,
            fallback_from=asked,
        )

    # Once clients have seen output of one model, no other may go on in its place.
    may_degrade = degraded if loop.round == 1 else None
    return ModelCall(run.id, run.model.name, body, run.create.caller_token, on_degraded=may_degrade)


def usage_data(usage: dict[str, Any]) -> dict[str, Any]:
    """A usage as lifecycle events show it."""
    return {
        "input": usage["input_tokens"],
        "output": usage["output_tokens"],
        "total": usage["total_tokens"],
        "cached": usage["input_tokens_details"]["cached_tokens"],
        "reasoning": usage["output_tokens_details"]["reasoning_tokens"],
        "cost": None,
    }


def _asked(run: Run) -> dict[str, Any]:
    """The create, with the tools as the model knows them."""
    raw, registry = run.create.raw, run.loop.registry
    if registry.server or len(registry.for_model) != len(raw.get("tools") or ()):
        tools = registry.for_model
        if not tools:  # none is left, and upstreams refuse a choice among none
            return {key: value for key, value in raw.items() if key not in ("tools", "tool_choice")}
        raw = {**raw, "tools": tools, "tool_choice": registry.choice_for_model(raw.get("tool_choice"))}
    if run.loop.round > 1 and raw.get("tool_choice") is not None:
        raw = {**raw, "tool_choice": next_tool_choice(raw["tool_choice"])}
    return raw
