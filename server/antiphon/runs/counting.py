"""What is counted of a run, where no lifecycle event says it."""

from __future__ import annotations

import asyncio

from antiphon.ops.counts import Counts
from antiphon.runs.run import Run


def count_output(counts: Counts, run: Run, now: float) -> None:
    """The run shows output: once, and only of its first model call, for later ones say nothing about a wait.

    now: Unix seconds.
    """
    run.has_output = True
    if run.loop.round == 1 and run.loop.takeovers == 0:
        counts.first_output.add(now - run.state.created_at)


def count_end(counts: Counts, run: Run) -> None:
    """The terminal of the run is decided and about to be shown."""
    counts.terminals += 1
    counts.whole_run.add(run.ended_at - run.state.created_at)
    if run.stop is not None and run.stop.status == "cancelled":
        counts.cancels.add(asyncio.get_running_loop().time() - run.stop_at)
