"""What a run had spent whose process died before it could say so: its rows know."""

from __future__ import annotations

from antiphon.core.assembly.outcome import normal_usage
from antiphon.core.usage_estimate import Spent
from antiphon.store.usage_reports import UsageReader


async def spent_of(usage: UsageReader, run_id: str) -> Spent:
    """The sum over the rows of a run's model calls. Raises StorageError."""
    spent = Spent()
    for call in await usage.calls_of(run_id):
        counted = normal_usage(
            {
                "input_tokens": call.input_tokens,
                "input_tokens_details": {"cached_tokens": call.cached_tokens},
                "output_tokens": call.output_tokens,
                "output_tokens_details": {"reasoning_tokens": call.reasoning_tokens},
                "total_tokens": call.total_tokens,
            }
        )
        assert counted is not None
        spent = spent.plus(counted, call.cost_nano, call.estimated)
    return spent
