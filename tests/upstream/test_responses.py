"""The HTTP adapter: what is sent, what odd answers become, and what comes through unchanged."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from antiphon.errors import StartupError, UpstreamError
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.upstream.calling import MIB, events_of, kinds, model_call, raw_events, responses_upstream, text_in
from tests.upstream.through_httpx import ThroughHttpx

EVENTS = stub.events_of_text(["é", "漢", "🚀", "👩‍💻", " end"])
STREAM = b"".join(b"event: %b\ndata: %b\n\n" % (json.loads(e)["type"].encode(), e) for e in EVENTS)


async def test_events_come_through_byte_for_byte() -> None:
    async with StubUpstream(stub.play(EVENTS)) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS


async def test_the_body_goes_out_as_given_and_nothing_else_is_forwarded() -> None:
    call = model_call({"model": "m", "input": [{"role": "user", "content": "漢"}], "stream": True})
    async with StubUpstream() as server, responses_upstream(server.url + "/") as upstream:
        await raw_events(upstream, call)
        request = server.requests[0]
    assert (request.method, request.path, request.raw) == ("POST", "/v1/responses", call.body)
    assert set(request.headers) == {
        "host",
        "accept",
        "accept-encoding",
        "content-length",
        "content-type",
        "user-agent",
    }
    assert request.headers["accept"] == "text/event-stream"


async def test_a_query_in_the_url_is_kept() -> None:
    async with StubUpstream() as server, responses_upstream(server.url + "?api-version=1") as upstream:
        await raw_events(upstream)
        assert server.requests[0].path == "/v1/responses?api-version=1"


@pytest.mark.parametrize("size", [100_000, MIB + 1, 8 * MIB])
async def test_a_large_request_arrives_whole(size: int) -> None:
    call = model_call({"input": "x" * size})
    async with StubUpstream() as server, responses_upstream(server.url) as upstream:
        await raw_events(upstream, call)
        assert server.requests[0].raw == call.body


async def test_the_configured_key_is_sent_as_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_KEY", "sk-env")
    async with StubUpstream() as server:
        for settings in ({"key": SecretStr("sk-file")}, {"key_env": "STUB_KEY"}):
            async with responses_upstream(server.url, **settings) as upstream:
                await raw_events(upstream)
        assert [r.authorization for r in server.requests] == ["Bearer sk-file", "Bearer sk-env"]


async def test_two_calls_at_once_each_carry_their_own_callers_token() -> None:
    both = asyncio.Barrier(2)

    async def handler(request: StubRequest, conn: StubConn) -> None:
        await both.wait()
        await stub.play(stub.events_of_text([request.authorization or ""]))(request, conn)

    async with StubUpstream(handler) as server, responses_upstream(server.url, key=SecretStr("own")) as upstream:
        anna, ben = await asyncio.gather(
            events_of(upstream, model_call(token="anna")), events_of(upstream, model_call(token="Basic YmVu"))
        )
        server.handler = stub.text()
        await raw_events(upstream)
        assert server.requests[2].authorization == "Bearer own"
    assert (text_in(anna), text_in(ben)) == ("Bearer anna", "Basic YmVu")


@pytest.mark.parametrize("token", ["a\r\nx-evil: 1", "\x00", "clé"])
async def test_a_callers_token_that_no_header_can_carry_is_refused_and_nothing_is_sent(token: str) -> None:
    async with StubUpstream() as server, responses_upstream(server.url) as upstream:
        with pytest.raises(UpstreamError) as caught:
            await raw_events(upstream, model_call(token=token))
        assert caught.value.status == 401
        assert server.requests == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key_env": "ANTIPHON_TEST_NOT_SET"}, "ANTIPHON_TEST_NOT_SET"),
        ({"key": SecretStr("a\nb")}, "no header can carry"),
        ({"url": "localhost:1234"}, "http://"),
        ({"url": "http://"}, "http://"),
        ({"url": "http://me:secret@127.0.0.1/v1"}, "key_env"),
        ({"url": "http://127.0.0.1:port/v1"}, "cannot be read"),
    ],
)
async def test_settings_that_cannot_work_stop_the_start(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(StartupError, match=message) as caught:
        async with responses_upstream(**{"url": "http://127.0.0.1/v1", **settings}):
            pass
    assert "secret" not in str(caught.value)


# S-01, S-03: bytes cut anywhere, line ends of every kind


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("step", [0, 1])
async def test_a_stream_cut_into_single_bytes_equals_one_write(line_end: bytes, step: int) -> None:
    handler = stub.raw_body(STREAM.replace(b"\n", line_end), step=step)
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS


async def test_a_byte_order_mark_and_blank_lines_before_the_first_event_are_skipped() -> None:
    handler = stub.raw_body(b"\xef\xbb\xbf\n\n: hello\n\n" + STREAM, step=1)
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS


@pytest.mark.parametrize("content_type", [None, "application/json", "text/plain"])
async def test_a_stream_under_another_content_type_is_still_a_stream(content_type: str | None) -> None:
    handler = stub.raw_body(STREAM, content_type, step=1)
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS


async def test_a_compressed_stream_is_read_although_none_was_asked_for() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head(content_encoding="gzip")
        conn.chunk(gzip.compress(STREAM))
        conn.end()

    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS


async def test_an_upstream_that_closes_to_end_its_answer_is_read_to_the_end() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head(chunked=False)
        conn.write(STREAM)
        conn.fin()

    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS


async def test_the_type_is_taken_from_the_event_line_when_the_data_lack_it() -> None:
    stream = b'event: response.output_text.delta\ndata: {"delta":"a"}\n\ndata: \n\ndata: [DONE]\n\n'
    async with StubUpstream(stub.raw_body(stream)) as server, responses_upstream(server.url) as upstream:
        assert await events_of(upstream) == [{"delta": "a", "type": "response.output_text.delta"}]


@pytest.mark.parametrize("event", [b'{"delta":"a", "type": "response.output_text.delta"}', b'{"a":1}', b"no json"])
async def test_data_with_its_type_elsewhere_or_without_any_comes_through_untouched(event: bytes) -> None:
    handler = stub.raw_body(b"data: " + event + b"\n\n")
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == [event]


# S-05: the end


@pytest.mark.parametrize("keep", [3, 6, len(EVENTS) - 1])
async def test_a_polite_end_without_a_terminal_event_just_ends(keep: int) -> None:
    handler = stub.play(EVENTS[:keep])
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS[:keep]


async def test_the_end_marker_ends_the_answer_though_the_upstream_holds_the_connection() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(EVENTS[0])
        conn.chunk(b"data: [DONE]\n\n")
        await conn.held()

    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS[:1]


@pytest.mark.parametrize("named", [True, False])
async def test_the_terminal_event_ends_the_answer_though_the_upstream_holds_the_connection(named: bool) -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in EVENTS:
            conn.sse(event, named=named)
        await conn.held()

    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == EVENTS
        await asyncio.wait_for(server.requests[0].closed, 5)


async def test_a_terminal_type_deeper_in_an_event_does_not_end_the_answer() -> None:
    trap = b'{"type":"response.created","response":{"metadata":{"type":"response.completed"}}}'
    handler = stub.raw_body(b"".join(b"data: %b\n\n" % event for event in [trap, *EVENTS]), step=64)
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        assert await raw_events(upstream) == [trap, *EVENTS]


# S-13: sizes


@pytest.mark.parametrize("size", [100_000, MIB, 5 * MIB])
async def test_large_events_arrive_whole(size: int) -> None:
    event = json.dumps(
        {"type": "response.output_text.delta", "delta": "漢" * (size // 3)}, ensure_ascii=False
    ).encode()
    async with (
        StubUpstream(stub.raw_body(b"data: " + event + b"\n\n")) as server,
        responses_upstream(server.url, max_event_bytes=16 * MIB) as upstream,
    ):
        assert await raw_events(upstream) == [event]


async def test_an_event_over_the_limit_fails_with_a_named_code_after_the_events_before_it() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(EVENTS[0])
        conn.chunk(b"data: " + b"x" * (64 * 1024))
        await conn.held()

    seen: list[bytes] = []
    async with (
        StubUpstream(handler) as server,
        responses_upstream(server.url, max_event_bytes=64 * 1024) as upstream,
    ):
        with pytest.raises(UpstreamError, match="larger than the limit of 65536 bytes") as caught:
            async for batch in upstream.stream(model_call()):
                seen += batch
        assert (caught.value.code, caught.value.status) == ("upstream_error", 502)
        assert seen == EVENTS[:1]
        await asyncio.wait_for(server.requests[0].closed, 0.5)


# S-16: an upstream that does not stream


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", None])
async def test_a_whole_response_becomes_one_event_with_its_bytes_unchanged(content_type: str | None) -> None:
    body = json.dumps(stub.whole(EVENTS), indent=1, ensure_ascii=False).encode()
    handler = stub.raw_body(b"\n" + body + b"\n", content_type, step=500)
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        (event,) = await raw_events(upstream)
    assert event == b'{"type":"antiphon.whole_response","response":' + body + b"}"


async def test_a_whole_response_that_failed_is_for_the_assembler_to_judge() -> None:
    body = {"object": "response", "status": "failed", "error": {"code": "x", "message": "y"}, "output": []}
    async with StubUpstream(stub.answering(200, body)) as server, responses_upstream(server.url) as upstream:
        assert kinds(await events_of(upstream)) == ["antiphon.whole_response"]


async def test_a_whole_response_over_the_limit_fails() -> None:
    body = {"object": "response", "output": ["x" * 5000]}
    async with (
        StubUpstream(stub.answering(200, body)) as server,
        responses_upstream(server.url, max_event_bytes=4096) as upstream,
    ):
        with pytest.raises(UpstreamError, match="larger than the limit"):
            await raw_events(upstream)


async def test_any_transport_can_stand_in_for_the_network() -> None:
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=STREAM)
    )
    async with responses_upstream("https://example.invalid/v1", transport=ThroughHttpx(transport)) as upstream:
        assert await raw_events(upstream) == EVENTS


# The list of models


async def test_models_are_asked_with_the_key() -> None:
    async with (
        StubUpstream(models=["a", "b/c"]) as server,
        responses_upstream(server.url, key=SecretStr("k")) as upstream,
    ):
        assert await upstream.models() == ["a", "b/c"]
        assert (server.model_requests[0].path, server.model_requests[0].authorization) == (
            "/v1/models",
            "Bearer k",
        )


@pytest.mark.parametrize("body", [b"[]", b"{}", b"<html>", b'{"data":[{}]}', b'{"data":null}'])
async def test_an_unreadable_list_of_models_is_an_error(body: bytes) -> None:
    async with StubUpstream() as server, responses_upstream(server.url) as upstream:
        server.models_handler = stub.answering(200, body)
        with pytest.raises(UpstreamError, match="list of models"):
            await upstream.models()


async def test_a_refused_list_of_models_is_an_error() -> None:
    async with StubUpstream() as server, responses_upstream(server.url) as upstream:
        server.models_handler = stub.answering(500, b"")
        with pytest.raises(UpstreamError) as caught:
            await upstream.models()
        assert caught.value.code == "upstream_unavailable"
