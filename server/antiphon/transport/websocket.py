"""`GET /v1/responses` with an upgrade: one session per socket."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import Receive, Scope, Send

from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, Draining, RequestError
from antiphon.ops.counts import NO_STATUS
from antiphon.ports import Authenticator
from antiphon.runs.engine import Engine
from antiphon.session.caller import Caller
from antiphon.session.connection import Connection
from antiphon.session.connection import Receive as NextMessage
from antiphon.session.entrance import FIRST_FRAME_BYTES, Entrance
from antiphon.session.hub import Hub
from antiphon.session.rates import Rates
from antiphon.transport.fast_websocket import SCOPE_EXTENSION, FastWebSocketProtocol
from antiphon.transport.replies import turn_away

_TURNED_OUT_S = 1.0
"""How long a socket that did not say who it is may take to answer our close."""


class ResponsesSocket:
    """ASGI endpoint for the upgrade."""

    def __init__(self, engine: Engine, hub: Hub, authenticator: Authenticator, rates: Rates) -> None:
        self._engine = engine
        self._hub = hub
        self._authenticator = authenticator
        self._rates = rates
        self._entrance = Entrance(authenticator, engine.settings.identity)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._engine.service.draining:
            await self._turn_away(Draining("The server is shutting down."), scope, receive, send)
            return
        receive = self._counting(receive)
        principal: Principal | None = scope["state"].get("principal")
        if principal is not None:
            await self._accept(scope, receive, send)
            await self._serve(scope, receive, principal)
            return
        try:
            self._entrance.claim()
        except RequestError as error:
            await self._turn_away(error, scope, receive, send)
            return
        await self._let_in(scope, receive, send)

    async def _turn_away(self, error: AntiphonError, scope: Scope, receive: Receive, send: Send) -> None:
        self._engine.counts.refuse("door", error.code)
        await turn_away(scope, error, receive, send)

    def _counting(self, receive: Receive) -> Receive:
        """The same messages; the first that says that the socket is over is counted with its code."""
        is_over = False

        async def counted() -> MutableMapping[str, Any]:
            nonlocal is_over
            message = await receive()
            if message["type"] == "websocket.disconnect" and not is_over:
                is_over = True
                self._engine.counts.close(message.get("code") or NO_STATUS)
            return message

        return counted

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A socket with a place at the entrance: its first frame brings credentials, or it goes."""
        try:
            socket = await self._accept(scope, receive, send)
            most = socket.limit_messages(FIRST_FRAME_BYTES)
            state = scope["state"]
            entered = await self._entrance.enter(
                socket, _messages(receive), _origin(scope), state["address"], state["on_authenticated"]
            )
            if entered is None:
                socket.cut_off(_TURNED_OUT_S)
                await _until_gone(socket, receive)
                return
        finally:
            self._entrance.leave()
        socket.limit_messages(most)
        await self._serve(scope, receive, entered.principal, entered.again)

    async def _accept(self, scope: Scope, receive: Receive, send: Send) -> FastWebSocketProtocol:
        socket = _socket(scope)
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        settings = self._engine.settings
        socket.set_limits(
            outbox_bytes=settings.limits.outbox_bytes,
            stalled_s=settings.timeouts.stalled_socket_s,
            message_s=settings.door.message_s,
        )
        return socket

    async def _serve(self, scope: Scope, receive: Receive, principal: Principal, again: str | None = None) -> None:
        """again: a first frame that was read already."""
        engine, socket = self._engine, _socket(scope)
        caller = Caller(
            self._authenticator,
            principal,
            engine.clock,
            notice_s=engine.settings.identity.expiry_notice_s,
            origin=_origin(scope),
            address=scope["state"]["address"],
        )
        messages, pace = _messages(receive, again), self._rates.socket(principal)
        connection = Connection(engine, caller, socket, messages, pace)
        self._hub.add(connection)
        if engine.service.draining:
            connection.shut()  # it began while this one was at the entrance
        try:
            await connection.run()
        finally:
            self._hub.discard(connection)
            # The close frame is on its way; the protocol object ends the connection when it is answered.
            await _until_gone(socket, receive)


def _socket(scope: Scope) -> FastWebSocketProtocol:
    socket: FastWebSocketProtocol = scope["extensions"][SCOPE_EXTENSION]
    return socket


def _origin(scope: Scope) -> str | None:
    given = [value for name, value in scope["headers"] if name.lower() == b"origin"]
    return given[0].decode("latin-1").lower() if given else None


async def _until_gone(socket: FastWebSocketProtocol, receive: Receive) -> None:
    while not socket.disconnected:
        try:
            async with asyncio.timeout(10):
                await receive()
        except TimeoutError:
            return


def _messages(receive: Receive, again: str | None = None) -> NextMessage:
    """The next message of the socket, None when it is over. again: comes before all others."""

    async def next_message() -> str | bytes | None:
        nonlocal again
        if again is not None:
            first, again = again, None
            return first
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is not None:
            return str(text)
        data = message.get("bytes")
        return bytes(data) if data is not None else ""

    return next_message
