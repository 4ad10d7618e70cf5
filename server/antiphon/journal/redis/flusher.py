"""Writes what is due: one pipeline for all runs, whose replies are read before the next one goes out.

A pipeline that fails keeps everything for the next one. Its outcome may be unknown: the script says where the log
stands, and what it has already is not written again.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any, Protocol

import redis.asyncio
import structlog

from antiphon.bus.redis import keys
from antiphon.core.durations import Durations
from antiphon.errors import BusError
from antiphon.journal.redis.exchange import Command
from antiphon.journal.redis.live import Live, Part, Terms, take
from antiphon.journal.redis.scripts import ERASE, Call, run_scripts
from antiphon.ports import Clock

log = structlog.get_logger(__name__)

_RETRY_S = (0.02, 0.05, 0.2, 0.5, 1.0)
"""Waits between attempts, each with jitter; the last one repeats."""

_HELD_LOOK_S = 0.02
"""How often it is looked whether a suspended node may write again."""

_PIPELINE_BYTES = 8 * 1024 * 1024
"""Events of one pipeline together, so that one answer never takes long."""


class RedisSide(Protocol):
    """What the journal needs of the bus.

    held: whether this node may write. commands: a client that does not try again by itself. publish_command: for
    channels of a shard, `SPUBLISH` where the server has it.
    """

    @property
    def node(self) -> str: ...
    @property
    def held(self) -> bool: ...
    @property
    def commands(self) -> redis.asyncio.Redis: ...
    @property
    def publish_command(self) -> str: ...


class Flusher:
    """on_gone: the log of a run is not where it should be. on_lost: another node has the run. on_taken: a part is
    written. on_resumed: this node may write again. refused: the last pipeline failed. flushes: what they took."""

    def __init__(
        self, bus: RedisSide, clock: Clock, *, flush_s: float, ttl_s: float, terms: Callable[[], Terms]
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._flush_s = flush_s
        self._ttl_s = ttl_s
        self._terms = terms
        self._due: dict[Live, None] = {}
        self._leaving: list[str] = []
        self._news: list[Command] = []
        self._erasing: list[Call] = []
        self._kept_at = clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._flushed_at = -math.inf
        """When the last pipeline began to be put together, by the loop's clock."""
        self._go = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.on_gone: Callable[[Live], None]
        self.on_lost: Callable[[Live], None]
        self.on_taken: Callable[[Part, int], None]
        self.on_resumed: Callable[[], None]
        self.refused = False
        self.flushes = Durations()

    def start(self) -> None:
        """Call it in the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="journal")

    async def stop(self) -> None:
        """What is not written yet is given up."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def due(self, live: Live, *, now: bool = False) -> None:
        """Something of a run is to be written within the flush time, or at once."""
        if live.gated or live.over:
            return
        self._due[live] = None
        if now:
            self._go.set()
        else:
            self._soon()

    def tell(self, live: Live) -> None:
        """Publish the news of a run with the next pipeline, if it can be found."""
        if live.news is None or not live.can_be_found:
            return
        (channel, payload), live.news = live.news, None
        command = self._bus.publish_command if keys.is_tagged(channel) else "PUBLISH"
        self._news.append((command, channel, payload))
        self._soon()

    def forget(self, live: Live, *, leaves: bool, erase: bool = False) -> None:
        """Write no more of a run. leaves: it is no longer this node's. erase: nobody may find its log."""
        self._due.pop(live, None)
        live.leaves = leaves
        if leaves and live.registered:
            self._leaving.append(live.run_id)
        if erase:
            run_keys = (keys.run_meta(live.run_id), keys.run_log(live.run_id))
            self._erasing.append((ERASE, run_keys, (self._bus.node, live.fence)))
        self._soon()

    def _soon(self) -> None:
        if self._timer is None and self._task is not None:
            loop = asyncio.get_running_loop()
            # Who was silent is written at once: only what follows waits, so that it goes together.
            self._timer = loop.call_at(max(loop.time(), self._flushed_at + self._flush_s), self._go.set)

    async def _run(self) -> None:
        attempt = 0
        while True:
            await self._go.wait()
            self._go.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            await self._until_held()
            self._flushed_at = asyncio.get_running_loop().time()
            try:
                await self._flush()
                self.refused = False
                attempt = 0
            except BusError as error:
                self.refused = True
                log.warning("journal_write_failed", runs=len(self._due), error=str(error.__cause__ or error))
                await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)] * random.uniform(0.5, 1.5))
                attempt += 1
                self._go.set()
            except Exception:  # a fault of ours must not stop every run of this node
                log.exception("journal_crashed")
                await asyncio.sleep(_RETRY_S[-1])
                self._go.set()
            if self._due or self._leaving or self._erasing or self._news:
                self._soon()

    async def _until_held(self) -> None:
        if self._bus.held:
            return
        while not self._bus.held:  # noqa: ASYNC110 - it depends on the time, so that nobody could set an event
            await asyncio.sleep(_HELD_LOOK_S)
        self.on_resumed()

    async def _flush(self) -> None:
        parts = self._take()
        leaving, self._leaving = self._leaving, []
        erasing, self._erasing = self._erasing, []
        news, self._news = self._news, []
        before = [*self._before(parts, leaving), *news]
        calls = [part.call for part in parts] + erasing
        if not calls and not before:
            return
        begun = self._clock.monotonic()
        try:
            replies = await run_scripts(self._bus.commands, calls, before)
        except BaseException:
            self._leaving += leaving
            self._erasing += erasing
            self._news = news + self._news
            for part in parts:
                self._give_back(part)
            raise
        self.flushes.add(self._clock.monotonic() - begun)
        failure = self._judge(parts, replies[: len(parts)])
        if failure is not None:
            raise BusError("Redis refused a write to the journal.") from failure

    def _take(self) -> list[Part]:
        terms = self._terms()
        parts: list[Part] = []
        size = 0
        for live in list(self._due):
            del self._due[live]
            try:
                part = take(live, terms)
            except Exception:  # one run that cannot be written must not hold up the others
                log.exception("journal_part_crashed", response_id=live.run_id)
                continue
            parts.append(part)
            size += part.size
            if part.version < 0:
                self._due[live] = None
            if size >= _PIPELINE_BYTES:
                break
        return parts

    def _before(self, parts: list[Part], leaving: list[str]) -> list[Command]:
        """Commands that come first: a run is listed before it has a log, and stays listed until it has ended.

        Every key runs out some time, so that nothing stays of a cluster that is never started again.
        """
        own = keys.node_runs(self._bus.node)
        ttl_ms = int(self._ttl_s * 1000)
        commands: list[Command] = []
        joining = [part.live.run_id for part in parts if not part.live.registered]
        if joining:
            commands += [["SADD", own, *joining]]
        if joining or (parts and self._clock.monotonic() - self._kept_at > self._ttl_s / 8):
            commands += [["PEXPIRE", own, ttl_ms]]
            self._kept_at = self._clock.monotonic()
        if leaving:
            commands += [["SREM", own, *leaving]]
        if ending := [part.live.run_id for part in parts if part.to_be_moved]:
            now_ms = int(self._clock.now() * 1000)
            pairs = [value for run_id in ending for value in (now_ms, run_id)]
            commands += [["ZADD", keys.ENDED, *pairs], ["PEXPIRE", keys.ENDED, ttl_ms]]
        return commands

    def _judge(self, parts: list[Part], replies: list[Any]) -> Exception | None:
        failure: Exception | None = None
        for part, reply in zip(parts, replies, strict=True):
            live = part.live
            live.registered = True
            if live.over:
                if live.leaves:
                    self._leaving.append(live.run_id)
            elif isinstance(reply, Exception):
                failure = reply
                self._give_back(part)
            else:
                try:
                    self._answered(part, reply)
                except Exception:
                    log.exception("journal_answer_crashed", response_id=live.run_id)
                    self._give_back(part)
        return failure

    def _answered(self, part: Part, reply: list[Any]) -> None:
        live, answer = part.live, bytes(reply[0])
        if answer == b"ok":
            live.mode = "on"
            self.on_taken(part, int(reply[1]))
            return
        if answer == b"lost":
            if bytes(reply[1]).decode() == self._bus.node:
                live.fence = max(live.fence, int(reply[2]))  # raised by us while this was on its way
                self._give_back(part)
            else:
                self.on_lost(live)
            return
        if answer == b"ended":
            # It was written before, and the answer was lost; only with our fence can it have been.
            if part.ends:
                self.on_taken(part, live.log_bytes)
            else:
                self.on_lost(live)
            return
        self._give_back(part)
        head = int(reply[1]) if answer == b"head" else -1
        if answer == b"head" and live.log.first - 1 <= head <= live.log.head:
            live.written_up_to(head)
        else:
            self.on_gone(live)

    def _give_back(self, part: Part) -> None:
        part.live.all_due()
        if not part.live.over:
            self._due[part.live] = None
