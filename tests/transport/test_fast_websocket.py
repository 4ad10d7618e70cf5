"""The contract with uvicorn's protocol class, on real sockets: frames, closes, faults of the peer."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close

from antiphon.journal.frames import text_frame
from antiphon.transport.fast_websocket import FastWebSocketProtocol
from tests.support.relay import UP, Relay
from tests.transport.endpoint import WAIT_S, close_of, endpoint, opened

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 1_000_000]


async def test_ready_frames_of_every_size_arrive_as_text_in_order_from_one_write() -> None:
    async with endpoint() as server, opened(server.port) as client:
        protocol = await server.socket()
        payloads = [(str(n % 10) * size).encode() for n, size in enumerate(SIZES)]
        protocol.write_frames(b"".join(map(text_frame, payloads)))
        protocol.write_frames(text_frame("ä🚀".encode()))
        got = [await asyncio.wait_for(client.recv(), WAIT_S) for _ in range(len(SIZES) + 1)]
        assert got == [*(payload.decode() for payload in payloads), "ä🚀"]


async def test_messages_of_the_client_come_one_by_one() -> None:
    async with endpoint() as server, opened(server.port) as client:
        for sent in ("one", b"two", "", b"", ["thr", "ee"]):
            await client.send(sent)
        got = [await server.message() for _ in range(5)]
        assert [m.get("text") if m.get("text") is not None else m.get("bytes") for m in got] == [
            "one", b"two", "", b"", "three",
        ]  # fmt: skip


async def test_a_close_comes_after_what_was_written_and_the_application_is_told() -> None:
    async with endpoint() as server, opened(server.port) as client:
        protocol = await server.socket()
        assert protocol.open
        for n in range(50):
            protocol.write_frames(text_frame(b"%d" % n))
        protocol.close(4001, "too slow")
        assert not protocol.open
        protocol.write_frames(text_frame(b"late"))
        protocol.close(1011, "again")
        got = [await asyncio.wait_for(client.recv(), WAIT_S) for _ in range(50)]
        assert got == [str(n) for n in range(50)]
        assert await close_of(client) == (4001, "too slow")
        assert await server.message() == {"type": "websocket.disconnect", "code": 4001, "reason": "too slow"}
        await server.ended()
        protocol.close(1000)
        protocol.write_frames(b"nobody is there")


async def test_the_client_closes_first_and_gets_its_code_back() -> None:
    async with endpoint() as server, opened(server.port) as client:
        protocol = await server.socket()
        await client.close(3001, "bye")
        assert (client.close_code, client.close_reason) == (3001, "bye")
        assert (await server.message())["code"] == 3001
        await server.ended()
        assert not protocol.open


async def test_a_client_that_does_not_answer_the_close_is_cut_off() -> None:
    async with endpoint() as server, Relay("127.0.0.1", server.port) as relay:
        client = await connect(f"ws://127.0.0.1:{relay.port}/", compression=None, ping_interval=None, proxy=None)
        protocol = await server.socket()
        relay.blackhole([UP])
        protocol.close(1012, "restart")
        await asyncio.wait_for(server.over.get(), 8)
        relay.restore()
        await close_of(client)
        assert client.close_code == 1012


async def test_compression_is_not_negotiated() -> None:
    async with endpoint() as server, opened(server.port, compression="deflate") as client:
        assert client.response is not None
        assert "Sec-WebSocket-Extensions" not in client.response.headers
        (await server.socket()).write_frames(text_frame(b"plain " * 1000))
        assert await asyncio.wait_for(client.recv(), WAIT_S) == "plain " * 1000


async def test_pings_of_the_client_are_answered_between_frames() -> None:
    async with endpoint() as server, opened(server.port) as client:
        protocol = await server.socket()
        for n in range(20):
            protocol.write_frames(text_frame(b"%d" % n))
            await asyncio.wait_for(await client.ping(f"p{n}"), WAIT_S)
            assert await asyncio.wait_for(client.recv(), WAIT_S) == str(n)


def masked(opcode: int, payload: bytes, fin: bool = True) -> bytes:
    key = os.urandom(4)
    body = bytes(byte ^ key[i % 4] for i, byte in enumerate(payload))
    return bytes([(0x80 if fin else 0) | opcode, 0x80 | len(payload)]) + key + body


FAULTS: list[tuple[str, Callable[[], bytes], int]] = [
    ("text that is not UTF-8", lambda: masked(1, b"\xff"), 1007),
    ("fragments that are not UTF-8", lambda: masked(1, b"\xe2\x82", fin=False) + masked(0, b"x"), 1007),
    ("a frame without a mask", lambda: b"\x81\x02hi", 1002),
    ("a reserved bit", lambda: b"\xc1" + masked(1, b"hi")[1:], 1002),
    ("an unknown opcode", lambda: masked(3, b"hi"), 1002),
    ("a continuation of nothing", lambda: masked(0, b"hi"), 1002),
    ("a fragmented ping", lambda: masked(9, b"hi", fin=False), 1002),
    ("a header over the limit", lambda: b"\x81\xff" + (1 << 40).to_bytes(8, "big") + b"abcd", 1009),
]


@pytest.mark.parametrize(("what", "data", "code"), FAULTS, ids=[what for what, *_ in FAULTS])
async def test_a_fault_of_the_peer_gets_its_close_code(what: str, data: Callable[[], bytes], code: int) -> None:
    async with endpoint() as server, opened(server.port) as client:
        protocol = await server.socket()
        protocol.write_frames(text_frame(b"before"))
        client.transport.write(data())
        assert await asyncio.wait_for(client.recv(), WAIT_S) == "before"
        assert (await close_of(client))[0] == code
        assert (await server.message())["code"] == code
        await server.ended()


async def test_a_close_between_fragments_is_answered_with_its_own_code() -> None:
    async with endpoint() as server, opened(server.port) as client:
        await server.socket()
        close = masked(8, (1000).to_bytes(2, "big"))
        client.transport.write(masked(1, b"begun", fin=False) + close + masked(0, b"never read"))
        assert (await close_of(client))[0] == 1000
        assert (await server.message())["code"] == 1000
        await server.ended()


async def test_an_oversized_message_that_is_still_being_sent_sees_the_close_and_no_reset() -> None:
    async with endpoint(max_bytes=65_536) as server:
        for _ in range(5):
            async with opened(server.port) as client:
                await server.socket()
                with contextlib.suppress(ConnectionClosed):
                    await client.send("x" * 8_000_000)
                assert (await close_of(client))[0] == 1009
                assert isinstance(client.protocol.close_rcvd, Close)
                await server.ended()


def test_the_parts_of_uvicorn_we_stand_on_are_there() -> None:
    names = {
        "connection_lost", "data_received", "handle_connect", "handle_parser_exception", "keepalive_timeout",
        "pause_writing", "resume_writing", "shutdown",
    }  # fmt: skip
    for name in names & set(vars(FastWebSocketProtocol)):
        assert name in vars(FastWebSocketProtocol.__mro__[1]), f"{name} overrides nothing"
    assert names <= set(vars(FastWebSocketProtocol))
