"""One socket to a server that comes back by itself: what happens on it, and what is sent on it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from antiphon import __version__
from antiphon.cli.client.backoff import Backoff
from antiphon.cli.client.closing import closed_words, is_final, refused, refused_upgrade
from antiphon.cli.client.endpoint import Endpoint
from antiphon.errors import ClientError
from antiphon_protocol.extension import PROTOCOL_VERSION

Frame = dict[str, Any]
HEARTBEAT_S = 20.0
"""A ping so often, and so long for its answer: then a connection that nobody closed counts as lost."""
OPEN_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Opened:
    """The server said welcome. again: it is not the first time. connection: its id, as RunState names it."""

    connection: str
    again: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone; the next attempt is in `retry_in_s` seconds."""

    why: str
    retry_in_s: float


Happening = Opened | Lost | Frame


class Link:
    """Says hello on every connection; whoever reads `happenings` asks again for what it follows at each Opened.

    key: an API key or signed token. tools: names this client can answer calls of. chance, sleep: for tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        name: str,
        key: str | None,
        tools: Sequence[str] = (),
        chance: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._endpoint = endpoint
        self._key = key
        # One instance for the life of the process: after a reconnect it is still the one that was asked (10.9.3).
        client = {"name": name, "version": __version__, "instance_id": uuid.uuid4().hex}
        self._hello: Frame = {"type": "antiphon:hello", "id": "hello", "protocol": PROTOCOL_VERSION}
        self._hello |= {"client": client, "tools": [{"name": tool} for tool in tools]}
        self._chance = chance
        self._sleep = sleep
        self._backoff = Backoff()
        self._outbox: asyncio.Queue[Frame] | None = None
        self._spread_s = 0.0
        self._opened = 0

    def send(self, frame: Frame) -> None:
        """Send a frame on the connection there is. Without one it is gone: it is asked for again at Opened."""
        if self._outbox is not None:
            self._outbox.put_nowait(frame)

    async def happenings(self) -> AsyncGenerator[Happening, None]:
        """Everything that happens, without an end. Raises ClientError when coming back would be wrong, or when
        the first connection cannot be had."""
        while True:
            try:
                async with self._connected() as (socket, welcome):
                    self._opened += 1
                    self._backoff.opened()
                    yield Opened(str(welcome["connection_id"]), self._opened > 1)
                    async for text in socket:
                        frame = _parsed(text)
                        if frame.get("type") == "antiphon:goaway":
                            self._spread_s = float(frame["spread_ms"]) / 1000
                        yield frame
                    lost = self._ended(socket.close_code, socket.close_reason)
            except ConnectionClosed as error:
                lost = self._ended(
                    error.rcvd.code if error.rcvd else None, error.rcvd.reason if error.rcvd else ""
                )
            except _Unreachable as error:
                if not self._opened:
                    raise ClientError(str(error)) from error
                lost = self._lost(str(error))
            yield lost
            await self._sleep(lost.retry_in_s)

    def _ended(self, code: int | None, reason: str | None) -> Lost:
        words = closed_words(code, reason or "")
        if is_final(code):
            raise ClientError(f"The server closed the connection for good: {words}.")
        return self._lost(words)

    def _lost(self, why: str) -> Lost:
        spread_s, self._spread_s = self._spread_s, 0.0
        return Lost(why, self._backoff.wait_s(self._chance(), spread_s * self._chance()))

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[ClientConnection, Frame]]:
        socket = await self._open()
        outbox: asyncio.Queue[Frame] = asyncio.Queue()
        writer = asyncio.create_task(_write(socket, outbox), name="terminal-writer")
        try:
            outbox.put_nowait(self._hello)
            welcome = await _welcome(socket)
            self._outbox = outbox
            yield socket, welcome
        finally:
            self._outbox = None
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await socket.close()

    async def _open(self) -> ClientConnection:
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        options: Mapping[str, Any] = {"proxy": None} if self._endpoint.is_loopback else {}
        try:
            return await connect(
                self._endpoint.socket,
                additional_headers=headers,
                user_agent_header=f"antiphon/{__version__}",
                compression=None,
                max_size=None,
                open_timeout=OPEN_WITHIN_S,
                close_timeout=2,
                ping_interval=HEARTBEAT_S,
                ping_timeout=HEARTBEAT_S,
                **options,
            )
        except InvalidStatus as error:
            told, again = refused_upgrade(error.response.status_code, bytes(error.response.body or b""))
            if again:
                raise _Unreachable(told.message) from error
            raise told from error
        except InvalidHandshake as error:
            raise _Unreachable(f"{self._endpoint.origin} did not take the connection: {error}") from error
        except (OSError, TimeoutError, EOFError, WebSocketException) as error:
            words = f"Nothing answers at {self._endpoint.origin}. Is the server running?"
            raise _Unreachable(words) from error


class _Unreachable(Exception):
    """No connection this time."""


async def _welcome(socket: ClientConnection) -> Frame:
    try:
        async with asyncio.timeout(OPEN_WITHIN_S):
            while True:
                frame = _parsed(await socket.recv())
                if frame.get("type") == "antiphon:welcome":
                    return frame
                if frame.get("type") in ("antiphon:error", "error"):
                    error = frame.get("error") or frame
                    raise refused(str(error.get("code")), str(error.get("message")))
    except TimeoutError as error:
        raise _Unreachable("The server took the connection and said nothing.") from error


async def _write(socket: ClientConnection, outbox: asyncio.Queue[Frame]) -> None:
    with contextlib.suppress(ConnectionClosed):
        while True:
            await socket.send(orjson.dumps(await outbox.get()).decode())


def _parsed(text: str | bytes) -> Frame:
    frame = orjson.loads(text)
    return frame if isinstance(frame, dict) else {}
