"""The peers that only send: the frames of our server, to one client and to all that watch."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from processes import CorePlan
from servers import Antiphon, Echo, RunningServer, Sender
from side_by_side import running_mock
from websockets.asyncio.client import ClientConnection, connect

WITHIN_S = 60.0
NOT_PINNED = CorePlan(None, None, None)
COMPILER = shutil.which("cc")
PYTHON = Path(sys.executable)


@pytest.fixture(params=["echo", "c-sender"])
async def peer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningServer]:
    if request.param == "c-sender" and COMPILER is None:
        pytest.skip("there is no C compiler")
    server = Echo(PYTHON) if request.param == "echo" else Sender(Path(COMPILER or ""))
    (home := tmp_path / "peer").mkdir()
    started = server.start("http://127.0.0.1:1", home, None)
    yield started
    started.process.stop()


def create(deltas: int, rate: float = 0) -> str:
    """What the load client sends."""
    directive = f"[[mock deltas={deltas} rate={rate:g} stamps={int(rate > 0)} per_chunk=25]]"
    item = {"type": "message", "role": "user", "content": directive}
    return json.dumps({"type": "response.create", "model": "mock-model", "store": False, "input": [item]})


async def read_turn(socket: ClientConnection) -> list[str]:
    """The frames of one turn."""
    frames: list[str] = []
    while not frames or '"response.completed"' not in frames[-1]:
        frames.append(str(await asyncio.wait_for(socket.recv(), WITHIN_S)))
    return frames


async def turn_of(url: str, deltas: int) -> list[str]:
    async with connect(url) as socket:
        await socket.send(create(deltas))
        return await read_turn(socket)


async def test_a_turn_is_as_many_frames_of_the_same_size_as_ours(peer: RunningServer, tmp_path: Path) -> None:
    with running_mock(tmp_path, NOT_PINNED) as (_, upstream_url):
        (home := tmp_path / "ours").mkdir()
        ours = Antiphon(PYTHON.parent / "antiphon").start(upstream_url, home, None)
        try:
            expected = [json.loads(frame) for frame in await turn_of(ours.websocket_url, 30)]
        finally:
            ours.process.stop()
    found = [json.loads(frame) for frame in await turn_of(peer.websocket_url, 30)]
    assert [(event["type"], event["sequence_number"]) for event in found] == [
        (event["type"], event["sequence_number"]) for event in expected
    ]
    assert found[-1]["response"]["output"][0]["content"] == expected[-1]["response"]["output"][0]["content"]
    sizes = [sum(len(json.dumps(event)) for event in events) for events in (found, expected)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)


async def test_turns_follow_one_another_on_a_socket(peer: RunningServer) -> None:
    async with connect(peer.websocket_url) as socket:
        for deltas in (1, 200, 1):
            await socket.send(create(deltas))
            frames = await read_turn(socket)
            assert sum('"response.output_text.delta"' in frame for frame in frames) == deltas


async def test_a_paced_turn_is_shown_alike_to_its_creator_and_to_all_who_attached(peer: RunningServer) -> None:
    async with AsyncExitStack() as stack:
        creator, *viewers = [await stack.enter_async_context(connect(peer.websocket_url)) for _ in range(4)]
        for viewer in viewers:
            await viewer.send(json.dumps({"type": "antiphon:hello", "id": "hello", "protocol": 1}))
            await viewer.send(json.dumps({"type": "antiphon:attach", "id": "wish", "response_id": "resp_1"}))
            kinds = [json.loads(await asyncio.wait_for(viewer.recv(), WITHIN_S))["type"] for _ in range(2)]
            assert kinds == ["antiphon:welcome", "antiphon:attached"]
        await creator.send(create(deltas=8, rate=100))
        created, *shown = [await read_turn(socket) for socket in (creator, *viewers)]
        assert [frames for frames in shown if frames != created[4:]] == []
        stamps = [int(json.loads(frame)["delta"]) for frame in created[4:12]]
        assert stamps == sorted(stamps) and len(set(stamps)) == 8
