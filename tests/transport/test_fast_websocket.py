"""The contract with uvicorn's protocol class, on real sockets: what we override and what we rely on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close

from antiphon.journal.frames import text_frame
from antiphon.transport.fast_websocket import SCOPE_EXTENSION, FastWebSocketProtocol
from tests.support.relay import BOTH, DOWN, UP, Relay

WAIT_S = 10.0


@dataclass
class Endpoint:
    """A server whose application hands its sockets to the test. messages: what each `receive` gave, in order."""

    port: int
    outbox_bytes: int
    stalled_s: float
    sockets: asyncio.Queue[FastWebSocketProtocol] = field(default_factory=asyncio.Queue)
    messages: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    over: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        protocol: FastWebSocketProtocol = scope["extensions"][SCOPE_EXTENSION]
        protocol.set_limits(outbox_bytes=self.outbox_bytes, stalled_s=self.stalled_s)
        self.sockets.put_nowait(protocol)
        message: dict[str, Any] = {"type": ""}
        while message["type"] != "websocket.disconnect":
            message = await receive()
            self.messages.put_nowait(message)
        while not protocol.disconnected:
            await receive()
        self.over.put_nowait(None)

    async def socket(self) -> FastWebSocketProtocol:
        return await asyncio.wait_for(self.sockets.get(), WAIT_S)

    async def message(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.messages.get(), WAIT_S)

    async def ended(self) -> None:
        """Until the application has been told and the connection is gone."""
        await asyncio.wait_for(self.over.get(), WAIT_S)


class Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


@contextlib.asynccontextmanager
async def endpoint(
    outbox_bytes: int = 65_536, stalled_s: float = 30.0, ping_s: float = 20.0, max_bytes: int = 1 << 20
) -> AsyncIterator[Endpoint]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = Endpoint(listener.getsockname()[1], outbox_bytes, stalled_s)
    config = uvicorn.Config(
        app, http="httptools", ws=FastWebSocketProtocol, ws_max_size=max_bytes, ws_ping_interval=ping_s,
        ws_ping_timeout=ping_s, ws_per_message_deflate=False, lifespan="off", log_config=None, access_log=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    server = Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield app
    finally:
        server.should_exit = True
        await asyncio.wait_for(serving, WAIT_S)


@contextlib.asynccontextmanager
async def opened(port: int, **options: Any) -> AsyncIterator[ClientConnection]:
    given = {"compression": None, "ping_interval": None, "max_size": None, "proxy": None, "close_timeout": 3}
    client = await connect(f"ws://127.0.0.1:{port}/", **{**given, **options})
    try:
        yield client
    finally:
        if client.close_code is None:
            await client.close()


async def close_of(client: ClientConnection) -> tuple[int | None, str | None]:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await asyncio.wait_for(client.recv(), WAIT_S)
    await asyncio.wait_for(client.wait_closed(), WAIT_S)
    return client.close_code, client.close_reason


def fill(protocol: FastWebSocketProtocol) -> int:
    """Write until the socket is full; gives the number of frames."""
    count = 0
    while not protocol.full:
        protocol.write_frames(text_frame(b"%06d" % count + b"x" * 10_000))
        count += 1
        assert count < 20_000, "back-pressure never came"
    return count


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


def test_the_parts_of_uvicorn_we_stand_on_are_there() -> None:
    names = {
        "connection_lost", "data_received", "handle_connect", "handle_parser_exception", "keepalive_timeout",
        "pause_writing", "resume_writing", "shutdown",
    }  # fmt: skip
    for name in names & set(vars(FastWebSocketProtocol)):
        assert name in vars(FastWebSocketProtocol.__mro__[1]), f"{name} overrides nothing"
    assert names <= set(vars(FastWebSocketProtocol))
