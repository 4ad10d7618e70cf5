"""A real uvicorn with our protocol class, whose application hands its sockets to the test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from antiphon.journal.frames import text_frame
from antiphon.transport.fast_websocket import SCOPE_EXTENSION, FastWebSocketProtocol

WAIT_S = 40.0


@dataclass
class Endpoint:
    """A server whose application hands its sockets to the test. messages: what each `receive` gave, in order."""

    port: int
    outbox_bytes: int
    stalled_s: float
    message_s: float
    sockets: asyncio.Queue[FastWebSocketProtocol] = field(default_factory=asyncio.Queue)
    messages: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    over: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        protocol: FastWebSocketProtocol = scope["extensions"][SCOPE_EXTENSION]
        protocol.set_limits(outbox_bytes=self.outbox_bytes, stalled_s=self.stalled_s, message_s=self.message_s)
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
async def serving(config: uvicorn.Config, listener: socket.socket) -> AsyncIterator[None]:
    """A uvicorn of this configuration, inside the block."""
    server = Server(config)
    task = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, WAIT_S)


@contextlib.asynccontextmanager
async def endpoint(
    outbox_bytes: int = 65_536,
    stalled_s: float = 30.0,
    ping_s: float = 20.0,
    max_bytes: int = 1 << 20,
    message_s: float = 60.0,
) -> AsyncIterator[Endpoint]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = Endpoint(listener.getsockname()[1], outbox_bytes, stalled_s, message_s)
    config = uvicorn.Config(
        app, http="httptools", ws=FastWebSocketProtocol, ws_max_size=max_bytes, ws_ping_interval=ping_s,
        ws_ping_timeout=ping_s, ws_per_message_deflate=False, lifespan="off", log_config=None, access_log=False,
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    async with serving(config, listener):
        yield app


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
