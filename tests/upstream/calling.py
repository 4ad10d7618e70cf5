"""Short ways to call an upstream in tests. Every wait is bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import orjson

from antiphon.ports import ModelCall, Upstream
from antiphon.settings.limits import TimeoutSettings
from antiphon.settings.upstream import UpstreamSettings
from antiphon.upstream.chat.upstream import ChatUpstream
from antiphon.upstream.responses import ResponsesUpstream

MIB = 1024 * 1024
_Kind = TypeVar("_Kind", ResponsesUpstream, ChatUpstream)
WAIT_S = 40


class SystemClock:
    """Time as it is."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class FastClock:
    """Time that passes only by sleeping, and then at once. slept: how long each sleep would have been."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, delay_s: float) -> None:
        self.slept.append(delay_s)
        self.at += delay_s
        await asyncio.sleep(0)


def model_call(body: dict[str, Any] | None = None, *, token: str | None = None, model: str = "m") -> ModelCall:
    given = {"model": model, "input": "hello", "stream": True, "store": False} if body is None else body
    return ModelCall(run_id="resp_1", model=model, body=orjson.dumps(given), caller_token=token)


@asynccontextmanager
async def responses_upstream(url: str, **options: Any) -> AsyncIterator[ResponsesUpstream]:
    """See `_calling`."""
    async with _calling(ResponsesUpstream, url, **options) as upstream:
        yield upstream


@asynccontextmanager
async def chat_upstream(url: str, **options: Any) -> AsyncIterator[ChatUpstream]:
    """See `_calling`."""
    async with _calling(ChatUpstream, url, **options) as upstream:
        yield upstream


@asynccontextmanager
async def _calling(
    kind: type[_Kind],
    url: str,
    *,
    connect_s: float = 5,
    idle_s: float = 5,
    max_event_bytes: int = MIB,
    transport: Any = None,
    **settings: Any,
) -> AsyncIterator[_Kind]:
    """An upstream at `url`, closed at the end. settings: fields of UpstreamSettings."""
    upstream = kind(
        UpstreamSettings(name="local", url=url, **settings),
        TimeoutSettings(upstream_connect_s=connect_s, upstream_idle_s=idle_s),
        max_event_bytes,
        transport,
    )
    try:
        yield upstream
    finally:
        await upstream.aclose()


def opened(upstream: Upstream, call: ModelCall) -> AsyncGenerator[Sequence[bytes], None]:
    """The running call, to be closed by the test."""
    return cast("AsyncGenerator[Sequence[bytes], None]", upstream.stream(call))


async def raw_events(upstream: Upstream, call: ModelCall | None = None) -> list[bytes]:
    """Every event of a call."""
    async with asyncio.timeout(WAIT_S):
        return [event async for batch in upstream.stream(call or model_call()) for event in batch]


async def events_of(upstream: Upstream, call: ModelCall | None = None) -> list[dict[str, Any]]:
    """Every event of a call, parsed."""
    return [orjson.loads(event) for event in await raw_events(upstream, call)]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def text_in(events: list[dict[str, Any]]) -> str:
    """All text deltas joined."""
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
