"""Calls that are made again before output and never after it, and what giving up leaves behind."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from antiphon.errors import UpstreamError
from antiphon.settings.upstream import BreakerSettings, RetrySettings
from antiphon.upstream.fallback import FallbackUpstream
from antiphon.upstream.resilient import ResilientUpstream
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubConn, StubRequest
from tests.upstream.calling import (
    WAIT_S,
    FastClock,
    events_of,
    kinds,
    model_call,
    opened,
    raw_events,
    responses_upstream,
)
from tests.upstream.resilience import (
    CREATED,
    EVENTS,
    FINAL,
    IN_PROGRESS,
    RATE_LIMIT,
    Kept,
    begin_and_break,
    begin_and_hold,
    break_in_mid_output,
    drop,
    events_with,
    failing,
    no_other,
    output_and_hold,
    resilient,
    watched,
)

# Retries


async def test_a_rate_limit_is_waited_for_as_long_as_the_upstream_asks() -> None:
    async with watched(stub.answering(429, RATE_LIMIT, retry_after="1"), stub.play(EVENTS)) as it:
        assert await raw_events(it.upstream) == EVENTS
        assert (it.asked, it.clock.slept) == (2, [1.25])


async def test_a_longer_wait_than_the_limit_fails_at_once_with_code_and_hint() -> None:
    async with watched(stub.answering(429, RATE_LIMIT, retry_after="21")) as it:
        error = await it.failure()
        assert (it.asked, it.clock.slept) == (1, [])
    assert (error.status, error.code, error.headers) == (429, "rate_limit_exceeded", {"retry-after": "21"})


async def test_four_times_502_is_given_up_after_three_and_has_waited_twice() -> None:
    bad = stub.answering(502, b"<html>", "text/html")
    async with watched(bad, bad, bad, bad, stub.text()) as it:
        error = await it.failure()
        assert (it.asked, it.clock.slept) == (3, [0.25, 0.5])
    assert (error.status, error.code, error.http_status) == (503, "upstream_unavailable", 502)


async def test_a_refused_connection_is_tried_three_times() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with watched(stub.text()) as it, responses_upstream(_url_of(closed)) as inner:
            clock = FastClock()
            upstream = ResilientUpstream(inner, RetrySettings(), BreakerSettings(), clock, sleep=clock.sleep)
            it.upstream = upstream
            error = await it.failure()
    assert (error.code, error.http_status, len(clock.slept)) == ("upstream_unavailable", None, 2)
    assert upstream.state().failures == 3


def _url_of(sock: socket.socket) -> str:
    return f"http://127.0.0.1:{sock.getsockname()[1]}/v1"


TRANSIENT: dict[str, Handler] = {
    "dropped": drop,
    "503": stub.answering(503, {"error": {"message": "m"}}),
    "broken before output": begin_and_break,
    "ended before output": stub.play([CREATED, IN_PROGRESS]),
    "empty 200": stub.raw_body(b""),
    "done only": stub.raw_body(b"data: [DONE]\n\n"),
    "page": stub.answering(200, b"<html>", "text/html"),
    "error inside 200": stub.answering(200, {"error": {"message": "m", "code": "server_error"}}),
    "rate limit inside 200": stub.answering(200, {"error": {"message": "m", "type": "rate_limit_error"}}),
    "failed first": events_with(failing("server_error")),
    "rate limit first": events_with(failing("rate_limit_exceeded")),
    "error first, nested": events_with({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}),
    "error first, flat": events_with({"type": "error", "code": "server_is_overloaded", "message": "m"}),
    "error first, by status": events_with({"type": "error", "error": {"code": 503, "message": "m"}}),
    "keepalives, then error": events_with(*[{"type": "keepalive"}] * 3, failing("slow_down")),
    "whole response that failed": stub.answering(
        200, {**failing("server_error")["response"], "object": "response", "output": []}
    ),
}


@pytest.mark.parametrize("name", TRANSIENT)
async def test_a_passing_fault_before_output_is_not_noticed(name: str) -> None:
    async with watched(TRANSIENT[name], stub.play(EVENTS)) as it:
        assert await raw_events(it.upstream) == EVENTS
        assert (it.asked, len(it.clock.slept)) == (2, 1)
        assert it.upstream.state().retries == 1


@pytest.mark.parametrize("name", FINAL)
async def test_what_the_same_call_cannot_mend_is_not_repeated_and_keeps_its_code(name: str) -> None:
    handler, status, code = FINAL[name]
    async with watched(handler, stub.text()) as it:
        error = await it.failure()
        assert (it.asked, error.status, error.code) == (1, status, code)
        assert it.upstream.state().failures == 0


async def test_an_upstream_that_never_begins_is_not_asked_again_but_counts() -> None:
    async with watched(stub.hang(), idle_s=0.3) as it:
        error = await it.failure()
        assert (it.asked, error.code) == (1, "upstream_timeout")
        assert it.upstream.state().failures == 1


async def test_a_failure_after_output_is_not_repeated_and_what_came_is_kept() -> None:
    seen: list[bytes] = []
    async with watched(break_in_mid_output, stub.text()) as it:
        with pytest.raises(UpstreamError) as caught:
            async for batch in it.upstream.stream(model_call()):
                seen += batch
        assert (it.asked, it.upstream.state().failures) == (1, 1)
    assert seen == EVENTS[:6]
    assert caught.value.code == "upstream_error"


async def test_an_error_event_after_output_is_delivered_as_it_is() -> None:
    said = orjson.dumps(failing("server_error"))
    async with watched(stub.play([*EVENTS[:5], said]), stub.text()) as it:
        assert await raw_events(it.upstream) == [*EVENTS[:5], said]
        assert it.asked == 1


async def test_a_failed_response_with_output_in_it_is_delivered_and_not_repeated() -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]}
    said = failing("server_error")
    said["response"]["output"] = [item]
    async with watched(events_with(said), stub.text()) as it:
        assert kinds(await events_of(it.upstream))[-1] == "response.failed"
        assert it.asked == 1


async def test_what_comes_before_output_is_held_back_and_then_given_with_it() -> None:
    go_on = asyncio.Event()

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in (CREATED, IN_PROGRESS, b'{"type":"keepalive"}', b'{"type":"keepalive"}'):
            conn.sse(event)
        await go_on.wait()
        for event in EVENTS[2:]:
            conn.sse(event)
        conn.end()

    async with watched(handler) as it:
        running = opened(it.upstream, model_call())
        first = asyncio.ensure_future(anext(running))
        await it.server.request(0)
        await asyncio.wait([first], timeout=0.1)
        assert not first.done()
        go_on.set()
        batch = await asyncio.wait_for(first, WAIT_S)
        assert [orjson.loads(event)["type"] for event in batch[:4]] == [
            "response.created",
            "response.in_progress",
            "keepalive",
            "response.output_item.added",
        ]
        await running.aclose()


@pytest.mark.parametrize(
    "body", [stub.whole(EVENTS), {key: value for key, value in stub.whole(EVENTS).items() if key != "status"}]
)
async def test_an_answer_that_is_not_streamed_is_output(body: dict[str, Any]) -> None:
    async with watched(drop, stub.answering(200, body)) as it:
        assert kinds(await events_of(it.upstream)) == ["antiphon.whole_response"]
        assert it.upstream.state().failures == 0, "and a success"


async def test_an_event_that_cannot_be_read_is_given_on() -> None:
    async with watched(stub.raw_body(b"data: {oops\n\n")) as it:
        assert await raw_events(it.upstream) == [b"{oops"]
        assert it.asked == 1


async def test_a_retry_is_logged_with_its_wait_and_the_code_and_without_the_upstreams_words() -> None:
    with capture_logs() as logs:
        async with watched(stub.answering(429, RATE_LIMIT), stub.text()) as it:
            await raw_events(it.upstream)
    assert logs == [
        {
            "event": "upstream_retry",
            "log_level": "warning",
            "upstream": "local",
            "response_id": "resp_1",
            "attempt": 1,
            "wait_ms": 250,
            "code": "rate_limit_exceeded",
        }
    ]


# Giving up


async def test_cancelling_while_it_waits_ends_at_once_and_nothing_is_asked_any_more() -> None:
    waiting = asyncio.Event()

    async def sleep(delay_s: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with watched(stub.answering(503, b""), stub.text(), sleep=sleep) as it:
        task = asyncio.create_task(raw_events(it.upstream))
        await asyncio.wait_for(waiting.wait(), WAIT_S)
        task.cancel()
        await asyncio.wait([task], timeout=0.5)
        assert task.cancelled()
        assert it.asked == 1


@pytest.mark.parametrize("handler", [stub.hang(), begin_and_hold])
async def test_cancelling_a_second_attempt_closes_its_connection(handler: Handler) -> None:
    async with watched(drop, handler) as it:
        task = asyncio.create_task(raw_events(it.upstream))
        request = await it.server.request(1)
        task.cancel()
        await asyncio.wait_for(request.closed, 0.5)
        await asyncio.wait([task], timeout=0.5)
        assert task.cancelled()


async def test_closing_the_iterator_in_mid_output_closes_the_connection_and_counts_neither_way() -> None:
    async with watched(drop, output_and_hold) as it:
        running = opened(it.upstream, model_call())
        await asyncio.wait_for(anext(running), WAIT_S)
        await running.aclose()
        await asyncio.wait_for(it.server.requests[1].closed, 0.5)
        assert it.upstream.state().failures == 1


@pytest.mark.parametrize("wrap", ["resilient", "fallback"])
async def test_the_stream_inside_is_closed_by_the_time_the_one_outside_is(wrap: str) -> None:
    kept = Kept([EVENTS[:5], EVENTS[5:]])
    upstream = resilient(kept) if wrap == "resilient" else FallbackUpstream("m", kept, (), no_other)
    running = opened(upstream, model_call())
    await anext(running)
    await running.aclose()
    assert kept.closed == 1


async def test_the_stream_of_an_attempt_that_failed_is_closed_before_the_next_begins() -> None:
    kept = Kept([[orjson.dumps(failing("server_error"))], []])
    with pytest.raises(UpstreamError):
        await raw_events(resilient(kept))
    assert (kept.closed, kept.still_open) == (3, [0, 0, 0])


async def test_closing_the_iterator_after_the_terminal_event_is_a_success() -> None:
    async with watched(drop, stub.play(EVENTS)) as it:
        running = opened(it.upstream, model_call())
        async with asyncio.timeout(WAIT_S):
            async for batch in running:
                if EVENTS[-1] in batch:
                    break
        await running.aclose()
        assert it.upstream.state().failures == 0
