"""What all nodes of a cluster must have alike, and how a node finds out that it has something else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from redis.asyncio import Redis

from antiphon.bus.redis import keys
from antiphon.errors import StartupError

Command = tuple[str | int, ...]

LEASES_KEPT = 4
"""For so many leases the agreement outlives the last node: a restart of all nodes finds it, and may change it."""


async def agree(
    commands: Redis, agree_on: Mapping[str, str], lease_s: float, others: Callable[[], Awaitable[frozenset[str]]]
) -> None:
    """Compare with what the other nodes have; if there are none, it is as we say.

    others: nodes with a lease, but for this one. Raises StartupError that names the key and both values.
    """
    found = {key.decode(): value.decode() for key, value in (await _hash(commands)).items()}
    # What only one side knows is of another release; a rolling deploy must get past it.
    different = [key for key, value in agree_on.items() if found.get(key, value) != value]
    if different and await others():
        key = different[0]
        raise StartupError(
            f"{key} is {agree_on[key]} here and {found[key]} on the nodes that run; "
            "all nodes of a cluster must have it alike"
        )
    pipeline = commands.pipeline(transaction=True)
    if different:
        pipeline.delete(keys.CLUSTER)
    for command in keeping(agree_on, lease_s):
        pipeline.execute_command(*command)
    await pipeline.execute()


def keeping(agree_on: Mapping[str, str], lease_s: float) -> list[Command]:
    """Keeps the agreement there: sent with each renewal of a lease, so that a Redis that lost it has it again.

    What is there already stays: of nodes that begin at the same moment, the second finds out what the first wrote.
    """
    ttl_ms = int(LEASES_KEPT * lease_s * 1000)
    writing: list[Command] = [("HSETNX", keys.CLUSTER, key, value) for key, value in sorted(agree_on.items())]
    return [*writing, ("PEXPIRE", keys.CLUSTER, ttl_ms)]


async def _hash(commands: Redis) -> dict[bytes, bytes]:
    found: Any = await commands.hgetall(keys.CLUSTER)
    return dict(found)
