"""Who is attached to a conversation hears of its runs as they begin, on whatever node."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from antiphon.bus.memory import MemoryBus, MemoryHub
from antiphon.clock import SystemClock
from antiphon.journal.contract import Journal
from antiphon.runs.elsewhere.conversations import ConversationNews
from antiphon.runs.run import Run
from tests.http.calling import until


class Announcing:
    """A journal whose runs can be found at once."""

    def __init__(self, bus: MemoryBus) -> None:
        self._bus = bus
        self._tasks: list[asyncio.Task[None]] = []

    def announce(self, run_log: Any, channel: str, payload: bytes) -> None:
        self._tasks.append(asyncio.create_task(self._bus.publish(channel, payload)))


def run(run_id: str, conversation_id: str) -> Run:
    return cast(Run, SimpleNamespace(id=run_id, log=None, state=SimpleNamespace(conversation_id=conversation_id)))


@pytest.fixture
async def news() -> list[ConversationNews]:
    hub, clock = MemoryHub(), SystemClock()
    buses = [MemoryBus(hub, node, clock, lease_s=5.0) for node in ("a", "b")]
    for bus in buses:
        hub.buses[bus.node] = bus
    return [ConversationNews(cast(Journal, Announcing(bus)), bus, cast(Any, None)) for bus in buses]


async def test_each_run_is_told_once_on_its_own_node_and_on_the_others(news: list[ConversationNews]) -> None:
    here, there = news
    heard_here: list[str] = []
    heard_there: list[str] = []
    await here.listen("conv_1", heard_here.append)
    await there.listen("conv_1", heard_there.append)
    here.began(run("resp_1", "conv_1"))
    assert heard_here == ["resp_1"]
    await until(lambda: heard_there == ["resp_1"])
    there.began(run("resp_2", "conv_1"))
    there.began(run("resp_3", "conv_2"))
    await until(lambda: "resp_2" in heard_here)
    assert heard_there == ["resp_1", "resp_2"] and heard_here == ["resp_1", "resp_2"]


async def test_one_listener_that_crashes_costs_the_others_nothing(news: list[ConversationNews]) -> None:
    heard: list[str] = []

    def crash(run_id: str) -> None:
        raise RuntimeError(run_id)

    await news[0].listen("conv_1", crash)
    await news[0].listen("conv_1", heard.append)
    news[0].began(run("resp_1", "conv_1"))
    assert heard == ["resp_1"]


async def test_who_listens_no_more_hears_nothing(news: list[ConversationNews]) -> None:
    heard: list[str] = []
    for one in news:
        await one.listen("conv_1", heard.append)
        one.unlisten("conv_1", heard.append)
    news[0].began(run("resp_1", "conv_1"))
    still: list[str] = []
    await news[1].listen("conv_1", still.append)
    news[0].began(run("resp_2", "conv_1"))
    await until(lambda: "resp_2" in still)
    assert heard == []
