"""Answers that break or fall silent in the middle: nothing that came is lost, and the failure has a name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.errors import UpstreamError
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubConn, StubRequest, StubUpstream
from tests.upstream.calling import WAIT_S, model_call, raw_events, responses_upstream

EVENTS = stub.events_of_text(["a ", "b ", "c "])


async def received_before_failure(handler: Handler, **settings: Any) -> tuple[list[bytes], UpstreamError]:
    seen: list[bytes] = []
    async with StubUpstream(handler) as server, responses_upstream(server.url, **settings) as upstream:
        with pytest.raises(UpstreamError) as caught:
            async with asyncio.timeout(WAIT_S):
                async for batch in upstream.stream(model_call()):
                    seen += batch
        await asyncio.wait_for(server.requests[0].closed, 0.5)
    return seen, caught.value


async def test_a_chunked_answer_without_its_end_broke_off_and_keeps_what_came() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in EVENTS[:5]:
            conn.sse(event)
        conn.fin()

    seen, error = await received_before_failure(handler)
    assert seen == EVENTS[:5]
    assert (error.status, error.code, error.http_status) == (502, "upstream_error", 200)
    assert "broke off" in error.message


async def test_a_body_shorter_than_its_length_broke_off() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head(chunked=False, content_length="100000")
        conn.write(b"data: %b\n\n" % EVENTS[0])
        conn.fin()

    seen, error = await received_before_failure(handler)
    assert (seen, error.code) == (EVENTS[:1], "upstream_error")


async def test_a_broken_chunk_header_broke_off() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(EVENTS[0])
        await request_seen.wait()
        conn.write(b"zzzz\r\n")
        await conn.held()

    request_seen = asyncio.Event()
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        with pytest.raises(UpstreamError, match="broke off"):
            async with asyncio.timeout(WAIT_S):
                async for _ in upstream.stream(model_call()):
                    request_seen.set()


async def test_a_reset_in_mid_stream_broke_off() -> None:
    got_some = asyncio.Event()

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(EVENTS[0])
        await got_some.wait()
        conn.reset()

    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        with pytest.raises(UpstreamError, match="broke off") as caught:
            async with asyncio.timeout(WAIT_S):
                async for _ in upstream.stream(model_call()):
                    got_some.set()
    assert (caught.value.status, caught.value.code) == (502, "upstream_error")


async def test_what_arrived_before_a_break_is_given_even_if_nobody_was_reading_then() -> None:
    reading = asyncio.Event()

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(EVENTS[0])
        await reading.wait()
        for event in EVENTS[1:5]:
            conn.sse(event)
        conn.fin()

    seen: list[bytes] = []
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        with pytest.raises(UpstreamError, match="broke off"):
            async with asyncio.timeout(WAIT_S):
                async for batch in upstream.stream(model_call()):
                    seen += batch
                    reading.set()
                    if len(seen) == 1:
                        # Stay away until everything, the break included, has come in.
                        await server.requests[0].closed
    assert seen == EVENTS[:5]


async def test_silence_in_mid_stream_is_a_timeout_and_the_connection_is_closed() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(EVENTS[0])
        await conn.held()

    seen, error = await received_before_failure(handler, idle_s=0.5)
    assert seen == EVENTS[:1]
    assert (error.status, error.code) == (504, "upstream_timeout")
    assert "silent" in error.message


async def test_comments_count_as_a_sign_of_life() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for _ in range(8):
            conn.chunk(b": thinking\n\n")
            await asyncio.sleep(0.1)
        await stub_rest(conn)

    async def stub_rest(conn: StubConn) -> None:
        for event in EVENTS:
            conn.sse(event)
        conn.end()

    async with StubUpstream(handler) as server, responses_upstream(server.url, idle_s=0.5) as upstream:
        assert await raw_events(upstream) == EVENTS
