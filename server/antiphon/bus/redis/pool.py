"""Connections that know when they talk to the wrong server, and the bounded pool of those for commands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Protocol

from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, SSLConnection
from redis.exceptions import BusyLoadingError, MasterDownError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError


class Master(Protocol):
    """Where the server is that takes writes."""

    async def locate(self) -> tuple[str, int]:
        """Its host and port. Raises a redis ConnectionError."""
        ...

    def suspect(self) -> None:
        """The server at this address takes no writes: look for another one."""
        ...

    @property
    def verifies_role(self) -> bool:
        """Whether a new connection has to ask the server for its role."""
        ...

    def opened(self, connection: BusConnection) -> None:
        """A connection object was made."""
        ...


class BusConnection(Connection):
    """A connection to whichever server is the master when it is opened."""

    def __init__(self, *, master: Master, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._master = master
        master.opened(self)

    async def open(self) -> None:
        """Connect, if it is not connected. Raises what the library raises."""
        await self.connect()  # type: ignore[no-untyped-call]

    def abort(self) -> None:
        """Cut it off without waiting. Who reads on it gets an error, the pool opens it anew at its next use."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def _connect(self) -> None:
        self.host, self.port = await self._master.locate()
        await super()._connect()  # type: ignore[no-untyped-call]

    async def on_connect_check_health(self, check_health: bool = True) -> None:
        await super().on_connect_check_health(check_health)
        if self._master.verifies_role:
            await self.send_command("ROLE", check_health=False)
            role = await self.read_response()
            if role[0] != b"master":
                self._master.suspect()
                raise RedisConnectionError(f"{self.host}:{self.port} is not the master")

    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:
        """As the library does it, but for `asyncio.wait_for`, which makes a task for each command, and in Python
        3.11 loses a cancellation that comes as the command is written. check_health: there is none here."""
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        text = command.encode() if isinstance(command, str) else command
        writer = self._writer
        if writer is None:
            raise RedisConnectionError("the connection was closed as it was opened")
        try:
            async with asyncio.timeout(self.socket_timeout):
                writer.writelines([text] if isinstance(text, bytes) else text)
                await writer.drain()
        except TimeoutError:
            await self.disconnect(nowait=True)
            raise RedisTimeoutError("Redis did not take a command in time") from None
        except OSError as error:
            await self.disconnect(nowait=True)
            raise RedisConnectionError(f"the connection broke: {error}") from error
        except BaseException:
            await self.disconnect(nowait=True)
            raise

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().read_response(*args, **kwargs)
        except (ReadOnlyError, MasterDownError, BusyLoadingError):
            self._master.suspect()
            raise
        except ResponseError as error:
            if "READONLY" in str(error):  # Redis 6.2 wraps what a script ran into
                self._master.suspect()
            raise


class TlsBusConnection(BusConnection, SSLConnection):
    """The same over TLS."""


class CommandPool(ConnectionPool):
    """At most so many connections; whoever finds none free waits for one.

    Neither taking nor giving back can be interrupted half-way: the library's own waiting pool loses a connection
    for good when the task that gives it back is cancelled while it waits for the pool's lock.
    """

    def __init__(self, *, max_connections: int, wait_s: float, **kwargs: Any) -> None:
        """wait_s: how long to wait for a free one."""
        super().__init__(max_connections=max_connections, **kwargs)
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(max_connections)
        self._closed = False

    async def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> AbstractConnection:
        """Raises a redis ConnectionError: none becomes free in time, none can be opened, or the pool is closed."""
        self._check_open()
        try:
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        except TimeoutError:
            raise RedisConnectionError("no connection to Redis became free in time") from None
        try:
            self._check_open()
        except RedisConnectionError:
            self._free.release()
            raise
        connection: AbstractConnection = self.get_available_connection()  # type: ignore[no-untyped-call]
        try:
            await self.ensure_connection(connection)
        except BaseException:
            self._give_back(connection)
            raise
        return connection

    async def release(self, connection: AbstractConnection) -> None:
        """Nothing here waits, so that nothing can be cancelled."""
        self._give_back(connection)

    async def aclose(self) -> None:
        """Close all, those in use once they were given back, which is waited for as long as for a free one.

        Whoever asks after this gets none: a command whose caller was cancelled goes on without it, and would open
        a connection that nobody closes.
        """
        self._closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                for _ in range(self.max_connections):
                    await self._free.acquire()
        await super().aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise RedisConnectionError("the connections to Redis are closed")

    def _give_back(self, connection: AbstractConnection) -> None:
        self._in_use_connections.remove(connection)
        self._available_connections.append(connection)
        self._free.release()
