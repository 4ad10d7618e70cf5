"""A model whose place others take: in order, before any output, told once, and never for a caller's mistake."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from antiphon.errors import StartupError, UpstreamError
from antiphon.ports import ModelCall, Upstream
from antiphon.settings import Settings
from antiphon.settings.upstream import BreakerSettings, RetrySettings, UpstreamSettings
from antiphon.upstream.build import build_upstreams
from antiphon.upstream.router import UpstreamRouter
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubConn, StubRequest, StubUpstream
from tests.upstream.calling import WAIT_S, SystemClock, events_of, model_call, opened, raw_events, text_in

EVENTS = stub.events_of_text(["a ", "b ", "c "])
DOWN = stub.answering(503, b"")
CHAIN = {"m": ("n", "o")}
BODY = {"model": "m", "input": "hello", "stream": True, "store": False, "metadata": {"model": "kept"}}


async def break_in_mid_output(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    for event in EVENTS[:6]:
        conn.sse(event)
    await conn.flushed()
    conn.fin()


class Chain:
    """Models m, n and o, each on an upstream of its own. degraded: what the run was told."""

    def __init__(self, routes: UpstreamRouter, servers: Mapping[str, StubUpstream]) -> None:
        self.routes = routes
        self.servers = servers
        self.degraded: list[tuple[str, str]] = []

    @property
    def asked(self) -> dict[str, int]:
        return {name: len(server.requests) for name, server in self.servers.items() if server.requests}

    async def upstream(self, allowed: Callable[[str], bool] = lambda model: True, **how: Any) -> Upstream:
        upstream, name, _ = await self.routes.resolve("m", allowed, **how)
        assert (upstream.name, name) == ("of-m", "m")
        return upstream

    def call(self, token: str | None = None) -> ModelCall:
        call = model_call(BODY, token=token)
        return replace(call, on_degraded=lambda *names: self.degraded.append(names))

    async def failure(self, call: ModelCall | None = None) -> UpstreamError:
        with pytest.raises(UpstreamError) as caught:
            await raw_events(await self.upstream(), call or self.call())
        return caught.value


@contextlib.asynccontextmanager
async def chain(
    m: Handler,
    n: Handler = DOWN,
    o: Handler = DOWN,
    *,
    fallbacks: Mapping[str, Sequence[str]] = CHAIN,
    **more: Any,
) -> AsyncIterator[Chain]:
    async with contextlib.AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(StubUpstream(handler))
            for name, handler in (("m", m), ("n", n), ("o", o))
        }
        upstreams = tuple(
            UpstreamSettings(name=f"of-{name}", url=server.url, models=(name,), caller_key=True)
            for name, server in servers.items()
        )
        settings = Settings(
            upstream=upstreams,
            fallbacks={name: tuple(others) for name, others in fallbacks.items()},
            retry=RetrySettings(max_attempts=1),
            **more,
        )
        routes = build_upstreams(settings, SystemClock())
        stack.push_async_callback(routes.aclose)
        yield Chain(routes, servers)


async def test_a_model_that_works_is_not_degraded() -> None:
    async with chain(stub.text()) as it:
        assert text_in(await events_of(await it.upstream(), it.call())) == "w0 w1 w2 "
        assert (it.asked, it.degraded) == ({"m": 1}, [])


async def test_the_next_model_answers_and_the_run_is_told_once_before_the_output() -> None:
    async with chain(DOWN, stub.play(EVENTS)) as it:
        running = opened(await it.upstream(), it.call())
        seen = [*await asyncio.wait_for(anext(running), WAIT_S)]
        assert it.degraded == [("m", "n")]
        async with asyncio.timeout(WAIT_S):
            async for batch in running:
                seen += batch
        assert (seen, it.degraded, it.asked) == (EVENTS, [("m", "n")], {"m": 1, "n": 1})


async def test_the_next_model_gets_the_same_body_under_its_own_name() -> None:
    async with chain(DOWN, stub.text()) as it:
        await raw_events(await it.upstream(), it.call())
        assert it.servers["m"].requests[0].body == BODY
        assert it.servers["n"].requests[0].body == {**BODY, "model": "n"}


async def test_models_are_asked_in_order_and_only_the_one_that_answers_is_told() -> None:
    async with chain(DOWN, stub.answering(429, b""), stub.text()) as it:
        await raw_events(await it.upstream(), it.call())
        assert (it.asked, it.degraded) == ({"m": 1, "n": 1, "o": 1}, [("m", "o")])


async def test_when_all_fail_the_first_error_is_seen_and_says_what_the_others_answered() -> None:
    limit = stub.answering(429, {"error": {"message": "Slow.", "code": "rate_limit_exceeded"}}, retry_after="7")
    async with chain(limit, DOWN, stub.answering(401, b"")) as it:
        error = await it.failure()
        assert it.degraded == []
    assert (error.status, error.code, error.headers) == (429, "rate_limit_exceeded", {"retry-after": "7"})
    assert error.message == (
        "Upstream 'of-m' answered 429: Slow. "
        "Other models were tried and failed too: n (upstream_unavailable), o (upstream_error)."
    )


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_refusal_the_caller_can_mend_goes_to_no_other_model(status: int) -> None:
    async with chain(stub.answering(status, {"error": {"message": "m", "code": "own_code"}}), stub.text()) as it:
        error = await it.failure()
        assert (error.status, error.code, it.asked) == (status, "own_code", {"m": 1})


async def test_a_refusal_of_a_later_model_ends_the_chain_with_the_first_error() -> None:
    async with chain(DOWN, stub.answering(400, b""), stub.text()) as it:
        error = await it.failure()
        assert (error.status, it.asked) == (503, {"m": 1, "n": 1})
        assert "n (upstream_error)" in error.message


async def test_after_output_no_other_model_is_asked() -> None:
    seen: list[bytes] = []
    async with chain(break_in_mid_output, stub.text()) as it:
        with pytest.raises(UpstreamError, match="broke off"):
            async for batch in (await it.upstream()).stream(it.call()):
                seen += batch
        assert (it.asked, it.degraded) == ({"m": 1}, [])
    assert seen == EVENTS[:6]


async def test_a_call_that_nobody_would_be_told_about_goes_to_no_other_model() -> None:
    async with chain(DOWN, stub.text()) as it:
        error = await it.failure(model_call())
        assert (error.code, it.asked) == ("upstream_unavailable", {"m": 1})


async def test_models_the_caller_may_not_use_are_left_out() -> None:
    async with chain(DOWN, stub.text(), stub.text()) as it:
        upstream = await it.upstream(lambda model: model != "n")
        await raw_events(upstream, it.call())
        assert (it.asked, it.degraded) == ({"m": 1, "o": 1}, [("m", "o")])


async def test_a_callers_credential_goes_to_no_other_upstream() -> None:
    async with chain(DOWN, stub.text()) as it:
        error = await it.failure(it.call(token="callers-secret"))
        assert (error.code, it.asked) == ("upstream_unavailable", {"m": 1})
        assert "tried" not in error.message


async def test_a_callers_credential_serves_another_model_of_the_same_upstream(tmp_path: Path) -> None:
    async with StubUpstream(stub.in_turn(DOWN, stub.text())) as server:
        one = UpstreamSettings(name="one", url=server.url, models=("m", "n"), caller_key=True)
        settings = Settings(upstream=(one,), fallbacks={"m": ("n",)}, retry=RetrySettings(max_attempts=1))
        routes = build_upstreams(settings, SystemClock())
        upstream, _, _ = await routes.resolve("m")
        told: list[tuple[str, str]] = []
        call = replace(model_call(BODY, token="t"), on_degraded=lambda *names: told.append(names))
        await raw_events(upstream, call)
        assert [(one.body["model"], one.authorization) for one in server.requests] == [
            ("m", "Bearer t"),
            ("n", "Bearer t"),
        ]
        assert told == [("m", "n")]
        await routes.aclose()


async def test_an_open_breaker_sends_calls_to_the_next_model_at_once() -> None:
    async with chain(DOWN, stub.text(), breaker=BreakerSettings(failures=1)) as it:
        for _ in range(3):
            await raw_events(await it.upstream(), it.call())
        assert it.asked == {"m": 1, "n": 3}
        assert [(state.name, state.breaker) for state in it.routes.states()] == [
            ("of-m", "open"),
            ("of-n", "closed"),
            ("of-o", "closed"),
        ]


async def test_a_built_in_model_can_be_the_last_resort() -> None:
    async with chain(DOWN, fallbacks={"m": ("antiphon/echo",)}) as it:
        assert text_in(await events_of(await it.upstream(), it.call())) == "hello"
        assert it.degraded == [("m", "antiphon/echo")]


async def test_cancelling_while_another_model_is_asked_closes_its_connection() -> None:
    async with chain(DOWN, stub.hang()) as it:
        task = asyncio.create_task(raw_events(await it.upstream(), it.call()))
        request = await it.servers["n"].request(0)
        task.cancel()
        await asyncio.wait_for(request.closed, 0.5)
        await asyncio.wait([task], timeout=0.5)
        assert (task.cancelled(), it.degraded) == (True, [])


async def test_closing_in_mid_output_closes_the_connection_of_the_model_that_answers() -> None:
    async def held(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        for event in EVENTS[:5]:
            conn.sse(event)
        await conn.held()

    async with chain(DOWN, held) as it:
        running = opened(await it.upstream(), it.call())
        await asyncio.wait_for(anext(running), WAIT_S)
        await running.aclose()
        await asyncio.wait_for(it.servers["n"].requests[0].closed, 0.5)


# Configuration


async def test_a_model_without_a_chain_has_only_itself() -> None:
    async with chain(stub.text()) as it:
        assert it.routes.chain("m") == ["m", "n", "o"]
        assert it.routes.chain("n") == ["n"]


@pytest.mark.parametrize(
    ("fallbacks", "way"),
    [
        ({"a": ["a"]}, "a -> a"),
        ({"a": ["b"], "b": ["a"]}, "a -> b -> a"),
        ({"a": ["x", "b"], "b": ["c"], "c": ["b"]}, "b -> c -> b"),
    ],
)
def test_a_chain_that_leads_back_to_itself_is_refused(fallbacks: dict[str, list[str]], way: str) -> None:
    with pytest.raises(ValidationError, match=f"circle: {way}"):
        Settings(fallbacks=fallbacks)


def test_two_ways_to_the_same_model_are_no_circle() -> None:
    Settings(fallbacks={"a": ["b", "c"], "b": ["d"], "c": ["d"]})


def built(models: tuple[str, ...] | None, fallbacks: dict[str, tuple[str, ...]]) -> None:
    one = UpstreamSettings(name="one", url="http://127.0.0.1:9/v1", models=models)
    build_upstreams(Settings(upstream=(one,), fallbacks=fallbacks), SystemClock())


@pytest.mark.parametrize(
    ("fallbacks", "unknown"),
    [
        ({"m": ("nn",)}, "nn"),
        ({"mm": ("n",)}, "mm"),
        ({"m": ("antiphon/eco",)}, "antiphon/eco"),
    ],
)
def test_a_chain_with_a_model_that_cannot_exist_stops_the_start(
    fallbacks: dict[str, tuple[str, ...]], unknown: str
) -> None:
    with pytest.raises(StartupError, match=f"'{unknown}', which no upstream has"):
        built(("m", "n"), fallbacks)


def test_names_that_only_a_running_upstream_knows_are_taken_as_they_are() -> None:
    built(None, {"m": ("nn",), "antiphon/script:any": ("antiphon/echo",)})
