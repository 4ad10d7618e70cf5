"""Short ways to put extensions together in tests. Every wait is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError
from antiphon.governance.hooks.dispatch import Dispatcher
from antiphon.governance.hooks.passage import Passage
from antiphon.governance.middleware import Middlewares
from antiphon.hooks import Middleware, Next, RunOutcome, RunRequest, RunStarted
from antiphon.settings.hooks import HooksSettings

WAIT_S = 20.0
"""Longer than any machine takes: a test that needs it has failed."""

HANGS_S = 3600.0

ANN = Principal("user:ann", "acme", "driver")

Call = Callable[..., Awaitable[Any]]


class Uncaught(BaseException):
    """What no handler of exceptions catches, as the timeouts of some libraries are."""


def asked(text: str = "hello", **fields: Any) -> RunRequest:
    given: dict[str, Any] = {
        "run_id": "resp_1",
        "principal": ANN,
        "origin": "http",
        "conversation": None,
        "previous_response_id": None,
        "agent": None,
        "model": "antiphon/echo",
        "input": [{"type": "message", "role": "user", "content": text}],
    }
    return RunRequest(**{**given, **fields})


def outcome(status: str = "completed") -> RunOutcome:
    return RunOutcome("resp_1", status, None, "default", "system", "antiphon/echo", "echo", None)


def started(run_id: str = "resp_1") -> RunStarted:
    return RunStarted(run_id, "acme", "user:ann", "default", "system", "antiphon/echo", "conv_1", "http", 1.0)


@asynccontextmanager
async def dispatching(**settings: Any) -> AsyncGenerator[Dispatcher]:
    """A dispatcher that is drained at the end."""
    dispatcher = Dispatcher(HooksSettings(**{"drain_s": 0.0, **settings}))
    try:
        yield dispatcher
    finally:
        async with asyncio.timeout(WAIT_S):
            await dispatcher.aclose()


@asynccontextmanager
async def around(
    *middlewares: Middleware, timeout_s: float = WAIT_S, chain_s: float = WAIT_S
) -> AsyncGenerator[Middlewares]:
    """A chain of middlewares, the outermost first; they are named `first`, `second`, `third`."""
    async with dispatching() as dispatcher:
        for name, middleware in zip(("first", "second", "third"), middlewares, strict=False):
            dispatcher.subscribe("agent.run", middleware, name=name, timeout_s=timeout_s)
        yield Middlewares(dispatcher, chain_s)


async def enter(chain: Middlewares, request: RunRequest | None = None) -> Passage:
    async with asyncio.timeout(WAIT_S):
        return await chain.enter(request or asked())


async def refusal(chain: Middlewares, request: RunRequest | None = None) -> AntiphonError:
    """The error with which a request is refused."""
    try:
        passage = await enter(chain, request)
    except AntiphonError as error:
        return error
    passage.abandon()
    raise AssertionError("it was let through")


async def soon(condition: Callable[[], bool]) -> None:
    """Wait until tasks of this loop have done something."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 (what is waited for are turns of the loop)
            await asyncio.sleep(0)


async def hang(*_: Any) -> Any:
    await asyncio.sleep(HANGS_S)


async def hang_on(*_: Any) -> Any:
    """Does not hear its first cancellation."""
    try:
        await asyncio.sleep(HANGS_S)
    except asyncio.CancelledError:
        await asyncio.sleep(HANGS_S)


async def passing(request: RunRequest, next: Next) -> RunOutcome:
    return await next(request)


async def shouting(request: RunRequest, next: Next) -> RunOutcome:
    return await next(request.with_texts(str.upper))


def noting(notes: list[str], name: str) -> Middleware:
    async def note(request: RunRequest, next: Next) -> RunOutcome:
        notes.append(f"{name} before")
        try:
            ended = await next(request)
        except AntiphonError as error:
            notes.append(f"{name} {error.code}")
            raise
        notes.append(f"{name} {ended.status}")
        return ended

    return note
