"""What a task waits for on the way of an event: it goes on in the call that brings it, cancelled as ever."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from antiphon.upstream.http1.wakeup import Wakeup

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


async def waiting(wakeup: Wakeup, seen: list[str], times: int = 1) -> None:
    for _ in range(times):
        await wakeup
        seen.append(NAME.get())


async def from_outside(call: Callable[[], object]) -> None:
    """Make a call where no task runs, as the loop makes one for a readable socket."""
    made: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def make() -> None:
        try:
            call()
        finally:
            made.set_result(None)

    asyncio.get_running_loop().call_soon(make)
    await made


async def started(task: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that has come to its first wait."""
    begun = asyncio.create_task(task)
    await asyncio.sleep(0)
    return begun


async def test_the_task_goes_on_before_set_returns_each_time() -> None:
    wakeup, seen, lengths = Wakeup(asyncio.get_running_loop()), list[str](), list[int]()
    task = await started(waiting(wakeup, seen, times=3))

    def bring() -> None:
        wakeup.set()
        lengths.append(len(seen))

    for _ in range(3):
        await from_outside(bring)
    assert lengths == [1, 2, 3] and task.done()


async def test_it_goes_on_in_its_own_context() -> None:
    wakeup, seen = Wakeup(asyncio.get_running_loop()), list[str]()
    NAME.set("the task")
    task = await started(waiting(wakeup, seen))
    NAME.set("the caller")
    await from_outside(wakeup.set)
    await task
    assert seen == ["the task"]


async def test_from_within_a_task_it_goes_on_soon() -> None:
    """No task may run inside another one."""
    wakeup, seen = Wakeup(asyncio.get_running_loop()), list[str]()
    task = await started(waiting(wakeup, seen))
    wakeup.set()
    assert seen == []
    await asyncio.wait_for(task, 30)
    assert seen == ["nobody"]


async def test_set_for_nobody_does_nothing_and_is_not_kept() -> None:
    wakeup, seen = Wakeup(asyncio.get_running_loop()), list[str]()
    wakeup.set()
    task = await started(waiting(wakeup, seen))
    await from_outside(lambda: None)
    assert not task.done()
    wakeup.set()
    wakeup.set()
    await asyncio.wait_for(task, 30)


async def test_a_cancelled_task_is_cancelled_even_if_set_at_the_same_moment() -> None:
    for first in ("cancel", "set"):
        wakeup, seen = Wakeup(asyncio.get_running_loop()), list[str]()
        task = await started(waiting(wakeup, seen, times=2))
        acts = (task.cancel, wakeup.set) if first == "cancel" else (wakeup.set, task.cancel)
        for act in acts:
            act()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)
        await from_outside(wakeup.set)  # nobody waits any more


async def test_a_timeout_ends_the_wait_and_the_next_wait_works() -> None:
    wakeup, seen = Wakeup(asyncio.get_running_loop()), list[str]()

    again = asyncio.Event()

    async def twice() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await wakeup
        again.set()
        await waiting(wakeup, seen)

    task = asyncio.create_task(twice())
    await asyncio.wait_for(again.wait(), 30)
    await from_outside(wakeup.set)
    await asyncio.wait_for(task, 30)
    assert seen == ["nobody"]


async def test_what_the_task_raises_is_its_own() -> None:
    wakeup = Wakeup(asyncio.get_running_loop())

    async def failing() -> None:
        await wakeup
        raise ValueError("its own")

    task = await started(failing())
    await from_outside(wakeup.set)
    with pytest.raises(ValueError, match="its own"):
        await task
