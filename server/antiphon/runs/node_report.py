"""What this node says of itself to operators: put together when it is asked for, from what is there anyway."""

from __future__ import annotations

from collections.abc import Callable

from antiphon import __version__
from antiphon.core.node_status import NodeReport, NodeState, UpstreamReport
from antiphon.core.run_state import TERMINAL
from antiphon.ops.loop_lag import LoopLag
from antiphon.runs.engine import Engine
from antiphon.upstream.state import UpstreamState


class NodeReporter:
    """sockets: how many are open here. started_at: Unix seconds of the start of this server."""

    def __init__(self, engine: Engine, lag: LoopLag, sockets: Callable[[], int]) -> None:
        self._engine = engine
        self._lag = lag
        self._sockets = sockets
        self.started_at = engine.clock.now()

    def report(self) -> NodeReport:
        """How this node is now."""
        engine, counts = self._engine, self._engine.counts
        left_s = engine.bus.lease_left_s
        return NodeReport(
            id=engine.bus.node,
            state=self._state(),
            version=__version__,
            started_at=self.started_at,
            live_runs=self.live_runs(),
            sockets=self._sockets(),
            loop_lag_ms=self._lag.worst_ms,
            lease_expires_at=engine.clock.now() + left_s if left_s is not None else None,
            runs_started=counts.runs_started,
            events=engine.journal.appended + counts.terminals,
            output_tokens=counts.output_tokens,
            first_tokens=counts.first_output.count,
            first_token_ms=counts.first_output.newest_ms(),
            errors=counts.errors(),
            upstreams=[_upstream(state) for state in engine.router.states()],
        )

    def live_runs(self) -> int:
        """Runs of this node that have not ended."""
        return sum(state.state not in TERMINAL for state in self._engine.registry)

    def _state(self) -> NodeState:
        if self._engine.service.draining:
            return "draining"
        return "ready" if self._engine.bus.held else "suspended"


def _upstream(state: UpstreamState) -> UpstreamReport:
    return UpstreamReport(
        name=state.name,
        breaker=state.breaker,
        failures=state.failures,
        open_until=state.opened_until,
        calls=state.calls,
        newest_ms=state.whole.newest_ms(),
    )
