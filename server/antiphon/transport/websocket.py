"""`GET /v1/responses` with an upgrade: one session per socket."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

from antiphon.errors import Draining
from antiphon.runs.engine import Engine
from antiphon.session.connection import Connection
from antiphon.session.hub import Hub
from antiphon.transport.fast_websocket import SCOPE_EXTENSION, FastWebSocketProtocol
from antiphon.transport.replies import refuse_upgrade


class ResponsesSocket:
    """ASGI endpoint for the upgrade."""

    def __init__(self, engine: Engine, hub: Hub) -> None:
        self._engine = engine
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._engine.service.draining:
            draining = Draining("The server is shutting down.")
            await refuse_upgrade(draining, receive, send)
            return
        socket: FastWebSocketProtocol = scope["extensions"][SCOPE_EXTENSION]
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        settings = self._engine.settings
        socket.set_limits(outbox_bytes=settings.limits.outbox_bytes, stalled_s=settings.timeouts.stalled_socket_s)
        connection = Connection(self._engine, scope["state"]["principal"], socket, _messages(receive))
        self._hub.add(connection)
        try:
            await connection.run()
        finally:
            self._hub.discard(connection)
            # The close frame is on its way; the protocol object ends the connection when it is answered.
            await _until_gone(socket, receive)


async def _until_gone(socket: FastWebSocketProtocol, receive: Receive) -> None:
    while not socket.disconnected:
        try:
            async with asyncio.timeout(10):
                await receive()
        except TimeoutError:
            return


def _messages(receive: Receive):  # type: ignore[no-untyped-def]
    """The next message of the socket, None when it is over."""

    async def next_message() -> str | bytes | None:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is not None:
            return str(text)
        data = message.get("bytes")
        return bytes(data) if data is not None else ""

    return next_message
