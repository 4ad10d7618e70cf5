"""The one place that builds connections to Redis."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any, Literal

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, BusyLoadingError, InvalidResponse, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from antiphon.bus.redis.address import BusAddress
from antiphon.bus.redis.master import FixedMaster, SentinelMaster
from antiphon.bus.redis.pool import BusConnection, CommandPool, TlsBusConnection
from antiphon.errors import BusError, StartupError
from antiphon.settings.storage import BusSettings

log = structlog.get_logger(__name__)

OLDEST = (6, 2)
"""Of Redis: `SET` with `GET` and `XTRIM` with `LIMIT` are there since then."""
SHARDED_SINCE = (7, 0)
LOADING_LOOK_S = 0.1
TROUBLE = (RedisError, OSError)
"""What the library raises when the server is away, slow, or says no. (`TimeoutError` is an `OSError`.)"""


@contextlib.asynccontextmanager
async def answering(within_s: float) -> AsyncIterator[None]:
    """Everything in the block within this time, or BusError. A command that is cut off drops its connection."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except TROUBLE as error:
        raise BusError("The bus did not answer.") from error


def cause_of(error: BaseException) -> str:
    """The library's own words, for the log."""
    return str(error.__cause__ or error) or type(error.__cause__ or error).__name__


class Connections:
    """commands: the client with the pool. publish_command: for a channel with a hash tag; known after `open`."""

    def __init__(self, address: BusAddress, settings: BusSettings, node: str) -> None:
        self.address = address
        self.master = SentinelMaster(address) if address.service else FixedMaster(address)
        self.publish_command: Literal["SPUBLISH", "PUBLISH"] = "PUBLISH"
        self._timeout_s = settings.command_timeout_s
        self._class = BusConnection if address.tls is None else TlsBusConnection
        self._options: dict[str, Any] = {
            "master": self.master,
            "db": address.db,
            "username": address.username,
            "password": address.password,
            "socket_timeout": self._timeout_s,
            "socket_connect_timeout": self._timeout_s,
            "client_name": f"antiphon:{node}",
            "driver_info": None,  # one exchange less for each connection; the name says who we are
            "protocol": 2,  # costs less than 3 with hiredis where messages of subscriptions come in bursts
            # Whether a command whose answer was lost may be sent again, only its sender knows.
            "retry": Retry(NoBackoff(), 0),
            **(address.tls or {}),
        }
        self.pool = CommandPool(
            max_connections=settings.connections,
            wait_s=self._timeout_s,
            connection_class=self._class,
            **self._options,
        )
        self.commands: Redis = Redis(connection_pool=self.pool)

    def dedicated(self, timeout_s: float | None = None) -> BusConnection:
        """A connection outside the pool, not opened yet. timeout_s: for its reads, where not the usual one."""
        options = {**self._options, "socket_timeout": timeout_s or self._timeout_s}
        return self._class(**options)

    async def open(self) -> str:
        """Connect for the first time and look at the server; what it is. Raises StartupError."""
        try:
            about = await self._about()
        except TROUBLE as error:
            raise StartupError(f"the bus {self.address} {refusal(error, self.address)}") from error
        version = _version(about)
        if version < OLDEST:
            raise StartupError(
                f"the bus {self.address} is Redis {about.get('redis_version')}; "
                f"{'.'.join(map(str, OLDEST))} is the oldest that works"
            )
        self.publish_command = "SPUBLISH" if version >= SHARDED_SINCE else "PUBLISH"
        policy = about.get("maxmemory_policy", "noeviction")
        if policy.startswith("allkeys"):
            log.warning("Redis may evict logs of live runs", maxmemory_policy=policy)
        name = "Valkey" if "valkey_version" in about else "Redis"
        return f"{name} {about.get('valkey_version') or about.get('redis_version')}, {policy}"

    async def close(self) -> None:
        """Close all of the pool. Never raises."""
        with contextlib.suppress(*TROUBLE):
            await self.pool.aclose()

    async def _about(self) -> dict[str, str]:
        """INFO, once the server has loaded its data."""
        connection = self.dedicated()
        fault = "no answer in time"
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    try:
                        await connection.open()
                        await connection.send_command("INFO")
                        text: bytes = await connection.read_response()
                        break
                    except BusyLoadingError:
                        fault = "it is still loading its data"
                        await connection.disconnect(nowait=True)
                        await asyncio.sleep(LOADING_LOOK_S)
        except TimeoutError:
            raise RedisTimeoutError(fault) from None
        finally:
            await connection.disconnect(nowait=True)
        lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
        return {key: value.strip() for key, colon, value in lines if colon}


def _version(about: dict[str, str]) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", about.get("redis_version", ""))[:3])


def refusal(error: Exception, address: BusAddress) -> str:
    """What went wrong at the first contact, as the end of a sentence that begins with the address."""
    text = str(error).strip().rstrip(".")
    if isinstance(error, AuthenticationError):
        return f"does not take our credentials ({address.hint_of_credentials}): {text}"
    if "SSL" in text or "certificate" in text.lower():
        return f"cannot be reached over TLS: {text}"
    if isinstance(error, InvalidResponse):
        return "does not speak the protocol of Redis"
    if isinstance(error, RedisTimeoutError | TimeoutError):
        return f"does not answer: {text}{'; perhaps it speaks no TLS (redis://)' if address.tls else ''}"
    if isinstance(error, ResponseError):
        return f"refuses us: {text}"
    if "closed by server" in text and address.tls is None:
        return "closes the connection at once; perhaps it wants rediss://"
    return f"cannot be reached: {text}"
