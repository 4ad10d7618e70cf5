"""The lifecycle feed that all nodes write together, as readers find it in Redis (PROTOCOL 16)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson
from redis.asyncio import Redis
from redis.exceptions import RedisError

from antiphon.bus.redis.keys import FEEDS, feed, feed_part
from antiphon.core.feed_log import KEEP_ENDED_S
from antiphon.errors import BusError
from antiphon.journal.redis.scripts import run_script
from antiphon.ops.feed_scripts import SNAPSHOT
from antiphon.ports import Clock, Ids

FEED_TTL_S = 86_400.0
"""After a day without an entry a tenant's feed is gone, and the next one begins a new epoch."""

SHOWN_MS = round(KEEP_ENDED_S * 1000)


def position_key(tenant: str) -> str:
    """Hash: epoch and newest rev of a tenant's feed."""
    return feed_part(tenant, "position")


def rows_keys(tenant: str) -> tuple[str, str, str]:
    """Hash: the newest entry of each run that is shown. Sorted sets by the time of that entry in ms: those of the
    runs that go on, and those that ended."""
    return feed_part(tenant, "rows"), feed_part(tenant, "live"), feed_part(tenant, "ended")


def run_key(tenant: str, run_id: str) -> str:
    """Hash: fence, n and event of the newest entry of a run."""
    return feed_part(tenant, f"run:{run_id}")


@dataclass(frozen=True, slots=True)
class Page:
    """Entries after a position. epoch, head: where the feed is; empty and 0 while it has none.

    entries: (rev, JSON as published) without a gap, at most as many as asked for; None if the position is of
    another epoch or too old: then take a snapshot of the runs, and go on from `head`.
    """

    epoch: str
    head: int
    entries: list[tuple[int, bytes]] | None


@dataclass(frozen=True, slots=True)
class Shown:
    """The feed at one moment. rows: the newest entry of each run that is shown, as published."""

    epoch: str
    head: int
    rows: list[bytes]


class FeedReader:
    """Each method is one exchange. commands: gives the client, which limits the time of each command."""

    def __init__(
        self, commands: Callable[[], Redis], ids: Ids, clock: Clock, *, ttl_s: float = FEED_TTL_S
    ) -> None:
        self._commands = commands
        self._ids = ids
        self._clock = clock
        self._ttl_ms = round(ttl_s * 1000)

    async def since(self, tenant: str, epoch: str, rev: int, limit: int = 1000) -> Page:
        """Entries after (epoch, rev), read in one step. Raises BusError."""
        async with self._commands().pipeline(transaction=True) as pipeline:
            pipeline.hmget(position_key(tenant), ["epoch", "rev"])
            pipeline.xrange(feed(tenant), min=f"{rev + 1}-0", count=limit)
            try:
                (known_epoch, head), found = await pipeline.execute()
            except (RedisError, OSError) as error:
                raise BusError("Redis did not give the lifecycle feed.") from error
        if known_epoch is None:
            return Page("", 0, None)
        entries = [(int(entry_id.split(b"-")[0]), fields[b"entry"]) for entry_id, fields in found]
        follows = entries[0][0] == rev + 1 if entries else int(head) == rev
        whole = known_epoch.decode() == epoch and follows
        return Page(known_epoch.decode(), int(head), entries if whole else None)

    async def before(self, tenant: str, epoch: str, first: int, down_to: int, limit: int = 1000) -> Page:
        """The newest entries below `first` and not below `down_to`, in their order. Raises BusError."""
        async with self._commands().pipeline(transaction=True) as pipeline:
            pipeline.hmget(position_key(tenant), ["epoch", "rev"])
            pipeline.xrevrange(feed(tenant), max=f"{first - 1}-0", min=f"{down_to}-0", count=limit)
            try:
                (known_epoch, head), found = await pipeline.execute()
            except (RedisError, OSError) as error:
                raise BusError("Redis did not give the lifecycle feed.") from error
        if known_epoch is None or known_epoch.decode() != epoch:
            return Page(known_epoch.decode() if known_epoch else "", 0, None)
        entries = [(int(entry_id.split(b"-")[0]), fields[b"entry"]) for entry_id, fields in reversed(found)]
        return Page(epoch, int(head), entries)

    async def snapshot(self, tenant: str) -> Shown:
        """The runs that are shown, and the position that belongs to them. Raises BusError.

        A tenant without a feed has an empty one from here on.
        """
        keys = (feed(tenant), position_key(tenant), *rows_keys(tenant))
        ended_before_ms = round(self._clock.now() * 1000) - SHOWN_MS
        arguments = (self._ids.token(), self._ttl_ms, ended_before_ms)
        epoch, head, rows = await run_script(self._commands(), SNAPSHOT, keys, arguments)
        return Shown(epoch.decode(), int(head), rows)

    async def positions(self, tenants: Sequence[str]) -> dict[str, tuple[str, int]]:
        """Epoch and newest rev of feeds, empty and 0 where there is none, which are known from then on.

        Raises BusError.
        """
        now_ms = round(self._clock.now() * 1000)
        async with self._commands().pipeline(transaction=False) as pipeline:
            pipeline.zadd(FEEDS, dict.fromkeys(tenants, now_ms))
            pipeline.zremrangebyscore(FEEDS, "-inf", f"({now_ms - self._ttl_ms}")
            pipeline.pexpire(FEEDS, self._ttl_ms)
            for tenant in tenants:
                pipeline.hmget(position_key(tenant), ["epoch", "rev"])
            try:
                _, _, _, *found = await pipeline.execute()
            except (RedisError, OSError) as error:
                raise BusError("Redis did not say where the lifecycle feeds are.") from error
        return {
            tenant: (epoch.decode() if epoch else "", int(rev or 0))
            for tenant, (epoch, rev) in zip(tenants, found, strict=True)
        }

    async def live_runs(self) -> dict[str, int]:
        """By tenant, how many runs go on. Raises BusError."""
        commands = self._commands()
        oldest_ms = round(self._clock.now() * 1000) - self._ttl_ms
        try:
            found: list[Any] = await commands.zrangebyscore(FEEDS, oldest_ms, "+inf")
            names = [name.decode() for name in found]
            async with commands.pipeline(transaction=False) as pipeline:
                for name in names:
                    pipeline.zcard(rows_keys(name)[1])
                counts = await pipeline.execute() if names else []
        except (RedisError, OSError) as error:
            raise BusError("Redis did not say whose runs go on.") from error
        return dict(zip(names, counts, strict=True))

    async def silent_runs(self, tenant: str, before: float, limit: int) -> list[str]:
        """Runs that go on, as far as the feed knows, and of which nothing was told since. before: Unix seconds.

        Raises BusError.
        """
        live, before_ms = rows_keys(tenant)[1], round(before * 1000)
        try:
            found: list[Any] = await self._commands().zrangebyscore(live, "-inf", before_ms, start=0, num=limit)
        except (RedisError, OSError) as error:
            raise BusError("Redis did not give the lifecycle feed.") from error
        return [run_id.decode() for run_id in found]

    async def go_on(self, tenant: str, run_ids: Sequence[str]) -> None:
        """These do; they are silent no more. Raises BusError."""
        if not run_ids:
            return
        now_ms = round(self._clock.now() * 1000)
        try:
            await self._commands().zadd(rows_keys(tenant)[1], dict.fromkeys(run_ids, now_ms), xx=True)
        except (RedisError, OSError) as error:
            raise BusError("Redis did not take a note about the lifecycle feed.") from error

    async def row(self, tenant: str, run_id: str) -> dict[str, Any] | None:
        """The row of a run that is shown. Raises BusError."""
        try:
            entry = await cast(Awaitable[Any], self._commands().hget(rows_keys(tenant)[0], run_id))
        except (RedisError, OSError) as error:
            raise BusError("Redis did not give the lifecycle feed.") from error
        row: dict[str, Any] | None = orjson.loads(entry)["run"] if entry is not None else None
        return row
