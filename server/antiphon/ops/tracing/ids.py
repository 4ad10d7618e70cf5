"""Ids of traces that anybody can work out from a response id.

The trace of `resp_<32 hex>` is those 32 characters, and its first span their second half. So a trace is found from
a response, and a node that takes a run over goes on in its trace although nothing about traces is stored.
"""

from __future__ import annotations

from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
from opentelemetry.trace import SpanContext, TraceFlags

_HALF = (1 << 64) - 1


class RatioOfRuns(TraceIdRatioBased):
    """Decides by the last 56 bits, as W3C says: of the 64 that the library takes a UUIDv7 fixes the first two."""

    TRACE_ID_LIMIT = (1 << 56) - 1

    def takes(self, trace_id: int) -> bool:
        """Whether a trace that nobody decided on is recorded: every node decides alike."""
        return trace_id & self.TRACE_ID_LIMIT < self.bound


class RunIds(IdGenerator):
    """Random ids, but for the one span that `begins` was called for."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self._next: SpanContext | None = None

    def begins(self, first: SpanContext | None) -> None:
        """The next span is the first of a run; None: it is any other."""
        self._next = first

    def generate_trace_id(self) -> int:
        return self._next.trace_id if self._next is not None else self._random.generate_trace_id()

    def generate_span_id(self) -> int:
        return self._next.span_id if self._next is not None else self._random.generate_span_id()

    def is_trace_id_random(self) -> bool:
        """The last 56 bits of a UUIDv7 are (RFC 9562, 5.7)."""
        return True


def first_span(run_id: str, sampler: RatioOfRuns) -> SpanContext | None:
    """The first span of a run that no caller gave a trace; None for an id that is not in our form."""
    _, _, digits = run_id.rpartition("_")
    try:
        number = int(digits, 16) if len(digits) == 32 else 0
    except ValueError:
        number = 0
    flags = TraceFlags(TraceFlags.SAMPLED if sampler.takes(number) else TraceFlags.DEFAULT)
    context = SpanContext(number, number & _HALF, is_remote=True, trace_flags=flags)
    return context if context.is_valid else None
