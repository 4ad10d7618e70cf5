"""One trace per run: its spans, what they are called, whose trace it is, who is told, and that nothing is said."""

from __future__ import annotations

import contextlib
import gzip
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

from antiphon.errors import StartupError
from antiphon.ops.lifecycle import Lifecycle, Told
from antiphon.ops.registry import RunRegistry
from antiphon.ops.tracing import build
from antiphon.ops.tracing.exporting import traces_to
from antiphon.ops.tracing.runs import RunTraces
from antiphon.settings.observability import TracingSettings
from tests.http.calling import MODEL, begin, body, create, ended, follow, http
from tests.ops.states import FakeClock, state
from tests.support import stub_upstream as stub
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.support.ws_client import ws_client

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{SPAN}-00"


@dataclass
class Kept(SpanExporter):
    """Where the spans of a test go, in the order of their ends."""

    spans: list[ReadableSpan] = field(default_factory=list)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """Every server of the test that traces sends its spans here at once."""
    spans = Kept()
    monkeypatch.setattr("antiphon.ops.tracing.exporting.BatchSpanProcessor", SimpleSpanProcessor)
    monkeypatch.setattr("antiphon.ops.tracing.exporting.OTLPSpanExporter", lambda **options: spans)
    return spans


@contextlib.asynccontextmanager
async def traced(**settings: Any) -> AsyncIterator[RunningServer]:
    tracing = {"enabled": True, **settings.pop("tracing", {})}
    async with running_server(tracing=tracing, **settings) as server:
        yield server


def trace_id(span: ReadableSpan) -> str:
    return format(span.context.trace_id, "032x")


def span_id(span: ReadableSpan) -> str:
    return format(span.context.span_id, "016x")


def parent_id(span: ReadableSpan) -> str | None:
    return format(span.parent.span_id, "016x") if span.parent is not None else None


async def lookup(request: StubRequest, conn: StubConn) -> None:
    conn.answer(200, {"found": "SECRETOUTPUT"})


async def test_a_run_is_one_trace_in_that_of_its_caller_and_upstream_and_tool_are_told(kept: Kept) -> None:
    rounds = stub.in_turn(stub.calls(("lookup", '{"q": "SECRETARGS"}')), stub.text(3))
    tool = {"name": "lookup", "kind": "http", "parameters": {"type": "object"}}
    async with StubUpstream(rounds) as upstream, StubUpstream(lookup) as served:
        settings: dict[str, Any] = {
            "upstream": [{"name": "stub", "url": upstream.url, "models": [MODEL]}],
            "tool": [{**tool, "url": served.url, "side_effects": False, "always": True}],
        }
        async with traced(**settings) as server, http(server, traceparent=CALLER) as client:
            answer = await client.post("/v1/responses", json=body("SECRETPROMPT", MODEL))
            assert answer.json()["status"] == "completed", answer.text
            run_id = answer.json()["id"]
        asked, told = upstream.requests, served.requests
    run = kept.one("invoke_agent default")
    first, second = kept.named(f"chat {MODEL}")
    call = kept.one("execute_tool lookup")
    assert {trace_id(span) for span in (run, first, second, call)} == {TRACE}
    assert parent_id(run) == SPAN
    assert {parent_id(span) for span in (first, second, call)} == {span_id(run)}
    assert [request.headers["traceparent"] for request in asked] == [
        f"00-{TRACE}-{span_id(step)}-01" for step in (first, second)
    ]
    assert [request.headers["traceparent"] for request in told] == [f"00-{TRACE}-{span_id(call)}-01"]
    assert run.attributes is not None and first.attributes is not None and call.attributes is not None
    assert run.attributes["gen_ai.response.id"] == run_id and run.attributes["antiphon.state"] == "completed"
    assert run.attributes["gen_ai.usage.output_tokens"] == 8
    assert first.attributes["gen_ai.operation.name"] == "chat"
    assert first.attributes["gen_ai.provider.name"] == "stub"
    assert first.attributes["gen_ai.usage.input_tokens"] == 3
    assert call.attributes["gen_ai.tool.name"] == "lookup" and call.attributes["antiphon.tool.owner"] == "server"
    assert run.start_time <= first.start_time <= first.end_time <= second.end_time <= run.end_time  # type: ignore[operator]
    assert "SECRET" not in "".join(span.to_json() for span in kept.spans)


async def test_without_a_caller_the_trace_is_found_from_the_response_and_attaches_link_to_it(kept: Kept) -> None:
    async with traced() as server:
        done = await create(server)
        run = kept.one("invoke_agent default")
        assert f"resp_{trace_id(run)}" == done["id"] and run.parent is None
        await follow(server, done["id"], starting_after=1)
        async with ws_client(server.ws_url) as client:
            await client.hello()
            await client.attach(done["id"], traceparent=CALLER)
    over_http, over_socket = kept.named("attach")
    for span in (over_http, over_socket):
        assert [link.context.span_id for link in span.links] == [run.context.span_id]
        assert [link.context.trace_id for link in span.links] == [run.context.trace_id]
    assert trace_id(over_http) != trace_id(run)
    assert (trace_id(over_socket), parent_id(over_socket)) == (TRACE, SPAN)


@pytest.mark.parametrize(
    "fields",
    [
        {"antiphon": {"traceparent": CALLER}},
        {"client_metadata": {"ws_request_header_traceparent": CALLER}},
    ],
    ids=["ours", "as Codex has it"],
)
async def test_a_create_on_a_socket_brings_its_own_parent(kept: Kept, fields: dict[str, Any]) -> None:
    async with traced() as server, ws_client(server.ws_url) as client:
        await client.run(**fields)
    assert parent_id(kept.one("invoke_agent default")) == SPAN


async def test_a_failed_run_and_its_failed_call_are_errors_with_a_code_of_the_protocol(kept: Kept) -> None:
    async with StubUpstream(stub.answering(400, {"error": {"message": "SECRET", "code": "theirs"}})) as upstream:
        one = {"name": "stub", "url": upstream.url, "models": [MODEL]}
        async with traced(upstream=[one]) as server:
            await ended(server, await begin(server, model=MODEL))
    for span in (kept.one("invoke_agent default"), kept.one(f"chat {MODEL}")):
        assert span.status.status_code is StatusCode.ERROR and span.attributes is not None
        assert span.attributes["error.type"] == "other"
    assert "SECRET" not in "".join(span.to_json() for span in kept.spans)


async def test_the_caller_decides_whether_to_sample_if_it_is_trusted_and_reads_no_word_if_not(kept: Kept) -> None:
    for traceparent in (UNSAMPLED, "00-nonsense"):
        async with traced() as server, http(server, traceparent=traceparent) as client:
            await client.post("/v1/responses", json=body())
    (run, _) = kept.spans[::-1]  # of the second server: what cannot be read is ignored
    assert trace_id(run) != TRACE and run.parent is None
    kept.spans.clear()
    async with StubUpstream(stub.text(1)) as upstream:
        one = {"name": "stub", "url": upstream.url, "models": [MODEL]}
        deaf = {"trust_callers": False, "propagate": False}
        async with traced(upstream=[one], tracing=deaf) as server, http(server, traceparent=CALLER) as client:
            await client.post("/v1/responses", json=body(model=MODEL))
        assert "traceparent" not in upstream.requests[0].headers
    assert trace_id(kept.one("invoke_agent default")) != TRACE


async def test_a_repeat_with_a_key_is_the_same_create_although_its_span_is_another() -> None:
    async with running_server() as server, http(server) as client:
        ids = []
        for n in (1, 2):
            parent = f"00-{TRACE}-{n:016x}-01"
            answer = await client.post(
                "/v1/responses", json=body(antiphon={"traceparent": parent}, idempotency_key="k")
            )
            ids.append(answer.json()["id"])
    assert ids[0] == ids[1]


RUN_ID = "resp_019da2c47b1e7c3a9f00112233445566"


def tracing_of(kept: Kept, ratio: float = 1.0) -> tuple[Lifecycle, RunRegistry, RunTraces]:
    clock = FakeClock()
    lifecycle = Lifecycle("e", clock)
    registry = RunRegistry(lifecycle, clock)
    settings = TracingSettings(enabled=True, sample_ratio=ratio)
    traces = traces_to(SimpleSpanProcessor(kept), settings, registry)
    lifecycle.observe(traces.told)
    registry.on_give = traces.given
    return lifecycle, registry, traces


def test_a_node_that_takes_a_run_over_goes_on_in_its_trace() -> None:
    kept = Kept()
    _, before, _ = tracing_of(kept)
    _, after, _ = tracing_of(kept)
    mine = state(RUN_ID)
    before.start(mine)
    before.give(mine)
    theirs = state(RUN_ID)
    after.adopt(theirs, Told(1, "run.created"), 2)
    after.change(theirs, "completed", event="run.completed", data={"usage": None, "code": None, "by": None})
    first, second = kept.named("invoke_agent default")
    assert trace_id(first) == trace_id(second) == RUN_ID.removeprefix("resp_")
    assert parent_id(second) == span_id(first) and first.attributes is not None
    assert first.attributes["antiphon.handed_over"] is True


def test_every_node_decides_alike_which_runs_are_sampled() -> None:
    kept = Kept()
    for _ in range(2):
        _, registry, _ = tracing_of(kept, ratio=0.5)
        for n in range(16):
            run = state(f"resp_019da2c47b1e7c3a9f{n:x}0112233445566")
            registry.start(run)
            registry.give(run)
    assert len(kept.spans) == 2 * 8


def test_tracing_without_its_extra_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    registry = RunRegistry(Lifecycle("e", FakeClock()), FakeClock())
    with pytest.raises(StartupError, match=r"pip install 'antiphon\[otel\]'"):
        build.build_tracing(TracingSettings(enabled=True), registry)


async def test_a_server_that_does_not_trace_loads_nothing_of_it_and_sends_no_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("exporting", "runs", "ids"):
        monkeypatch.setitem(sys.modules, f"antiphon.ops.tracing.{module}", None)  # importing it fails
    async with StubUpstream(stub.text(1)) as upstream:
        one = {"name": "stub", "url": upstream.url, "models": [MODEL]}
        async with running_server(upstream=[one]) as server, http(server, traceparent=CALLER) as client:
            answer = await client.post("/v1/responses", json=body(model=MODEL))
        assert answer.json()["status"] == "completed" and server.app.tracing is None
        assert "traceparent" not in upstream.requests[0].headers


async def test_spans_arrive_at_a_collector_at_the_latest_when_the_server_stops() -> None:
    async def take(request: StubRequest, conn: StubConn) -> None:
        conn.answer(200, b"", "application/x-protobuf")

    async with StubUpstream(take) as collector:
        endpoint = collector.url.replace("/v1", "/v1/traces")
        async with traced(tracing={"endpoint": endpoint, "service_name": "mine"}) as server:
            await create(server)
        (request,) = collector.requests
    assert request.path == "/v1/traces" and request.headers["content-type"] == "application/x-protobuf"
    sent = gzip.decompress(request.raw) if request.headers.get("content-encoding") == "gzip" else request.raw
    assert all(name in sent for name in (b"invoke_agent default", b"chat antiphon/echo", b"mine"))


async def test_a_collector_that_is_away_costs_no_run_and_does_not_hold_up_the_end() -> None:
    async with traced(tracing={"endpoint": "http://127.0.0.1:9/v1/traces"}) as server:
        assert (await create(server))["status"] == "completed"
