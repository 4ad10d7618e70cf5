"""An echo server on the server's own WebSocket protocol: what suites of RFC 6455 talk to. In tests only."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import uvicorn

from antiphon.transport.fast_websocket import FastWebSocketProtocol

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""The largest message of the suites has 16 MiB."""


async def echo(scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """Accept, and send back every message as it came."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message.get("text"), "bytes": message.get("bytes")})


@contextlib.asynccontextmanager
async def echo_server() -> AsyncIterator[str]:
    """Listen on a free port, set up as `AntiphonServer` does; gives the address as `host:port`."""
    config = uvicorn.Config(
        echo,
        ws=FastWebSocketProtocol,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        while not server.started:
            assert not serving.done(), "the echo server did not start"
            await asyncio.sleep(0)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
