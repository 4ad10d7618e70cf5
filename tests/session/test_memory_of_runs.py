"""What a run held is given back when it is over, without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from antiphon.core.assembly.assembler import Assembler
from antiphon.journal.log import RunLog
from antiphon.runs.run import Run
from tests.session.play import until
from tests.support.http_client import read_sse
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

TURNS = 5


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> list[str]:
    return [type(one).__name__ for one in gc.get_objects() if type(one) in (Run, RunLog, Assembler)]


async def by_socket(server: RunningServer, store: bool) -> None:
    async with ws_client(server.ws_url) as client:
        for _ in range(TURNS):
            await client.run("antiphon/echo", input="hello", store=store)


async def by_stream(server: RunningServer, store: bool) -> None:
    for _ in range(TURNS):
        body = {"model": "antiphon/echo", "input": "hello", "store": store, "stream": True}
        await read_sse("POST", f"{server.url}/v1/responses", json=body)


@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
@pytest.mark.parametrize("turns", [by_socket, by_stream])
async def test_ended_runs_leave_nothing_for_the_collector(turns, store, without_collector) -> None:  # type: ignore[no-untyped-def]
    async with running_server(store={"grace_s": 0}) as server:
        await turns(server, store)
        # The last tasks of the last run may still have to end.
        await until(lambda: alive() == [], "every run is freed", wait_s=40)
