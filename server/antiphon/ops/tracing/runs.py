"""Spans of runs: the run, each of its model calls and tool calls, and one for each attach that links to the run.

Names and attributes are those of OpenTelemetry's conventions for generative AI; what they have no name for is
under `antiphon.`. No prompt, argument or output is in any of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from antiphon import __version__
from antiphon.core.run_state import RunState
from antiphon.ops.counts import bounded
from antiphon.ops.lifecycle import ENDS, Entry
from antiphon.ops.registry import RunRegistry
from antiphon.ops.tracing.ids import RatioOfRuns, RunIds, first_span

log = structlog.get_logger(__name__)

_CLOSE_WITHIN_S = 5.0

Attributes = dict[str, str | int | float | bool]


@dataclass(slots=True)
class _Open:
    """The spans of a run that have not ended. step: of its model call. tools: by call id."""

    run: Span
    step: Span | None = None
    tools: dict[str, Span] = field(default_factory=dict)


class RunTraces:
    """See `contract.py:Tracing`."""

    def __init__(
        self,
        provider: TracerProvider,
        ids: RunIds,
        sampler: RatioOfRuns,
        registry: RunRegistry,
        *,
        trust_callers: bool,
        propagate: bool,
    ) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("antiphon", __version__)
        self._ids = ids
        self._sampler = sampler
        self._registry = registry
        self._trust_callers = trust_callers
        self._propagate = propagate
        self._wire = TraceContextTextMapPropagator()
        self._open: dict[str, _Open] = {}

    # What the server tells

    def told(self, tenant: str, entry: Entry) -> None:
        try:
            self._told(entry)
        except Exception:  # an observer must not raise, and no run depends on its trace
            log.exception("tracing_failed", response_id=entry.run_id)

    def given(self, state: RunState) -> None:
        spans = self._open.pop(state.response_id, None)
        if spans is not None:
            spans.run.set_attribute("antiphon.handed_over", True)
            _end_all(spans, None)

    def attached(
        self, run_id: str, transport: Literal["websocket", "sse"], mode: str, traceparent: str | None
    ) -> None:
        spans = self._open.get(run_id)
        run = spans.run.get_span_context() if spans is not None else first_span(run_id, self._sampler)
        attributes: Attributes = {
            "gen_ai.response.id": run_id,
            "antiphon.transport": transport,
            "antiphon.attach.mode": mode,
        }
        self._tracer.start_span(
            "attach",
            context=self._callers(traceparent) or Context(),
            kind=SpanKind.SERVER,
            attributes=attributes,
            links=[Link(run)] if run is not None else [],
        ).end()

    def of_step(self, run_id: str) -> Mapping[str, str]:
        spans = self._open.get(run_id)
        return self._headers(spans.step if spans is not None else None)

    def of_tool(self, run_id: str, call_id: str) -> Mapping[str, str]:
        spans = self._open.get(run_id)
        return self._headers(spans.tools.get(call_id) if spans is not None else None)

    async def aclose(self) -> None:
        for spans in self._open.values():
            _end_all(spans, None)
        self._open.clear()
        await asyncio.wait(
            [asyncio.ensure_future(asyncio.to_thread(self._provider.shutdown))], timeout=_CLOSE_WITHIN_S
        )

    # Spans

    def _told(self, entry: Entry) -> None:
        event, data, at = entry.event, entry.data, _ns(entry.at)
        spans = self._open.get(entry.run_id) or self._begin(entry)
        if event == "run.step.started":
            _end_step(spans, at)
            spans.step = self._step(entry, spans)
        elif event == "run.usage":
            self._usage(spans, data, at)
        elif event == "run.tool.called":
            spans.tools[data["call_id"]] = self._tool(entry, spans)
        elif event == "run.tool.resolved":
            _end_tool(spans, data, at)
        elif event in ENDS:
            self._end(entry, spans)
        elif event in ("run.degraded", "run.steered", "run.loop_detected"):
            spans.run.add_event(event, timestamp=at)

    def _begin(self, entry: Entry) -> _Open:
        """The span of a run that begins here, or goes on here after another node."""
        row, first = entry.row, first_span(entry.run_id, self._sampler)
        callers = None
        if entry.event == "run.created" and self._registry.lists(entry.run_id):
            callers = self._callers(self._registry.get(entry.run_id).traceparent)
        elif first is not None:
            callers = set_span_in_context(NonRecordingSpan(first), Context())
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": row["agent"] or "default",
            "gen_ai.conversation.id": row["conversation_id"],
            "gen_ai.request.model": row["model"],
            "gen_ai.response.id": entry.run_id,
            "antiphon.tenant": row["tenant"],
            "antiphon.origin": row["origin"],
        }
        self._ids.begins(first if callers is None else None)
        try:
            span = self._tracer.start_span(
                f"invoke_agent {row['agent'] or 'default'}",
                context=callers or Context(),
                kind=SpanKind.SERVER,
                attributes=attributes,
                start_time=_ns(entry.at),
            )
        finally:
            self._ids.begins(None)
        spans = self._open[entry.run_id] = _Open(span)
        return spans

    def _step(self, entry: Entry, spans: _Open) -> Span:
        model = entry.data["model"]
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.provider.name": entry.row["upstream"],
            "gen_ai.response.id": entry.run_id,
            "antiphon.step": entry.data["step"],
        }
        return self._child(spans, f"chat {model}", SpanKind.CLIENT, attributes, entry.at)

    def _tool(self, entry: Entry, spans: _Open) -> Span:
        data = entry.data
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": data["name"],
            "gen_ai.tool.call.id": data["call_id"],
            "antiphon.tool.owner": data["owner"],
        }
        kind = SpanKind.INTERNAL if data["owner"] == "server" else SpanKind.CLIENT
        return self._child(spans, f"execute_tool {data['name']}", kind, attributes, entry.at)

    def _child(self, spans: _Open, name: str, kind: SpanKind, attributes: Attributes, at: float) -> Span:
        context = set_span_in_context(spans.run, Context())
        return self._tracer.start_span(name, context=context, kind=kind, attributes=attributes, start_time=_ns(at))

    def _usage(self, spans: _Open, data: dict[str, Any], at: int) -> None:
        """A model call was charged: it is over. That of a compaction is no step and has no span."""
        if spans.step is None or not isinstance(data["step"], int):
            return
        spans.step.set_attribute("gen_ai.usage.input_tokens", data["input"])
        spans.step.set_attribute("gen_ai.usage.output_tokens", data["output"])
        spans.step.set_attribute("gen_ai.usage.cache_read.input_tokens", data["cached"])
        _end_step(spans, at)

    def _end(self, entry: Entry, spans: _Open) -> None:
        del self._open[entry.run_id]
        state, data = entry.event.removeprefix("run."), entry.data
        code = bounded(data.get("code"))
        spans.run.set_attribute("antiphon.state", state)
        if code:
            spans.run.set_attribute("antiphon.code", code)
        usage = data.get("usage")
        if usage:
            spans.run.set_attribute("gen_ai.usage.input_tokens", usage["input_tokens"])
            spans.run.set_attribute("gen_ai.usage.output_tokens", usage["output_tokens"])
        if state == "failed":
            for span in (spans.run, spans.step):
                if span is not None:
                    span.set_status(StatusCode.ERROR)
                    span.set_attribute("error.type", code or "server_error")
        _end_all(spans, _ns(entry.at))

    def _callers(self, traceparent: str | None) -> Context | None:
        """The span that the caller named; None if it named none, none that can be read, or is not believed."""
        if traceparent is None or not self._trust_callers:
            return None
        found = self._wire.extract({"traceparent": traceparent}, Context())
        return found if found else None

    def _headers(self, span: Span | None) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        if span is not None and self._propagate:
            self._wire.inject(headers, set_span_in_context(span, Context()))
        return headers


def _end_step(spans: _Open, at: int | None) -> None:
    if spans.step is not None:
        spans.step.end(at)
        spans.step = None


def _end_tool(spans: _Open, data: dict[str, Any], at: int) -> None:
    span = spans.tools.pop(data["call_id"], None)
    if span is not None:
        if not data["ok"]:
            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", "tool_error")
        span.end(at)


def _end_all(spans: _Open, at: int | None) -> None:
    """at: nanoseconds; None is now."""
    _end_step(spans, at)
    for span in spans.tools.values():
        span.end(at)
    spans.run.end(at)


def _ns(unix_s: float) -> int:
    return int(unix_s * 1_000_000_000)
