"""The relay does what it is told, and both parties see it as the network would show it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.support.relay import DOWN, UP, Relay

WAIT_S = 5


@dataclass
class Ends:
    """The two parties of one relayed connection."""

    relay: Relay
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    target: tuple[asyncio.StreamReader, asyncio.StreamWriter]

    async def up(self, data: bytes) -> bytes:
        """Send from the client, read at the target."""
        self.client[1].write(data)
        return await asyncio.wait_for(self.target[0].readexactly(len(data)), WAIT_S)

    async def down(self, data: bytes) -> bytes:
        self.target[1].write(data)
        return await asyncio.wait_for(self.client[0].readexactly(len(data)), WAIT_S)


@asynccontextmanager
async def relayed() -> AsyncIterator[Ends]:
    arrived: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await arrived.put((reader, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    writers: list[asyncio.StreamWriter] = []
    try:
        async with Relay("127.0.0.1", server.sockets[0].getsockname()[1], record=True) as relay:
            client = await asyncio.open_connection("127.0.0.1", relay.port)
            target = await asyncio.wait_for(arrived.get(), WAIT_S)
            writers = [client[1], target[1]]
            yield Ends(relay, client, target)
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()


async def nothing_comes(reader: asyncio.StreamReader, within_s: float = 0.1) -> bool:
    try:
        await asyncio.wait_for(reader.read(1), within_s)
    except TimeoutError:
        return True
    return False


async def test_bytes_go_both_ways_unchanged() -> None:
    async with relayed() as ends:
        payload = bytes(range(256)) * 1000
        assert await ends.up(payload) == payload
        assert await ends.down(payload) == payload
        await ends.relay.wait_forwarded(len(payload), DOWN)


async def test_a_delay_holds_each_chunk_back() -> None:
    async with relayed() as ends:
        ends.relay.delay(0.2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await ends.up(b"x")
        assert loop.time() - began >= 0.19


async def test_a_throttle_bounds_the_rate() -> None:
    async with relayed() as ends:
        ends.relay.throttle(50_000, [DOWN])
        loop = asyncio.get_running_loop()
        began = loop.time()
        await ends.down(b"x" * 10_000)
        assert loop.time() - began >= 0.15


async def test_a_blackhole_forwards_nothing_and_tells_nobody() -> None:
    async with relayed() as ends:
        ends.relay.blackhole()
        ends.client[1].write(b"lost?")
        assert await nothing_comes(ends.target[0])
        assert not ends.client[0].at_eof()
        ends.relay.restore()
        assert await asyncio.wait_for(ends.target[0].readexactly(5), WAIT_S) == b"lost?"


async def test_a_blackhole_hides_even_the_end_of_the_connection() -> None:
    async with relayed() as ends:
        ends.relay.blackhole([UP])
        ends.client[1].close()
        assert await nothing_comes(ends.target[0])


async def test_a_half_close_ends_one_direction_only() -> None:
    async with relayed() as ends:
        ends.relay.half_close(DOWN)
        assert await asyncio.wait_for(ends.client[0].read(), WAIT_S) == b""
        assert await ends.up(b"still") == b"still"


async def test_an_end_is_passed_on() -> None:
    async with relayed() as ends:
        ends.client[1].write_eof()
        assert await asyncio.wait_for(ends.target[0].read(), WAIT_S) == b""
        assert await ends.down(b"answer") == b"answer"


async def test_a_reset_reaches_both_parties() -> None:
    async with relayed() as ends:
        await ends.up(b"x")
        ends.relay.reset()
        for reader, _ in (ends.client, ends.target):
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(), WAIT_S)


async def test_a_cut_comes_after_exactly_so_many_bytes() -> None:
    async with relayed() as ends:
        ends.relay.cut_after(1000, DOWN, act=lambda: ends.relay.half_close(DOWN))
        ends.target[1].write(b"x" * 5000)
        received = await asyncio.wait_for(ends.client[0].read(), WAIT_S)
        assert len(received) == 1000


async def test_refused_connections_are_reset_at_once() -> None:
    async with relayed() as ends:
        ends.relay.refuse()
        reader, writer = await asyncio.open_connection("127.0.0.1", ends.relay.port)
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), WAIT_S)
        writer.close()
        await ends.relay.wait_accepted(2)
        assert await ends.up(b"the first goes on") == b"the first goes on"


async def test_waiting_for_what_does_not_come_is_bounded() -> None:
    async with relayed() as ends:
        with pytest.raises(AssertionError, match="did not see 9 bytes up"):
            await ends.relay.wait_forwarded(9, UP, 0.05)


async def test_what_went_by_can_be_read_and_waited_for() -> None:
    async with relayed() as ends:
        await ends.up(b"GET / ")
        await ends.up(b"HTTP/1.1")
        await ends.relay.wait_seen(b"/ HTTP", UP)
        assert ends.relay.seen(UP) == [b"GET / HTTP/1.1"]
        assert ends.relay.seen(DOWN) == [b""]
        with pytest.raises(AssertionError, match=r"did not see b'HTTP/2' up"):
            await ends.relay.wait_seen(b"HTTP/2", UP, 0.05)
