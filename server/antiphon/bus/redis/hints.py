"""Hints of other nodes: one subscriber connection for the whole node, mended whenever it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from redis.exceptions import ConnectionError as RedisConnectionError

from antiphon.bus.channels import Channels, Listener
from antiphon.bus.redis import keys
from antiphon.bus.redis.connection import TROUBLE, Connections
from antiphon.bus.redis.pool import BusConnection
from antiphon.bus.tasks import end_tasks
from antiphon.errors import BusError

log = structlog.get_logger(__name__)

RETRY_MAX_S = 1.0
PING_SHARE = 0.5
"""Of the command timeout: how often an idle connection is asked whether it is there."""
CHANNELS_PER_COMMAND = 500
MESSAGES_PER_TURN = 100
"""After so many messages in a row the loop's other tasks have their turn."""
_MESSAGES = (b"message", b"smessage")
_ACKNOWLEDGED = (b"subscribe", b"ssubscribe")


class Hints:
    """cuts: how often the subscriber was cut off. healthy: it is connected and everything is subscribed."""

    def __init__(self, connections: Connections, timeout_s: float) -> None:
        self._connections = connections
        self._timeout_s = timeout_s
        self._channels = Channels()
        self._acknowledgements: dict[str, deque[list[asyncio.Future[None]]]] = {}
        """By channel, for each SUBSCRIBE that is not acknowledged yet, who waits for it."""
        self._commands: deque[tuple[str, ...]] = deque()
        self._waiting_command = asyncio.Event()
        self._connected = False
        self._unanswered = 0
        self._last_heard = 0.0
        self._task: asyncio.Task[None] | None = None
        self._on_reconnected: Callable[[], None] = lambda: None
        self.cuts = 0
        self.healthy = False

    def start(self, on_reconnected: Callable[[], None]) -> None:
        self._on_reconnected = on_reconnected
        self._task = asyncio.create_task(self._serve_forever(), name="bus hints")

    async def stop(self) -> None:
        await end_tasks([self._task])

    async def subscribe(self, channel: str, listener: Listener) -> None:
        """See `ports.Bus.subscribe`. Raises BusError, and then does not listen."""
        self._channels.add(channel, listener)
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._acknowledgements.setdefault(channel, deque()).append([acknowledged])
        self._send("SUBSCRIBE", [channel])
        try:
            async with asyncio.timeout(self._timeout_s):
                await acknowledged
        except BaseException as error:
            self.unsubscribe(channel, listener)
            if isinstance(error, TimeoutError):
                raise BusError("The bus did not acknowledge a subscription.") from error
            raise

    def unsubscribe(self, channel: str, listener: Listener) -> None:
        """See `ports.Bus.unsubscribe`. Nothing if it does not listen."""
        if self._channels.remove(channel, listener):
            self._send("UNSUBSCRIBE", [channel])

    def _send(self, command: str, channels: Iterable[str]) -> None:
        """Have the connection's writer send it. While there is none, the next one subscribes to everything."""
        if not self._connected:
            return
        sharded: dict[bool, list[str]] = {True: [], False: []}
        for channel in channels:
            sharded[self._connections.publish_command == "SPUBLISH" and keys.is_tagged(channel)].append(channel)
        for is_sharded, names in sharded.items():
            for at in range(0, len(names), CHANNELS_PER_COMMAND):
                part = names[at : at + CHANNELS_PER_COMMAND]
                self._commands.append((f"S{command}" if is_sharded else command, *part))
                self._unanswered += len(part) if command == "SUBSCRIBE" else 0
        self._waiting_command.set()

    async def _serve_forever(self) -> None:
        failures = 0
        while True:
            connection = self._connections.dedicated()
            began = asyncio.get_running_loop().time()
            try:
                await connection.open()
                await self._serve(connection)
            except TROUBLE as error:
                lasted_s = asyncio.get_running_loop().time() - began
                failures = 1 if lasted_s > RETRY_MAX_S else failures + 1
                log.log(
                    30 if failures == 1 else 10, "the subscriber was cut off", cuts=self.cuts, error=str(error)
                )
            except Exception:
                failures += 1
                log.exception("the subscriber failed")
            finally:
                self.cuts += 1
                self.healthy = self._connected = False
                with contextlib.suppress(*TROUBLE):
                    await connection.disconnect(nowait=True)
            await asyncio.sleep(min(0.02 * 2**failures, RETRY_MAX_S) * random.uniform(0.5, 1.0))

    async def _serve(self, connection: BusConnection) -> None:
        """Subscribe to everything, say so, and read until the connection breaks."""
        self._commands.clear()
        self._unanswered = 0
        waiting = self._acknowledgements
        self._acknowledgements = {
            channel: deque([[one for group in waiting.get(channel, ()) for one in group]])
            for channel in self._channels
        }
        self._connected = True
        self._send("SUBSCRIBE", list(self._channels))
        self._last_heard = asyncio.get_running_loop().time()
        writer = asyncio.create_task(self._write(connection), name="bus hints writer")
        try:
            self._ready()
            await self._read(connection)
        finally:
            await end_tasks([writer])

    async def _read(self, connection: BusConnection) -> None:
        loop = asyncio.get_running_loop()
        for count in range(1, 2**63):
            reply: Any = await connection.read_response(timeout=math.inf)
            self._last_heard = loop.time()
            if isinstance(reply, list) and reply[0] in _MESSAGES:
                self._channels.tell(reply[1].decode(), reply[2])
            elif isinstance(reply, list) and reply[0] in _ACKNOWLEDGED:
                self._acknowledge(reply[1].decode())
            if count % MESSAGES_PER_TURN == 0:
                await asyncio.sleep(0)

    def _acknowledge(self, channel: str) -> None:
        self._unanswered -= 1
        groups = self._acknowledgements.get(channel)
        for acknowledged in groups.popleft() if groups else ():
            if not acknowledged.done():
                acknowledged.set_result(None)
        if not groups:
            self._acknowledgements.pop(channel, None)
        self._ready()

    def _ready(self) -> None:
        """Once nothing is unanswered for the first time, hints may have been missed until here."""
        if not self.healthy and self._unanswered <= 0:
            self.healthy = True
            if self.cuts:
                log.info("the subscriber is back", cuts=self.cuts, channels=len(self._channels))
                try:
                    self._on_reconnected()
                except Exception:
                    log.exception("on_reconnected failed")

    async def _write(self, connection: BusConnection) -> None:
        """Send commands as they come; ask an idle connection whether it is there, and cut off a dead one."""
        every_s = self._timeout_s * PING_SHARE
        loop = asyncio.get_running_loop()
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(every_s):
                        await self._waiting_command.wait()
                commands = list(self._commands)
                self._commands.clear()
                self._waiting_command.clear()
                silent_s = loop.time() - self._last_heard
                if silent_s > self._timeout_s + every_s:
                    raise RedisConnectionError(f"nothing was heard for {silent_s:.1f} s")
                if not commands and silent_s >= every_s:
                    commands = [("PING",)]
                if commands:
                    await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        except TROUBLE as error:
            log.debug("the subscriber cannot write", error=str(error))
            connection.abort()
