"""How a model server does, for those who watch."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.core.breaker import BreakerState
from antiphon.core.durations import Durations


@dataclass(frozen=True, slots=True)
class UpstreamState:
    """How an upstream does. failures: in a row. opened_until: Unix seconds, None while the breaker is closed.

    Since the start of the server: calls: attempts, without what an open breaker refused. retries: of these, those
    that were made again. failed: those that were the upstream's fault. opened: how often the breaker opened.
    first_output, whole: how long it took until output began, and until an answer that ended by itself was over.
    """

    name: str
    breaker: BreakerState
    failures: int
    opened_until: float | None
    retries: int
    calls: int
    failed: int
    opened: int
    first_output: Durations
    whole: Durations
