"""How long an answer may take to begin is one bound, how long it may be silent afterwards is another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon.errors import UpstreamError
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.responses import ResponsesUpstream
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubConn, StubRequest, StubUpstream
from tests.upstream.calling import MIB, WAIT_S, model_call, raw_events

EVENTS = stub.events_of_text(["a ", "b ", "c "])
SHORT_S, LONG_S = 0.3, 60.0


@asynccontextmanager
async def patient(
    handler: Handler, *, first_byte_s: float, idle_s: float
) -> AsyncIterator[tuple[StubUpstream, ResponsesUpstream]]:
    timeouts = TimeoutSettings(upstream_first_byte_s=first_byte_s, upstream_idle_s=idle_s)
    async with StubUpstream(handler) as server:
        upstream = ResponsesUpstream(UpstreamSettings(name="local", url=server.url), timeouts, MIB)
        yield server, upstream
        await upstream.aclose()


async def head_only(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    await conn.held()


@pytest.mark.parametrize("handler", [stub.hang(), head_only])
async def test_an_answer_that_does_not_begin_in_time_is_a_timeout_and_its_connection_is_closed(
    handler: Handler,
) -> None:
    async with patient(handler, first_byte_s=SHORT_S, idle_s=LONG_S) as (server, upstream):
        with pytest.raises(UpstreamError) as caught:
            await asyncio.wait_for(raw_events(upstream), WAIT_S)
        await asyncio.wait_for(server.requests[0].closed, 0.5)
    assert (caught.value.status, caught.value.code) == (504, "upstream_timeout")


async def test_once_it_has_begun_it_may_be_silent_for_longer() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.chunk(b": thinking\n\n")
        await asyncio.sleep(2 * SHORT_S)
        for event in EVENTS:
            conn.sse(event)
        conn.end()

    async with patient(handler, first_byte_s=SHORT_S, idle_s=LONG_S) as (_, upstream):
        assert await raw_events(upstream) == EVENTS


async def test_an_answer_that_began_late_is_still_watched_for_silence() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        await asyncio.sleep(SHORT_S)
        conn.head()
        await asyncio.sleep(2 * SHORT_S)
        conn.sse(EVENTS[0])
        await conn.held()

    seen: list[bytes] = []
    async with patient(handler, first_byte_s=LONG_S, idle_s=SHORT_S) as (_, upstream):
        with pytest.raises(UpstreamError, match="silent"):
            async with asyncio.timeout(WAIT_S):
                async for batch in upstream.stream(model_call()):
                    seen += batch
    assert seen == EVENTS[:1]
