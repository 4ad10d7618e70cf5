"""A message on a socket has an end: what was begun and is never finished closes the socket."""

from __future__ import annotations

import asyncio
import os

import pytest
from websockets.frames import Frame, Opcode

from tests.transport.endpoint import WAIT_S, close_of, endpoint, opened

MASKED = 0x80
BEGUN: dict[str, bytes] = {
    "one byte of a frame": b"\x81",
    "the head of a frame": bytes([0x81, MASKED | 5]),
    "the head of a long frame and its mask": bytes([0x81, MASKED | 126, 1, 0]) + os.urandom(4),
    "half of a payload": bytes([0x81, MASKED | 5]) + bytes(4) + b"he",
    "half of a ping": bytes([0x89, MASKED | 5]) + bytes(4) + b"he",
    "the first of several frames": Frame(Opcode.TEXT, b"he", fin=False).serialize(mask=True),
}


@pytest.mark.parametrize("begun", BEGUN)
async def test_what_is_begun_and_not_finished_in_time_closes_the_socket(begun: str) -> None:
    async with endpoint(message_s=0.2) as server, opened(server.port) as client:
        client.transport.write(BEGUN[begun])
        assert await close_of(client) == (1008, "message too slow")
        assert (await server.message())["code"] == 1008


async def test_pieces_that_keep_coming_do_not_put_the_end_off() -> None:
    async with endpoint(message_s=0.5) as server, opened(server.port) as client:
        client.transport.write(Frame(Opcode.TEXT, b"", fin=False).serialize(mask=True))
        more = Frame(Opcode.CONT, b"x", fin=False).serialize(mask=True)

        async def go_on() -> None:
            while True:
                client.transport.write(more)
                await asyncio.sleep(0.02)

        going_on = asyncio.create_task(go_on())
        try:
            assert await close_of(client) == (1008, "message too slow")
        finally:
            going_on.cancel()


async def test_silence_between_messages_and_messages_one_after_another_close_nothing() -> None:
    async with endpoint(message_s=30) as server, opened(server.port) as client:
        protocol = await server.socket()
        for _ in range(3):
            client.transport.write(BEGUN["half of a payload"])
            await asyncio.wait_for(_begun(protocol), WAIT_S)
            client.transport.write(b"llo")
            assert (await server.message())["text"] == "hello"
            assert protocol._message_timer is None
        assert protocol.open


async def _begun(protocol) -> None:  # type: ignore[no-untyped-def]
    while protocol._message_timer is None:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0)
