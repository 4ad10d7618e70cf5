"""The chat adapter over HTTP: what is sent, how answers end, and what becomes of broken ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall
from antiphon.upstream import http_upstream
from antiphon.upstream.chat.upstream import ChatUpstream
from tests.support import chat_stub
from tests.support import stub_upstream as stub
from tests.support.chat_stub import chunk, text_chunks, usage
from tests.support.stub_upstream import Handler, StubConn, StubRequest, StubUpstream
from tests.upstream.calling import MIB, WAIT_S, chat_upstream, events_of, kinds, model_call, opened, text_in
from tests.upstream.through_httpx import ThroughHttpx

DELTA = chunk({"content": "a"})
STOP = chunk({}, "stop")
COMPLETED = ["response.output_text.delta", "response.output_item.done", "response.completed"]


def streaming(*chunks: Any, then: str) -> Handler:
    """Chunks, then: `held` open, `fin` without the end of the body, `reset`, or the proper `end`."""

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for each in chunks:
            conn.sse(each, named=False)
        await conn.flushed()
        if then == "held":
            await conn.held()
        else:
            getattr(conn, then)()

    return handler


async def told(handler: Handler, **settings: Any) -> list[dict[str, Any]]:
    async with StubUpstream(handler) as server, chat_upstream(server.url, **settings) as upstream:
        return await events_of(upstream)


async def failure(
    handler: Handler, call: ModelCall | None = None, **settings: Any
) -> tuple[UpstreamError, list[bytes]]:
    seen: list[bytes] = []
    async with StubUpstream(handler) as server, chat_upstream(server.url, **settings) as upstream:
        with pytest.raises(UpstreamError) as caught:
            async with asyncio.timeout(WAIT_S):
                async for batch in upstream.stream(call or model_call()):
                    seen += batch
    return caught.value, seen


async def test_the_translated_body_goes_to_chat_completions_with_the_key() -> None:
    call = model_call({"model": "m", "input": "漢", "stream": True, "store": False, "max_output_tokens": 5})
    handler = chat_stub.play(text_chunks("a"))
    async with (
        StubUpstream(handler) as server,
        chat_upstream(server.url + "/", key=SecretStr("k")) as upstream,
    ):
        assert text_in(await events_of(upstream, call)) == "a"
        request = server.requests[0]
    assert (request.path, request.authorization) == ("/v1/chat/completions", "Bearer k")
    assert request.headers["accept"] == "text/event-stream"
    assert request.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "漢"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
    }


async def test_openai_is_told_the_limit_under_its_new_name() -> None:
    sent: list[dict[str, Any]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}
        return httpx2.Response(200, json={"choices": [choice]})

    url = "https://api.openai.com/v1"
    async with chat_upstream(url, transport=ThroughHttpx(httpx2.MockTransport(answer))) as upstream:
        await events_of(upstream, model_call({"model": "m", "input": "x", "max_output_tokens": 5}))
    assert sent[0]["max_completion_tokens"] == 5
    assert "max_tokens" not in sent[0]


async def test_what_chat_cannot_say_is_refused_and_nothing_is_sent() -> None:
    call = model_call({"model": "m", "input": "x", "tools": [{"type": "web_search"}]})
    async with StubUpstream() as server, chat_upstream(server.url) as upstream:
        with pytest.raises(UpstreamError, match="web_search") as caught:
            await events_of(upstream, call)
        assert server.requests == []
    error = caught.value
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", "tools[0].type")


async def test_a_connection_is_used_again_after_the_end_marker() -> None:
    async with StubUpstream(chat_stub.play(text_chunks("a"))) as server, chat_upstream(server.url) as upstream:
        for _ in range(3):
            assert text_in(await events_of(upstream)) == "a"
            while upstream._lingering:  # the end of the body is read behind our back
                await asyncio.wait(upstream._lingering, timeout=WAIT_S)
        assert {request.connection for request in server.requests} == {0}


async def test_closing_the_stream_closes_the_upstreams_connection_at_once() -> None:
    handler = streaming(DELTA, then="held")
    async with StubUpstream(handler) as server, chat_upstream(server.url) as upstream:
        stream = opened(upstream, model_call())
        async with asyncio.timeout(WAIT_S):
            await anext(stream)
            await stream.aclose()
        await asyncio.wait_for(server.requests[0].closed, 0.5)


# The end (S-05)


@pytest.mark.parametrize("then", ["end", "fin", "reset"])
async def test_once_there_is_a_reason_no_end_of_the_body_does_harm(then: str) -> None:
    gate = asyncio.Event()

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(DELTA, named=False)
        conn.sse(STOP, named=False)
        await gate.wait()  # a reset would take what was not read yet with it
        getattr(conn, then)()

    async with StubUpstream(handler) as server, chat_upstream(server.url) as upstream:
        seen = []
        async with asyncio.timeout(WAIT_S):
            async for batch in upstream.stream(model_call()):
                seen += [json.loads(event) for event in batch]
                gate.set()
    assert kinds(seen) == COMPLETED


async def test_the_usage_ends_the_answer_though_the_upstream_holds_the_connection() -> None:
    events = await told(streaming(DELTA, STOP, usage(7, 3), then="held"))
    assert kinds(events) == COMPLETED
    assert events[-1]["response"]["usage"]["total_tokens"] == 10


async def test_usage_that_never_comes_is_not_awaited_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_upstream, "_TAIL_S", 0.05)
    assert kinds(await told(streaming(DELTA, STOP, then="held"), idle_s=60)) == COMPLETED


@pytest.mark.parametrize("done", [True, False])
async def test_an_answer_without_a_reason_has_no_terminal_event(done: bool) -> None:
    assert kinds(await told(chat_stub.play([DELTA], done=done))) == ["response.output_text.delta"]


async def test_the_end_marker_ends_the_answer_though_the_upstream_holds_the_connection() -> None:
    assert kinds(await told(streaming(DELTA, STOP, b"[DONE]", then="held"))) == COMPLETED


@pytest.mark.parametrize("then", ["fin", "reset"])
async def test_a_break_without_a_reason_broke_off_and_keeps_what_came(then: str) -> None:
    gate = asyncio.Event()

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(DELTA, named=False)
        await gate.wait()
        getattr(conn, then)()

    async with StubUpstream(handler) as server, chat_upstream(server.url) as upstream:
        seen: list[bytes] = []
        with pytest.raises(UpstreamError, match="broke off") as caught:
            async with asyncio.timeout(WAIT_S):
                async for batch in upstream.stream(model_call()):
                    seen += batch
                    gate.set()
    assert caught.value.code == "upstream_error"
    assert text_in([json.loads(event) for event in seen]) == "a"


async def test_silence_without_a_reason_is_a_timeout() -> None:
    error, seen = await failure(streaming(DELTA, then="held"), idle_s=0.2)
    assert (error.code, len(seen)) == ("upstream_timeout", 1)


# Errors and odd answers (S-07, S-13, S-16)


@pytest.mark.parametrize(
    "body", [{"error": {"message": "no", "code": "bad"}}, {"object": "error", "message": "no"}, {"detail": "no"}]
)
async def test_an_error_under_200_is_a_failure_with_its_words(body: dict[str, Any]) -> None:
    error, seen = await failure(stub.answering(200, body))
    assert "no" in error.message
    assert (error.http_status, seen) == (200, [])


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_a_refusal_is_passed_on_as_for_every_upstream(status: int) -> None:
    error, _ = await failure(stub.answering(status, {"error": {"message": "because"}}, retry_after="3"))
    assert "because" in error.message
    assert error.http_status == status
    assert error.headers == {"retry-after": "3"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "without sending anything"),
        (b"<html>", "page"),
        (b'{"choices": []}', "neither events nor a response"),
        (b'{"choices": null, "usage": {}}', "neither events nor a response"),
        (b'{"object":"response","output":[]}', "neither events nor a response"),
    ],
)
async def test_an_answer_that_is_no_chat_completion_is_a_failure(body: bytes, message: str) -> None:
    error, _ = await failure(stub.answering(200, body))
    assert message in error.message


async def test_the_first_event_may_be_an_error_and_its_last_line_may_lack_its_end() -> None:
    events = await told(stub.raw_body(b'data: {"error": {"message": "no", "code": "bad"}}'))
    assert events == [{"type": "error", "error": {"message": "no", "code": "bad"}}]


async def test_an_error_event_that_is_no_json_is_told_in_its_words() -> None:
    assert await told(stub.raw_body(b"event: error\ndata: out of memory\n\n")) == [
        {"type": "error", "error": {"message": "out of memory"}}
    ]


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", None])
@pytest.mark.parametrize(
    ("reason", "kind"), [("stop", "completed"), (None, "completed"), ("length", "incomplete")]
)
async def test_an_answer_that_was_not_streamed_gives_all_events_at_once(
    content_type: str | None, reason: str | None, kind: str
) -> None:
    message = {"role": "assistant", "content": "漢字"}
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1},
    }
    events = await told(stub.raw_body(json.dumps(body, ensure_ascii=False).encode(), content_type, step=7))
    assert text_in(events) == "漢字"
    assert kinds(events)[-1] == f"response.{kind}"
    assert events[-1]["response"]["usage"]["input_tokens"] == 2


@pytest.mark.parametrize("size", [100_000, MIB, 5 * MIB])
async def test_large_deltas_arrive_whole(size: int) -> None:
    said = "漢" * (size // 3)
    data = b"".join(b"data: %b\n\n" % json.dumps(each, ensure_ascii=False).encode() for each in text_chunks(said))
    assert text_in(await told(stub.raw_body(data), max_event_bytes=16 * MIB)) == said


async def test_an_event_over_the_limit_fails_after_the_events_before_it() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.chunk(b"data: %b\n\ndata: " % json.dumps(DELTA).encode() + b"x" * (64 * 1024))
        await conn.held()

    error, seen = await failure(handler, max_event_bytes=64 * 1024)
    assert "larger than the limit of 65536 bytes" in error.message
    assert text_in([json.loads(event) for event in seen]) == "a"


async def test_an_event_over_the_limit_fails_even_behind_a_chunk_that_says_nothing() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.chunk(b"data: %b\n\ndata: " % json.dumps(chunk({"role": "assistant"})).encode() + b"x" * (64 * 1024))
        await conn.held()

    error, _ = await failure(handler, max_event_bytes=64 * 1024)
    assert "larger than the limit" in error.message


async def test_models_are_asked_as_of_every_upstream() -> None:
    async with StubUpstream(models=["a", "b"]) as server, chat_upstream(server.url) as upstream:
        assert isinstance(upstream, ChatUpstream)
        assert await upstream.models() == ["a", "b"]
