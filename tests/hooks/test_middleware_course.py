"""Middlewares over the course of a run: their time, its end, and what is decided by whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import Deny, HookError
from antiphon.governance.hooks import calling
from antiphon.hooks import Middleware, Next, Reply, RunOutcome, RunRequest
from tests.hooks.hooking import around, enter, hang, hang_on, noting, outcome, passing, refusal, shouting, soon


async def test_what_follows_the_end_cannot_change_it() -> None:
    seen: list[RunOutcome] = []

    async def rewrite(request: RunRequest, next: Next) -> RunOutcome:
        await next(request)
        return outcome("failed")

    async def crash(request: RunRequest, next: Next) -> RunOutcome:
        await next(request)
        raise KeyError

    async def watch(request: RunRequest, next: Next) -> RunOutcome:
        seen.append(await next(request))
        return seen[0]

    async with around(watch, rewrite) as chain:
        (await enter(chain)).end(outcome("completed"))
        await soon(lambda: bool(seen))
    assert seen[0].status == "completed"
    async with around(crash) as chain:
        (await enter(chain)).end(outcome("completed"))


@pytest.mark.parametrize("hanging", [hang, hang_on])
async def test_one_that_hangs_costs_its_time_and_the_run(hanging: Middleware) -> None:
    async with around(passing, hanging, timeout_s=0.05) as chain:
        error = await refusal(chain)
    assert (type(error), error.code, error.status) == (HookError, "middleware_timeout", 503)
    assert error.retryable


async def test_the_chain_has_a_limit_of_its_own() -> None:
    async def dawdle(request: RunRequest, next: Next) -> RunOutcome:
        await asyncio.sleep(0.1)
        return await next(request)

    async with around(dawdle, dawdle, dawdle, timeout_s=60, chain_s=0.15) as chain:
        assert (await refusal(chain)).code == "middleware_timeout"


async def test_the_run_itself_takes_no_time_of_its_middlewares() -> None:
    notes: list[str] = []
    async with around(noting(notes, "outer"), timeout_s=0.05, chain_s=0.05) as chain:
        passage = await enter(chain)
        await asyncio.sleep(0.2)  # the run
        passage.end(outcome())
        await soon(lambda: len(notes) == 2)
    assert notes[1] == "outer completed"


async def test_one_that_hangs_after_the_run_is_cut_off() -> None:
    cut: list[str] = []

    async def linger(request: RunRequest, next: Next) -> RunOutcome:
        ended = await next(request)
        try:
            await hang()
        except asyncio.CancelledError:
            cut.append("cut")
            raise
        return ended

    async with around(linger, timeout_s=0.05) as chain:
        (await enter(chain)).end(outcome())
        await soon(lambda: bool(cut))


async def test_a_middleware_that_comes_too_late_calls_nothing_any_more() -> None:
    reached: list[str] = []
    late: list[str] = []

    async def stubborn(request: RunRequest, next: Next) -> RunOutcome:
        try:
            await hang()
        except asyncio.CancelledError:
            late.append("late")
        return await next(request)

    async def inner(request: RunRequest, next: Next) -> RunOutcome:
        reached.append("inner")
        return await next(request)

    async with around(stubborn, inner, timeout_s=0.05) as chain:
        assert (await refusal(chain)).code == "middleware_timeout"
        await soon(lambda: bool(late))
    assert reached == []


async def test_of_middlewares_that_never_end_only_so_many_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "_LEFT_BEHIND", 2)
    monkeypatch.setattr(calling, "_CANCEL_S", 0.01)
    begun = 0

    async def deaf(request: RunRequest, next: Next) -> RunOutcome:
        nonlocal begun
        begun += 1
        return await hang_on()  # type: ignore[no-any-return]

    async with around(deaf, timeout_s=0.01) as chain:
        calls = chain._dispatcher.calls
        for _ in range(5):
            assert (await refusal(chain)).code == "middleware_timeout"
            await soon(lambda: calls._left_behind["middlewares"] == begun)
        assert begun == 2 and len(calls._tasks) == 2


async def test_a_create_that_is_cancelled_takes_its_middlewares_along() -> None:
    began, cut = asyncio.Event(), asyncio.Event()

    async def wait(request: RunRequest, next: Next) -> RunOutcome:
        began.set()
        try:
            return await hang()  # type: ignore[no-any-return]
        finally:
            cut.set()

    async with around(wait) as chain:
        create = asyncio.create_task(enter(chain))
        await began.wait()
        create.cancel()
        with pytest.raises(asyncio.CancelledError):
            await create
        await soon(cut.is_set)


async def test_a_run_that_goes_on_elsewhere_cancels_them() -> None:
    cut = asyncio.Event()

    async def wait(request: RunRequest, next: Next) -> RunOutcome:
        try:
            return await next(request)
        finally:
            cut.set()

    async with around(wait) as chain:
        passage = await enter(chain)
        passage.abandon()
        await soon(cut.is_set)
        passage.end(outcome())


async def test_a_middleware_that_cancels_itself_is_a_failure() -> None:
    async def cancel(request: RunRequest, next: Next) -> RunOutcome:
        raise asyncio.CancelledError

    async with around(cancel) as chain:
        assert (await refusal(chain)).code == "server_error"


# Every chain of every kind


async def denying(request: RunRequest, next: Next) -> RunOutcome:
    raise Deny


async def crashing(request: RunRequest, next: Next) -> RunOutcome:
    raise KeyError


async def replying(request: RunRequest, next: Next) -> Reply:
    return Reply(text="42")


async def giving_nothing(request: RunRequest, next: Next) -> Any:
    return None


async def swallowing(request: RunRequest, next: Next) -> RunOutcome | Reply:
    """Goes on, and makes the best of whatever comes back."""
    try:
        return await next(request)
    except Exception:
        return Reply(text="All is well.")


async def forgetting(request: RunRequest, next: Next) -> Any:
    """Goes on and gives nothing back: too late to matter, and no reason to run twice."""
    await next(request)


KINDS: dict[Middleware, str] = {
    passing: "on",
    shouting: "on",
    swallowing: "on",
    forgetting: "on",
    denying: "denied",
    crashing: "server_error",
    giving_nothing: "server_error",
    replying: "reply",
}
"""Middleware to what it decides by itself."""


@given(st.lists(st.sampled_from(list(KINDS)), max_size=3))
async def test_the_first_decision_of_a_chain_is_the_one_whatever_stands_around_it(chain: list[Middleware]) -> None:
    expected = next((KINDS[one] for one in chain if KINDS[one] != "on"), "on")
    async with around(*chain) as middlewares:
        if expected in ("on", "reply"):
            passage = await enter(middlewares)
            assert ("reply" if passage.reply else "on") == expected
            assert passage.reply in (None, Reply(text="42"))
            passage.end(outcome())
        else:
            assert (await refusal(middlewares)).code == expected
