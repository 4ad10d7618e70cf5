"""Commands to Redis whose failures are the bus's."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from typing import Any, cast

import redis.asyncio
from redis.connection import HiredisRespSerializer
from redis.exceptions import RedisError, ResponseError

from antiphon.errors import BusError

Command = Sequence[Any]
"""Its name and its arguments."""

_packer: Any = HiredisRespSerializer()
"""The asynchronous client packs in Python, which costs as much as everything else about a command."""


async def ask(commands: redis.asyncio.Redis, *command: Any) -> Any:
    """One command. Raises BusError."""
    return (await ask_all(commands, [command]))[0]


async def ask_all(commands: redis.asyncio.Redis, several: Sequence[Command]) -> list[Any]:
    """Several commands in one exchange, each by itself. Raises BusError if one is refused; others may be done."""
    replies = await exchange(commands, several)
    for reply in replies:
        if isinstance(reply, Exception):
            raise BusError("Redis refused a command.") from reply
    return replies


async def exchange_fast(commands: redis.asyncio.Redis, several: Sequence[Command]) -> list[Any]:
    """As `exchange`, for the hot path: replies as they come, packed in C, one timeout for all of them."""
    packed = b"".join([part for command in several for part in _packer.pack(*command)])
    try:
        return await _to_its_end(_send(commands, packed, len(several)))
    except (RedisError, OSError) as error:
        raise BusError("Redis does not answer.") from error


async def _send(commands: redis.asyncio.Redis, packed: bytes, count: int) -> list[Any]:
    pool = cast(Any, commands.connection_pool)
    connection = await pool.get_connection()
    replies: list[Any] = []
    try:
        await connection.send_packed_command(packed, check_health=False)
        async with asyncio.timeout(connection.socket_timeout):
            for _ in range(count):
                try:
                    replies.append(await connection.read_response(timeout=math.inf))
                except ResponseError as refusal:
                    replies.append(refusal)
    except BaseException:
        # A reply that is outstanding would be taken for the answer to the next command.
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)
    return replies


async def exchange(commands: redis.asyncio.Redis, several: Sequence[Command]) -> list[Any]:
    """As `ask_all`; a refusal is given as its exception."""
    pipeline = cast(Any, commands.pipeline(transaction=False))  # the library's own types do not know its replies
    for command in several:
        pipeline.execute_command(*command)
    try:
        return await _to_its_end(pipeline.execute(raise_on_error=False))
    except (RedisError, OSError) as error:
        raise BusError("Redis does not answer.") from error


async def _to_its_end(replies: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    """In a task: a timeout inside the library can swallow a cancellation that comes together with the answer, and
    whoever is cancelled must end. What then fails is nobody's any more."""
    task = asyncio.ensure_future(replies)
    task.add_done_callback(_looked_at)
    return await asyncio.shield(task)


def _looked_at(task: asyncio.Task[list[Any]]) -> None:
    if not task.cancelled():
        task.exception()
