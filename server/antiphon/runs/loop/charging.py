"""What the model calls of a run come to, and whether the next one may be made."""

from __future__ import annotations

from typing import Any

from antiphon.core.assembly.outcome import Outcome, cancelled
from antiphon.core.budgets import Spender
from antiphon.core.usage_estimate import Said, estimated_usage
from antiphon.governance.usage.meter import Charge, ChargeResult, Meter
from antiphon.ports import ModelCall
from antiphon.runs.loop.parts import LoopParts
from antiphon.runs.run import Run

_ENDS = {
    "budget_exceeded": Outcome("incomplete", reason="budget_exceeded"),
    "quota_exceeded": Outcome("incomplete", reason="quota_exceeded"),
    "cancelled": cancelled("system:stopped"),
}
"""How a run ends by what the meter says: the last where a pause or an emergency stop met it between two calls."""


async def may_call(parts: LoopParts, run: Run) -> Outcome | None:
    """How the run ends because no further model call may be made; None where the next one may."""
    if not run.model.charged:
        return None
    reason = await parts.meter.may_call(spender(run))
    return _ENDS[reason] if reason is not None else None


def charge(
    parts: LoopParts, run: Run, step: int | str, call: ModelCall, outcome: Outcome | None, said: Said
) -> None:
    """Charge the run for a model call that is over, and say so. Nothing where the run is another node's by now.

    step: the round, or what else the call was for. outcome: how it ended, None if it was cut off. said: how much
    the model gave.
    """
    if run.lost or run.log.lost or not run.model.charged:
        return
    loop = run.loop
    model, upstream = loop.answering or run.model.name, run.model.upstream.name
    charged = charge_call(parts.meter, spender(run), step, model, upstream, call, outcome, said)
    if charged is None:
        return
    usage, estimated, result = charged
    loop.spent = loop.spent.plus(usage, result.cost_nano, estimated)
    data = {"step": step, **_usage_data(usage), "cost": result.cost, "estimated": estimated}
    spent = loop.spent
    sums = {"usage": spent.usage, "usage_estimated": spent.estimated, "cost": spent.cost}
    parts.registry.note(run.state, event="run.usage", data=data, **sums)


def charge_call(
    meter: Meter,
    spender: Spender,
    step: int | str,
    model: str,
    upstream: str,
    call: ModelCall,
    outcome: Outcome | None,
    said: Said,
) -> tuple[dict[str, Any], bool, ChargeResult] | None:
    """Charge one model call: its usage, whether that is an estimate, and what it cost.

    What the upstream counted counts; where it counted nothing although it gave something, an estimate does. A call
    that failed or was cut off before it gave anything is not charged: None.
    """
    usage = outcome.usage if outcome is not None else None
    estimated = usage is None or (usage["total_tokens"] == 0 and bool(said))
    if estimated:
        if not said and (outcome is None or outcome.status == "failed"):
            return None
        usage = estimated_usage(call.body, said)
    assert usage is not None
    result = meter.charge(spender, Charge(step, model, upstream, usage, estimated))
    return usage, estimated, result


def spender(run: Run) -> Spender:
    """On whose account the run's model calls go."""
    who = run.principal
    return Spender(run_id=run.id, tenant=who.tenant, principal=who.id, agent=run.state.agent, tier=who.tier)


def _usage_data(usage: dict[str, Any]) -> dict[str, Any]:
    """A usage as lifecycle events show it."""
    return {
        "input": usage["input_tokens"],
        "output": usage["output_tokens"],
        "total": usage["total_tokens"],
        "cached": usage["input_tokens_details"]["cached_tokens"],
        "reasoning": usage["output_tokens_details"]["reasoning_tokens"],
    }
