"""Finds the server that takes writes: the one of the URL, or the one the sentinels name."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import Counter
from typing import Any

import structlog
from redis.asyncio.connection import Connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from antiphon.bus.redis.address import BusAddress
from antiphon.bus.redis.pool import BusConnection

log = structlog.get_logger(__name__)

ASK_S = 1.0
"""How long the sentinels are waited for: they do little else than answer."""
SUSPECT_AGAIN_S = 0.25
"""All connections of a server report the same trouble within this time."""


class FixedMaster:
    """One server, as the URL says. Its name is looked up anew for each connection, so that it may move in DNS."""

    verifies_role = False

    def __init__(self, address: BusAddress) -> None:
        self._address = address.hosts[0]
        self._connections: weakref.WeakSet[BusConnection] = weakref.WeakSet()
        self._suspected_at = 0.0

    async def locate(self) -> tuple[str, int]:
        return self._address

    async def check(self) -> None:
        """Nobody to ask: the address stays."""

    def suspect(self) -> None:
        now = time.monotonic()
        if now - self._suspected_at >= SUSPECT_AGAIN_S:
            self._suspected_at = now
            log.warning("this Redis takes no writes now; all connections are opened anew")
            self.drop()

    def opened(self, connection: BusConnection) -> None:
        self._connections.add(connection)

    def drop(self) -> None:
        """Cut off every connection, subscriptions and blocking reads included."""
        for connection in list(self._connections):
            connection.abort()


class SentinelMaster(FixedMaster):
    """The master of a service, by the word of most sentinels, and by its own word when a connection is opened."""

    verifies_role = True

    def __init__(self, address: BusAddress) -> None:
        super().__init__(address)
        assert address.service is not None
        self._service = address.service
        self._sentinels = address.hosts
        self._password = address.sentinel_password
        self._found: tuple[str, int] | None = None

    async def locate(self) -> tuple[str, int]:
        if self._found is None:
            self._found = await self._ask_all()
        return self._found

    async def check(self) -> None:
        """Ask again; if the master is another one, leave the old one, whether or not it still answers."""
        try:
            found = await self._ask_all()
        except RedisError as error:
            log.debug("no word from the sentinels", error=str(error))
            return
        if self._found is not None and found != self._found:
            log.warning("Redis has another master", was=_text(self._found), now=_text(found))
            self._found = found
            self.drop()

    def suspect(self) -> None:
        self._found = None
        super().suspect()

    async def _ask_all(self) -> tuple[str, int]:
        """What more than half of them say, or else most of those that answered in time."""
        asked = [asyncio.create_task(self._ask(host, port)) for host, port in self._sentinels]
        votes: Counter[tuple[str, int]] = Counter()
        faults: list[Exception] = []
        try:
            async with asyncio.timeout(ASK_S):
                for answer in asyncio.as_completed(asked):
                    try:
                        votes[await answer] += 1
                    except (RedisError, OSError) as error:
                        faults.append(error)
                    if votes and votes.most_common(1)[0][1] * 2 > len(asked):
                        break
        except TimeoutError:
            faults.append(RedisConnectionError("a sentinel did not answer in time"))
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        if votes:
            return votes.most_common(1)[0][0]
        raise RedisConnectionError(f"no sentinel names a master: {faults[0]}") from faults[0]

    async def _ask(self, host: str, port: int) -> tuple[str, int]:
        connection = Connection(
            host=host, port=port, password=self._password, socket_timeout=ASK_S, protocol=2, driver_info=None
        )
        try:
            await connection.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
            found: list[Any] | None = await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)
        if found is None:
            raise RedisConnectionError(f"sentinel {host}:{port} does not know the service {self._service!r}")
        return found[0].decode(), int(found[1])


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"
