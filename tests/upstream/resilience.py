"""A resilient upstream before a stub: what tests of retries and of the breaker share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import orjson
import pytest

from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall, Upstream
from antiphon.settings.upstream import BreakerSettings, RetrySettings
from antiphon.upstream.resilient import ResilientUpstream
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubConn, StubRequest, StubUpstream
from tests.upstream.calling import (
    FastClock,
    raw_events,
    responses_upstream,
)

EVENTS = stub.events_of_text(["a ", "b ", "c "])
CREATED, IN_PROGRESS = EVENTS[:2]
RATE_LIMIT = {"error": {"message": "Too many.", "code": "rate_limit_exceeded"}}


class Watched:
    """A resilient upstream before a stub, with time that passes only by waiting for retries."""

    def __init__(self, upstream: ResilientUpstream, server: StubUpstream, clock: FastClock) -> None:
        self.upstream = upstream
        self.server = server
        self.clock = clock

    @property
    def asked(self) -> int:
        """How often the stub was asked."""
        return len(self.server.requests)

    async def failure(self) -> UpstreamError:
        with pytest.raises(UpstreamError) as caught:
            await raw_events(self.upstream)
        return caught.value

    async def fails(self, times: int) -> None:
        for _ in range(times):
            await self.failure()


@contextlib.asynccontextmanager
async def watched(
    *handlers: Handler,
    attempts: int = 3,
    limit: int = 5,
    chance: float = 0.5,
    sleep: Callable[[float], Awaitable[None]] | None = None,
    **settings: Any,
) -> AsyncIterator[Watched]:
    clock = FastClock()
    async with (
        StubUpstream(stub.in_turn(*handlers)) as server,
        responses_upstream(server.url, **settings) as inner,
    ):
        upstream = ResilientUpstream(
            inner,
            RetrySettings(max_attempts=attempts),
            BreakerSettings(failures=limit),
            clock,
            sleep=sleep or clock.sleep,
            chance=lambda: chance,
        )
        yield Watched(upstream, server, clock)


class Kept:
    """An upstream that holds on to its streams, so that nobody but who reads them closes them.

    closed: streams that were. still_open: at the beginning of each, how many others were not.
    """

    name = "kept"
    tools: tuple[str, ...] = ()

    def __init__(self, batches: Sequence[Sequence[bytes]]) -> None:
        self.closed = 0
        self.still_open: list[int] = []
        self._batches = batches
        self._streams: list[AsyncIterator[Sequence[bytes]]] = []

    def stream(self, call: ModelCall) -> AsyncIterator[Sequence[bytes]]:
        self.still_open.append(len(self._streams) - self.closed)
        self._streams.append(self._run())
        return self._streams[-1]

    async def _run(self) -> AsyncIterator[Sequence[bytes]]:
        try:
            for batch in self._batches:
                yield batch
        finally:
            self.closed += 1

    async def models(self) -> Sequence[str]:
        return []

    async def aclose(self) -> None:
        return None


def resilient(upstream: Upstream) -> ResilientUpstream:
    clock = FastClock()
    return ResilientUpstream(upstream, RetrySettings(), BreakerSettings(), clock, sleep=clock.sleep)


async def no_other(model: str) -> tuple[Upstream, str]:
    raise AssertionError(f"nobody asks for {model}")


def events_with(*extra: dict[str, Any]) -> Handler:
    """An answer that says it has begun, and then only this."""
    return stub.play([CREATED, IN_PROGRESS, *map(orjson.dumps, extra)])


def failing(code: str) -> dict[str, Any]:
    return {"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": "No."}}}


async def drop(request: StubRequest, conn: StubConn) -> None:
    conn.reset()


async def begin_and_break(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    conn.sse(CREATED)
    conn.sse(IN_PROGRESS)
    await conn.flushed()
    conn.fin()


async def break_in_mid_output(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    for event in EVENTS[:6]:
        conn.sse(event)
    await conn.flushed()
    conn.fin()


async def begin_and_hold(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    conn.sse(CREATED)
    await conn.held()


async def output_and_hold(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    for event in EVENTS[:5]:
        conn.sse(event)
    await conn.held()


FINAL: dict[str, tuple[Handler, int, str]] = {
    "400": (stub.answering(400, {"error": {"message": "m", "code": "bad"}}), 400, "bad"),
    "404": (stub.answering(404, {"error": {"message": "m"}}), 404, "upstream_error"),
    "401": (stub.answering(401, {"error": {"message": "m"}}), 502, "upstream_error"),
    "quota": (
        stub.answering(429, {"error": {"message": "m", "code": "insufficient_quota"}}),
        429,
        "insufficient_quota",
    ),
    "prompt refused": (events_with(failing("context_length_exceeded")), 502, "context_length_exceeded"),
    "no code": (events_with({"type": "error", "message": "m"}), 502, "upstream_error"),
    "refused inside": (
        events_with({"type": "error", "error": {"type": "invalid_request_error"}}),
        400,
        "upstream_error",
    ),
}
