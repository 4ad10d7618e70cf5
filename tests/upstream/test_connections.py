"""What happens to connections: closed at once when a call is given up, kept and reused when it ended well."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from antiphon.errors import UpstreamError
from antiphon.upstream.transport import HttpTransport
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.upstream.calling import WAIT_S, events_of, model_call, opened, raw_events, responses_upstream, text_in

EVENTS = stub.events_of_text(["a ", "b ", "c "])
FIRST = EVENTS[0]


async def held_after_first_event(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    conn.sse(FIRST)
    await conn.held()


async def test_closing_the_iterator_in_mid_stream_reaches_the_upstream_within_500_ms() -> None:
    async with StubUpstream(held_after_first_event) as server, responses_upstream(server.url) as upstream:
        running = opened(upstream, model_call())
        assert await anext(running) == [FIRST]
        await running.aclose()
        await asyncio.wait_for(server.requests[0].closed, 0.5)


async def test_cancelling_a_reader_that_waits_reaches_the_upstream_within_500_ms() -> None:
    got_first = asyncio.Event()

    async def read() -> None:
        async for _ in upstream.stream(model_call()):
            got_first.set()

    async with StubUpstream(held_after_first_event) as server, responses_upstream(server.url) as upstream:
        task = asyncio.create_task(read())
        await asyncio.wait_for(got_first.wait(), WAIT_S)
        task.cancel()
        await asyncio.wait_for(server.requests[0].closed, 0.5)
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_cancelling_before_the_first_byte_reaches_the_upstream_within_500_ms() -> None:
    async with StubUpstream(stub.hang()) as server, responses_upstream(server.url) as upstream:
        task = asyncio.create_task(raw_events(upstream))
        request = await server.request(0)
        task.cancel()
        await asyncio.wait_for(request.closed, 0.5)
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_cancelling_while_a_large_request_is_still_on_its_way_closes_at_once() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        # Read nothing until the other side is gone, then what the system had buffered.
        await cancelled.wait()
        with contextlib.suppress(ConnectionError):
            while await reader.read(1 << 20):
                pass
        gone.set()
        writer.close()

    arrived, cancelled, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(deaf, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with responses_upstream(url) as upstream:
            task = asyncio.create_task(raw_events(upstream, model_call({"input": "x" * 40_000_000})))
            await asyncio.wait_for(arrived.wait(), WAIT_S)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            cancelled.set()
            await asyncio.wait_for(gone.wait(), 2)


async def test_an_upstream_that_ignores_the_close_and_goes_on_is_reset() -> None:
    async def deaf(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(FIRST)
        await conn.held()
        for _ in range(100):
            conn.chunk(b": still here\n\n")
            if conn.gone.is_set():
                break
            await asyncio.sleep(0.01)
        reset.set_result(conn.gone.is_set())

    reset: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    async with StubUpstream(deaf) as server, responses_upstream(server.url) as upstream:
        server.ignore_fin = True
        running = opened(upstream, model_call())
        await anext(running)
        await running.aclose()
        assert await asyncio.wait_for(reset, WAIT_S)


async def test_closing_the_upstream_closes_running_calls() -> None:
    async with StubUpstream(held_after_first_event) as server:
        async with responses_upstream(server.url) as upstream:
            running = opened(upstream, model_call())
            await anext(running)
        await asyncio.wait_for(server.requests[0].closed, 0.5)
        with pytest.raises(UpstreamError):
            await anext(running)


async def test_one_call_that_is_closed_leaves_the_others_running() -> None:
    go_on = asyncio.Event()

    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse(FIRST)
        await go_on.wait()
        for event in EVENTS[1:]:
            conn.sse(event)
        conn.end()

    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        kept, closed = opened(upstream, model_call()), opened(upstream, model_call())
        seen = [*await anext(kept)]
        await anext(closed)
        await closed.aclose()
        go_on.set()
        async with asyncio.timeout(WAIT_S):
            async for batch in kept:
                seen += batch
        assert seen == EVENTS


async def test_calls_one_after_another_share_a_connection() -> None:
    async with StubUpstream() as server, responses_upstream(server.url) as upstream:
        for _ in range(3):
            await raw_events(upstream)
            await settled()
        assert [request.connection for request in server.requests] == [0, 0, 0]


async def settled() -> None:
    """Let the end of an answer, which is read in the background, be read."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_refusal_gives_its_connection_back() -> None:
    handler = stub.in_turn(stub.answering(429, {"error": {"message": "m"}}), stub.text())
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        with pytest.raises(UpstreamError):
            await raw_events(upstream)
        await raw_events(upstream)
        assert [request.connection for request in server.requests] == [0, 0]


async def test_a_connection_on_which_the_end_never_came_is_not_used_again() -> None:
    async def without_end(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in EVENTS:
            conn.sse(event)
        await conn.held()

    handler = stub.in_turn(without_end, stub.text())
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        await raw_events(upstream)
        await raw_events(upstream)
        assert [request.connection for request in server.requests] == [0, 1]
        await asyncio.wait_for(server.requests[0].closed, 2)


@pytest.mark.parametrize("close", [StubConn.fin, StubConn.reset])
async def test_a_pooled_connection_found_dead_costs_no_error(close: object) -> None:
    async def die(request: StubRequest, conn: StubConn) -> None:
        close(conn)  # type: ignore[operator]

    handler = stub.in_turn(stub.text(), die, stub.text())
    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        await raw_events(upstream)
        await settled()
        assert text_in(await events_of(upstream)) == "w0 w1 w2 "
        assert [request.connection for request in server.requests] == [0, 0, 1]


async def test_a_new_connection_found_dead_is_an_error_and_the_call_is_not_repeated() -> None:
    async def die(request: StubRequest, conn: StubConn) -> None:
        conn.fin()

    async with StubUpstream(die) as server, responses_upstream(server.url) as upstream:
        with pytest.raises(UpstreamError):
            await raw_events(upstream)
        assert len(server.requests) == 1


async def test_the_number_of_calls_at_once_has_no_limit() -> None:
    everybody = asyncio.Barrier(300)

    async def handler(request: StubRequest, conn: StubConn) -> None:
        # Nobody is answered before all are here.
        await everybody.wait()
        await stub.text()(request, conn)

    async with StubUpstream(handler) as server, responses_upstream(server.url, idle_s=30) as upstream:
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*(events_of(upstream) for _ in range(300)))
        assert {text_in(answer) for answer in answers} == {"w0 w1 w2 "}


async def test_an_upstream_is_slowed_down_when_nobody_takes_its_events() -> None:
    written = 0

    async def handler(request: StubRequest, conn: StubConn) -> None:
        nonlocal written
        conn.head()
        conn.sse(FIRST)
        while not conn.gone.is_set():
            conn.chunk(b": x\n\n" * 13_000)
            written += 1
            await conn.flushed()

    async with StubUpstream(handler) as server, responses_upstream(server.url) as upstream:
        running = opened(upstream, model_call())
        await anext(running)
        before = -1
        async with asyncio.timeout(WAIT_S):
            while before != written:
                before = written
                await asyncio.sleep(0.2)
        # 64 KiB each; what fits into the buffers of both sides and of the system.
        assert written < 1000
        await running.aclose()


async def test_a_reader_that_is_slow_is_not_taken_for_a_silent_upstream() -> None:
    async with (
        StubUpstream(stub.play(EVENTS)) as server,
        responses_upstream(server.url, idle_s=0.3) as upstream,
    ):
        running = opened(upstream, model_call())
        seen = [*await anext(running)]
        await asyncio.sleep(0.8)
        async with asyncio.timeout(WAIT_S):
            async for batch in running:
                seen += batch
        assert seen == EVENTS


async def test_a_proxy_gets_the_whole_url_and_the_key_stays_in_its_header() -> None:
    async with StubUpstream() as proxy:
        transport = HttpTransport(connect_s=5, idle_s=5, proxy=f"http://127.0.0.1:{proxy.port}")
        async with responses_upstream("http://model.invalid/v1", transport=transport) as upstream:
            assert text_in(await events_of(upstream, model_call(token="t"))) == "w0 w1 w2 "
        request = proxy.requests[0]
        assert request.path == "http://model.invalid/v1/responses"
        assert request.authorization == "Bearer t"


async def test_the_proxy_of_the_environment_is_not_used_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    async with StubUpstream() as server, responses_upstream(server.url) as upstream:
        assert text_in(await events_of(upstream)) == "w0 w1 w2 "
