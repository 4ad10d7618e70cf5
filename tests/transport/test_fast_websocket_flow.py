"""The contract with uvicorn's protocol class, on real sockets: back-pressure, pings, lost peers, shutdown."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect

from antiphon.journal.frames import text_frame
from tests.support.relay import BOTH, DOWN, UP, Relay
from tests.transport.endpoint import WAIT_S, close_of, endpoint, fill, opened


@pytest.mark.parametrize("outbox_bytes", [16_384, 262_144])
async def test_a_full_socket_says_so_and_says_when_there_is_room(outbox_bytes: int) -> None:
    async with endpoint(outbox_bytes) as server, opened(server.port, max_queue=1) as client:
        protocol = await server.socket()
        room = asyncio.Event()
        protocol.on_writable = room.set
        for _ in range(3):
            room.clear()
            count = fill(protocol)
            assert protocol.unsent > outbox_bytes
            assert not room.is_set()
            for n in range(count):
                assert str(await asyncio.wait_for(client.recv(), WAIT_S)).startswith(f"{n:06d}")
            await asyncio.wait_for(room.wait(), WAIT_S)
            assert not protocol.full
            assert protocol.unsent <= outbox_bytes // 4


async def test_a_socket_that_takes_nothing_is_stalled_and_one_that_takes_a_little_is_not() -> None:
    async with endpoint(stalled_s=0.4) as server, Relay("127.0.0.1", server.port) as relay:
        async with opened(relay.port, max_queue=1) as client:
            protocol = await server.socket()
            stalled = asyncio.Event()
            protocol.on_stalled = stalled.set
            fill(protocol)
            for _ in range(8):
                for _ in range(100):
                    await asyncio.wait_for(client.recv(), WAIT_S)
                assert not stalled.is_set()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stalled.wait(), 0.15)
                if not protocol.full:
                    fill(protocol)
            relay.blackhole()
            fill(protocol)
            await asyncio.wait_for(stalled.wait(), 5)
            protocol.close(1013, "too slow")
            assert (await server.message())["code"] == 1013
            relay.restore()


async def test_frames_written_into_a_full_socket_do_not_look_like_progress_or_hide_it() -> None:
    async with endpoint(stalled_s=0.5) as server, opened(server.port, max_queue=1) as client:
        protocol = await server.socket()
        stalled = asyncio.Event()
        protocol.on_stalled = stalled.set
        left = fill(protocol)

        async def read_slowly() -> None:
            for _ in range(left):
                await client.recv()
                protocol.write_frames(text_frame(b"y" * 20_000))

        reading = asyncio.create_task(read_slowly())
        await asyncio.wait_for(reading, WAIT_S)
        assert not stalled.is_set(), "the client took bytes all the time"
        await asyncio.wait_for(stalled.wait(), 5)


async def test_the_server_pings_and_keeps_a_client_that_answers() -> None:
    async with endpoint(ping_s=0.1) as server, opened(server.port) as client:
        protocol = await server.socket()
        rounds = 0
        while rounds < 5:
            before = protocol.ping_sent_at
            async with asyncio.timeout(WAIT_S):
                while protocol.ping_sent_at == before:
                    await asyncio.wait_for(await client.ping(), WAIT_S)
            rounds += 1
        assert protocol.open


@pytest.mark.parametrize("full", [False, True])
async def test_a_client_that_answers_no_ping_is_gone_after_the_timeout_even_if_bytes_are_unsent(
    full: bool,
) -> None:
    async with endpoint(ping_s=0.3) as server, Relay("127.0.0.1", server.port) as relay:
        async with opened(relay.port, max_queue=1) as client:
            protocol = await server.socket()
            relay.blackhole(BOTH if full else [UP])
            if full:
                fill(protocol)
            message = await asyncio.wait_for(server.messages.get(), 4)
            assert (message["type"], message["code"]) == ("websocket.disconnect", 1011)
            assert not protocol.open
            await asyncio.wait_for(server.over.get(), 8)
            relay.restore()
            assert (await close_of(client))[0] in (1011, 1006)


@pytest.mark.parametrize("full", [False, True])
async def test_a_reset_is_told_at_once_and_wakes_who_waits_for_room(full: bool) -> None:
    async with endpoint() as server, Relay("127.0.0.1", server.port) as relay:
        async with opened(relay.port, max_queue=1):
            protocol = await server.socket()
            room = asyncio.Event()
            protocol.on_writable = room.set
            if full:
                relay.blackhole([DOWN])
                fill(protocol)
            relay.reset()
            await asyncio.wait_for(room.wait(), WAIT_S)
            assert (await server.message())["type"] == "websocket.disconnect"
            assert not protocol.open
            await server.ended()


async def test_shutting_down_does_not_wait_for_a_peer_that_does_not_read() -> None:
    async with endpoint() as server:
        client = await connect(f"ws://127.0.0.1:{server.port}/", max_queue=1, ping_interval=None, proxy=None)
        protocol = await server.socket()
        fill(protocol)
        protocol.shutdown()
        await asyncio.wait_for(server.over.get(), 2)
        client.transport.abort()
