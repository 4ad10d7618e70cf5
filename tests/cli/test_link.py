"""The socket of the terminal comes back where that is right, and says why where it is not."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from websockets.asyncio.server import ServerConnection, serve

from antiphon.cli.client.endpoint import Endpoint
from antiphon.cli.client.link import Happening, Link, Lost, Opened
from antiphon.errors import ClientError

WELCOME = {"type": "antiphon:welcome", "id": "hello", "connection_id": "conn_1"}
GOAWAY = {"type": "antiphon:goaway", "reason": "draining", "deadline_ms": 1000, "spread_ms": 4000}
Says = Callable[[ServerConnection], Awaitable[None]]


@contextlib.asynccontextmanager
async def link_to(says: Says) -> AsyncIterator[tuple[Link, list[float]]]:
    """A link to a server that says this on each connection, and the waits it took before it came back."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with serve(says, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        endpoint = Endpoint.read(f"http://127.0.0.1:{port}")
        yield Link(endpoint, name="test", key=None, chance=lambda: 0.5, sleep=sleep), waits


async def happened(link: Link, count: int) -> list[Happening]:
    found: list[Happening] = []
    async with asyncio.timeout(30), contextlib.aclosing(link.happenings()) as happenings:
        async for happening in happenings:
            found.append(happening)
            if len(found) == count:
                break
    return found


async def say(socket: ServerConnection, *frames: dict[str, object]) -> None:
    await socket.recv()
    for frame in frames:
        await socket.send(json.dumps(frame))


async def test_a_server_of_another_version_is_told_apart_in_words() -> None:
    async def other(socket: ServerConnection) -> None:
        words = "This server speaks version 7 of the extension."
        error = {"type": "antiphon:error", "id": "hello", "code": "unsupported_version", "message": words}
        await say(socket, error)
        await socket.close(4505)

    async with link_to(other) as (link, waits):
        with pytest.raises(ClientError, match=r"version 7 .* Install the antiphon of the server's version"):
            await happened(link, 1)
    assert waits == []


async def test_a_server_that_drains_is_come_back_to_within_the_time_it_asks_for() -> None:
    async def drains(socket: ServerConnection) -> None:
        await say(socket, WELCOME, GOAWAY)
        await socket.close(4000, "draining")

    async with link_to(drains) as (link, waits):
        first = await happened(link, 4)
    assert first == [
        Opened("conn_1", again=False),
        GOAWAY,
        Lost("the server is restarting", 2.25),
        Opened("conn_1", True),
    ]
    assert waits == [2.25], "half of the spread, and half of the first wait"


async def test_a_key_that_was_revoked_ends_it_and_a_connection_that_breaks_does_not() -> None:
    async def revokes(socket: ServerConnection) -> None:
        await say(socket, WELCOME)
        await socket.close(4500, "revoked")

    async with link_to(revokes) as (link, _):
        with pytest.raises(ClientError, match="not good any more"):
            await happened(link, 3)

    async def breaks(socket: ServerConnection) -> None:
        await say(socket, WELCOME)
        socket.transport.abort()

    async with link_to(breaks) as (link, waits):
        found = await happened(link, 5)
    assert [type(one) for one in found] == [Opened, Lost, Opened, Lost, Opened]
    assert waits == [0.25, 0.25], "a connection that stood begins the waits anew"
