"""The test client files frames by lane and reply, and none of its waits is without end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.support.ws_client import Refused, SocketEnded, WsClient, ws_client

Handler = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[WsClient]:
    async with serve(handler, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with ws_client(f"ws://127.0.0.1:{port}/v1/responses") as client:
            yield client


async def say(socket: ServerConnection, *frames: dict[str, Any]) -> None:
    for frame in frames:
        await socket.send(json.dumps(frame))


def sends(*frames: dict[str, Any]) -> Handler:
    """A server that sends these and waits for the client to leave."""

    async def handler(socket: ServerConnection) -> None:
        await say(socket, *frames)
        await socket.wait_closed()

    return handler


def event(kind: str, number: int, lane: str | None = None) -> dict[str, Any]:
    named = {} if lane is None else {"stream_id": lane}
    return {"type": kind, "sequence_number": number, **named}


async def test_runs_on_two_lanes_are_collected_apart() -> None:
    frames = [
        event("response.created", 0, "a"),
        event("response.created", 0),
        event("response.completed", 1, "a"),
        event("response.completed", 1),
    ]
    async with served(sends(*frames)) as client:
        default = await client.collect_run()
        named = await client.collect_run("a")
        assert [e["type"] for e in default] == ["response.created", "response.completed"]
        assert all("stream_id" not in e for e in default)
        assert {e["stream_id"] for e in named} == {"a"}
        assert client.received == frames


async def test_the_order_of_the_socket_can_be_read_too() -> None:
    async with served(sends(event("response.created", 0, "a"), event("response.created", 0))) as client:
        assert [(await client.recv()).get("stream_id") for _ in range(2)] == ["a", None]
        with pytest.raises(AssertionError, match="did not come within"):
            await client.recv_on("a", 0.05)


async def test_the_bytes_of_a_frame_are_kept() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.send('{"type":"x",  "n": 1.0}')
        await socket.wait_closed()

    async with served(handler) as client:
        assert (await client.recv()).raw == '{"type":"x",  "n": 1.0}'


async def test_a_command_gets_the_reply_with_its_id() -> None:
    async def handler(socket: ServerConnection) -> None:
        first, second = [json.loads(await socket.recv()) for _ in range(2)]
        for command in (second, first):
            await say(socket, {"type": "antiphon:pong", "id": command["id"], "asked": command["n"]})
        await socket.wait_closed()

    async with served(handler) as client:
        replies = await asyncio.gather(
            client.command("antiphon:ping", n=1),
            client.command("antiphon:ping", n=2),
        )
        assert [reply["asked"] for reply in replies] == [1, 2]


async def test_an_error_is_raised_where_a_run_was_expected() -> None:
    error = {"type": "error", "status": 400, "error": {"type": "t", "code": "c", "message": "m", "param": None}}
    async with served(sends(error)) as client:
        with pytest.raises(Refused) as caught:
            await client.collect_run()
        assert caught.value.event == error


async def test_an_error_without_an_integer_status_is_not_accepted() -> None:
    error = {"type": "error", "status": "400", "error": {"type": "t", "code": "c", "message": "m", "param": None}}
    async with served(sends(error)) as client:
        with pytest.raises(AssertionError, match="no integer"):
            await client.recv_error()


async def test_a_run_that_does_not_end_shows_what_came() -> None:
    async with served(sends(event("response.created", 0))) as client:
        with pytest.raises(AssertionError, match=r"did not .*response\.created"):
            await client.collect_run(wait_s=0.05)


async def test_a_close_ends_every_wait_with_its_code() -> None:
    async def handler(socket: ServerConnection) -> None:
        await say(socket, event("response.created", 0))
        await socket.close(1012, "restart")

    async with served(handler) as client:
        with pytest.raises(SocketEnded) as caught:
            await client.collect_run()
        assert (caught.value.code, caught.value.reason) == (1012, "restart")
        assert await client.wait_closed() == (1012, "restart")


async def test_a_binary_frame_from_the_server_is_a_fault() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.send(b"{}")
        await socket.wait_closed()

    async with served(handler) as client:
        with pytest.raises(AssertionError, match="binary frame"):
            await client.recv()


async def test_waiting_for_a_close_that_does_not_come_is_bounded() -> None:
    async with served(sends()) as client:
        with pytest.raises(AssertionError, match="still open after"):
            await client.wait_closed(0.05)


async def test_an_aborted_client_is_seen_without_a_close_frame() -> None:
    seen: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    async def handler(socket: ServerConnection) -> None:
        await socket.wait_closed()
        seen.set_result(socket.close_code)

    async with served(handler) as client:
        await client.abort()
        assert await asyncio.wait_for(seen, 5) == 1006


async def test_a_client_that_stops_reading_blocks_the_sender() -> None:
    blocked = asyncio.Event()
    total = 400

    async def handler(socket: ServerConnection) -> None:
        await socket.recv()
        for number in range(total):
            try:
                async with asyncio.timeout(0.2):
                    await socket.send(json.dumps({"type": "x", "n": number, "pad": "." * 100_000}))
            except TimeoutError:
                blocked.set()
        await socket.wait_closed()

    async with served(handler) as client:
        client.stop_reading()
        await client.send({"type": "go"})
        await asyncio.wait_for(blocked.wait(), 10)
        assert len(client.received) < total
        client.resume_reading()
        await client.recv()
