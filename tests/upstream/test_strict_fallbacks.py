"""Who may answer in a model's place: the named chain, and nobody else unless the operator says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from antiphon.clock import SystemClock
from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall, Upstream
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import BreakerSettings, RetrySettings, UpstreamSettings
from antiphon.upstream.echo import EchoUpstream
from antiphon.upstream.resilient import ResilientUpstream
from antiphon.upstream.responses import ResponsesUpstream
from antiphon.upstream.router import UpstreamRouter
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubUpstream
from tests.upstream.calling import events_of, model_call, raw_events, text_in

BUSY = stub.answering(503, {"error": {"message": "secret words of the provider"}}, retry_after="7")
BODY = {"model": "m", "input": "hello", "stream": True, "store": False}


class Place:
    """Models m, n and o on upstreams of their own, behind one router. told: who was said to have answered."""

    def __init__(self, routes: UpstreamRouter, servers: dict[str, StubUpstream]) -> None:
        self.routes = routes
        self.servers = servers
        self.told: list[tuple[str, str]] = []

    @property
    def asked(self) -> list[str]:
        return [name for name, server in self.servers.items() for _ in server.requests]

    def call(self, **body: Any) -> ModelCall:
        return replace(model_call({**BODY, **body}), on_degraded=lambda *names: self.told.append(names))

    async def answer(self, **how: Any) -> str:
        upstream, _, _ = await self.routes.resolve("m", **how)
        return text_in(await events_of(upstream, self.call()))

    async def failure(self, **how: Any) -> UpstreamError:
        upstream, _, _ = await self.routes.resolve("m", **how)
        with pytest.raises(UpstreamError) as caught:
            await raw_events(upstream, self.call())
        return caught.value


@contextlib.asynccontextmanager
async def place(
    m: Handler = BUSY,
    n: Handler = BUSY,
    o: Handler = BUSY,
    *,
    fallbacks: dict[str, Sequence[str]] | None = None,
    failures: int = 5,
    **router: Any,
) -> AsyncIterator[Place]:
    async with contextlib.AsyncExitStack() as stack:
        upstreams: list[tuple[UpstreamSettings, Upstream]] = []
        servers: dict[str, StubUpstream] = {}
        clock, retry = SystemClock(), RetrySettings(max_attempts=1)
        breaker = BreakerSettings(failures=failures)
        for name, handler in (("m", m), ("n", n), ("o", o)):
            servers[name] = await stack.enter_async_context(StubUpstream(handler))
            one = UpstreamSettings(name=f"of-{name}", url=servers[name].url, models=(name,))
            http = ResponsesUpstream(one, TimeoutSettings(), 1 << 20)
            upstreams.append((one, ResilientUpstream(http, retry, breaker, clock)))
        builtins: dict[str, Upstream] = {EchoUpstream.name: EchoUpstream(clock)}
        routes = UpstreamRouter(upstreams, builtins, clock, fallbacks, **router)
        stack.push_async_callback(routes.aclose)
        yield Place(routes, servers)


async def test_without_a_chain_a_failure_is_strict_and_has_no_words_of_the_provider() -> None:
    async with place() as it:
        error = await it.failure()
    assert (error.code, error.status, error.headers) == ("upstream_unavailable", 503, {"retry-after": "7"})
    assert error.message == "strict_fallbacks: upstream: Upstream 'of-m' answered 503."


async def test_an_open_breaker_is_named_as_the_step() -> None:
    async with place(failures=1) as it:
        await it.failure()
        error = await it.failure()
        assert it.asked == ["m"]
    assert (error.code, error.status) == ("upstream_unavailable", 503)
    assert error.message.startswith("strict_fallbacks: breaker: Upstream 'of-m' failed several times")


async def test_a_chain_that_failed_too_is_named_as_the_step() -> None:
    async with place(fallbacks={"m": ("n", "o")}) as it:
        error = await it.failure()
        assert (it.asked, it.told) == (["m", "n", "o"], [])
    assert error.status == 503
    assert error.message == (
        "strict_fallbacks: chain: Upstream 'of-m' answered 503. "
        "Other models were tried and failed too: n (upstream_unavailable), o (upstream_unavailable)."
    )


async def test_the_chain_of_a_run_counts_instead_of_the_configured_one_and_is_told() -> None:
    async with place(o=stub.text(), fallbacks={"m": ("n",)}) as it:
        assert it.routes.chain("m", fallbacks=("o",)) == ["m", "o"]
        assert await it.answer(fallbacks=("o",)) == "w0 w1 w2 "
        assert (it.asked, it.told) == (["m", "o"], [("m", "o")])


async def test_strict_is_the_default_and_leaves_the_default_model_out() -> None:
    async with place(o=stub.text(), default_model="o") as it:
        assert it.routes.chain("m") == ["m"]
        assert (await it.failure()).code == "upstream_unavailable"
        assert it.asked == ["m"]


@pytest.mark.parametrize("how", [{"strict": False}, {"fallbacks": ("n",), "strict": False}])
async def test_a_run_that_is_not_strict_falls_back_to_the_default_model_last_and_says_so(how: Any) -> None:
    async with place(o=stub.text(), default_model="o") as it:
        assert it.routes.chain("m", **how)[-1] == "o"
        assert await it.answer(**how) == "w0 w1 w2 "
        assert it.told == [("m", "o")]


async def test_the_servers_setting_holds_where_the_run_says_nothing() -> None:
    async with place(o=stub.text(), default_model="o", strict=False) as it:
        assert await it.answer() == "w0 w1 w2 "
        assert (await it.failure(strict=True)).message.startswith("strict_fallbacks: upstream:")


async def test_a_default_model_that_the_caller_may_not_use_answers_nobody() -> None:
    async with place(o=stub.text(), default_model="o", strict=False) as it:
        assert it.routes.chain("m", allowed=lambda model: model != "o") == ["m"]
        await it.failure(allowed=lambda model: model != "o")
        assert it.asked == ["m"]


async def test_an_echo_answers_only_when_it_is_named() -> None:
    async with place(default_model="antiphon/echo", strict=False) as it:
        error = await it.failure()
        assert (error.code, it.told) == ("upstream_unavailable", [])
        assert it.routes.chain("m") == ["m"]
        upstream, name, settings = await it.routes.resolve("antiphon/echo")
        assert (name, settings) == ("antiphon/echo", None)
        assert text_in(await events_of(upstream, it.call())) == "hello"


async def test_a_failure_without_strictness_says_what_the_upstream_said() -> None:
    async with place(strict=False) as it:
        assert (await it.failure()).message == "Upstream 'of-m' answered 503: secret words of the provider"


async def test_once_another_model_must_not_answer_the_failure_is_strict_as_well() -> None:
    async with place(fallbacks={"m": ("n",)}) as it:
        upstream, _, _ = await it.routes.resolve("m")
        with pytest.raises(UpstreamError, match=r"^strict_fallbacks: upstream: Upstream 'of-m' answered 503\.$"):
            await raw_events(upstream, model_call(BODY))
        assert it.asked == ["m"]


async def test_a_refusal_that_the_caller_can_mend_keeps_the_words_of_the_provider() -> None:
    async with place(stub.answering(400, {"error": {"message": "Too long.", "code": "own_code"}})) as it:
        error = await it.failure()
    assert (error.status, error.code, error.message) == (
        400,
        "own_code",
        "Upstream 'of-m' answered 400: Too long.",
    )


async def test_the_upstream_that_answers_gives_its_name() -> None:
    async with place(n=stub.text(), fallbacks={"m": ("n",)}) as it:
        upstream, _, _ = await it.routes.resolve("m")
        assert upstream.name == "of-m"
        await raw_events(upstream, it.call())
        assert upstream.name == "of-n"


async def test_hints_of_one_call_reach_no_other_call_of_the_same_client() -> None:
    async with place(stub.text()) as it:
        hints: list[dict[str, Any]] = [
            {"reasoning": {"effort": "high"}},
            {"tools": [{"type": "web_search"}], "tool_choice": "required"},
            {"temperature": 0.1, "prompt_cache_key": "mine"},
            {},
        ]
        upstreams = [(await it.routes.resolve("m"))[0] for _ in hints]
        calls = [it.call(input=str(n), **given) for n, given in enumerate(hints)]
        await asyncio.gather(*(raw_events(*pair) for pair in zip(upstreams, calls, strict=True)))
        bodies = {request.body["input"]: request.body for request in it.servers["m"].requests}
    assert bodies == {str(n): {**BODY, "input": str(n), **given} for n, given in enumerate(hints)}
