"""An upstream that keeps failing is left alone for a while, then one call probes it."""

from __future__ import annotations

import asyncio
import contextlib

import orjson
import pytest
from structlog.testing import capture_logs

from antiphon.errors import UpstreamError
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubConn, StubRequest
from tests.upstream.calling import (
    WAIT_S,
    events_of,
    model_call,
    opened,
    raw_events,
    text_in,
)
from tests.upstream.resilience import (
    EVENTS,
    FINAL,
    RATE_LIMIT,
    begin_and_break,
    begin_and_hold,
    break_in_mid_output,
    drop,
    failing,
    output_and_hold,
    watched,
)


async def test_five_failures_open_it_and_the_upstream_is_not_asked_a_sixth_time() -> None:
    with capture_logs() as logs:
        async with watched(stub.answering(503, b""), attempts=1) as it:
            await it.fails(5)
            error = await it.failure()
            assert it.asked == 5
            state = it.upstream.state()
            assert (state.name, state.breaker, state.failures) == ("local", "open", 5)
            assert state.opened_until == it.clock.now() + 30
    assert (error.status, error.code, error.http_status) == (503, "upstream_unavailable", None)
    assert error.headers == {"retry-after": "30"}
    assert logs == [
        {
            "event": "upstream_breaker_opened",
            "log_level": "warning",
            "upstream": "local",
            "open_s": 30.0,
            "code": "upstream_unavailable",
        }
    ]


async def test_retries_count_and_stop_where_it_opens_with_the_error_of_the_upstream() -> None:
    async with watched(stub.answering(503, b""), attempts=3) as it:
        await it.failure()
        error = await it.failure()
        assert (it.asked, error.http_status) == (5, 503)


COUNTED: dict[str, Handler] = {
    "dropped": drop,
    "broken before output": begin_and_break,
    "broken in mid-output": break_in_mid_output,
    "cut off politely": stub.play(EVENTS[:-1]),
    "ended by a fault of its own": stub.play([*EVENTS[:5], orjson.dumps(failing("server_error"))]),
}


@pytest.mark.parametrize("name", COUNTED)
async def test_faults_of_the_upstream_open_it(name: str) -> None:
    async with watched(COUNTED[name], attempts=1, limit=2) as it:
        for _ in range(2):
            with contextlib.suppress(UpstreamError):
                await raw_events(it.upstream)
        assert it.upstream.state().breaker == "open"


@pytest.mark.parametrize("name", [*FINAL, "rate limit"])
async def test_refusals_of_the_callers_and_rate_limits_never_open_it(name: str) -> None:
    handler = FINAL[name][0] if name in FINAL else stub.answering(429, RATE_LIMIT)
    async with watched(handler, attempts=1, limit=2) as it:
        await it.fails(4)
        assert (it.asked, it.upstream.state().breaker) == (4, "closed")


async def test_after_its_time_one_probe_goes_out_while_others_are_refused_and_its_output_closes_it() -> None:
    go_on = asyncio.Event()

    async def slow(request: StubRequest, conn: StubConn) -> None:
        await go_on.wait()
        await output_and_hold(request, conn)

    async with watched(drop, drop, slow, stub.text(), attempts=1, limit=2) as it:
        await it.fails(2)
        it.clock.at += 30
        probe = opened(it.upstream, model_call())
        first = asyncio.ensure_future(anext(probe))
        await it.server.request(2)
        for _ in range(3):
            error = await it.failure()
            assert (error.code, error.headers) == ("upstream_unavailable", {"retry-after": "1"})
        assert (it.asked, it.upstream.state().breaker) == (3, "half_open")
        go_on.set()
        await asyncio.wait_for(first, WAIT_S)
        assert it.upstream.state().breaker == "closed"
        assert text_in(await events_of(it.upstream)) == "w0 w1 w2 "
        await probe.aclose()


async def test_a_probe_that_fails_keeps_it_open_for_the_whole_time() -> None:
    async with watched(drop, attempts=3, limit=2) as it:
        await it.failure()
        it.clock.at += 30
        await it.failure()
        assert it.asked == 3, "a probe is not repeated"
        it.clock.at += 29
        await it.failure()
        assert it.asked == 3


async def test_a_probe_that_is_refused_closes_it_since_the_upstream_answers_again() -> None:
    async with watched(drop, drop, stub.answering(400, b"{}"), attempts=1, limit=2) as it:
        await it.fails(2)
        it.clock.at += 30
        assert (await it.failure()).status == 400
        assert it.upstream.state().breaker == "closed"


@pytest.mark.parametrize("handler", [stub.hang(), begin_and_hold])
async def test_a_probe_that_is_cancelled_counts_neither_way_and_the_next_call_probes(handler: Handler) -> None:
    async with watched(drop, drop, handler, stub.text(), attempts=1, limit=2) as it:
        await it.fails(2)
        it.clock.at += 30
        task = asyncio.create_task(raw_events(it.upstream))
        request = await it.server.request(2)
        task.cancel()
        await asyncio.wait_for(request.closed, 0.5)
        await asyncio.wait([task], timeout=0.5)
        assert it.upstream.state().breaker == "half_open"
        assert text_in(await events_of(it.upstream)) == "w0 w1 w2 "
        assert it.upstream.state().breaker == "closed"


async def test_the_list_of_models_is_asked_even_while_it_is_open() -> None:
    async with watched(drop, attempts=1, limit=1) as it:
        await it.failure()
        assert await it.upstream.models() == ["stub-model"]
