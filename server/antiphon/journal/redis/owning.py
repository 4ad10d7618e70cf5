"""Whose a run is: found, taken, taken back, given away. Every change is a compare-and-set in Redis."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

from antiphon.bus.redis import keys
from antiphon.errors import BusError, StorageError
from antiphon.journal.contract import LiveRun
from antiphon.journal.log import RunLog
from antiphon.journal.redis import hints
from antiphon.journal.redis.exchange import ask, ask_all
from antiphon.journal.redis.flusher import RedisSide
from antiphon.journal.redis.live import Live
from antiphon.journal.redis.meta import LOOKED_AT, encode_epochs, live_run
from antiphon.journal.redis.scripts import ADOPT, CONCLUDE, RELEASE, RETAKE, Call, run_script, run_scripts
from antiphon.ports import Clock
from antiphon.store import records
from antiphon.store.responses import ResponseReader
from antiphon.store.writing import Writer

_RUNS_AT_ONCE = 100

_OWNED_AT_ONCE = 400
"""Runs of a node that are given at a time: each brings its state and its checkpoint."""


class Ownership:
    """ttl_ms: how long a run's keys stay after they were last written."""

    def __init__(
        self, bus: RedisSide, writer: Writer, reader: ResponseReader, clock: Clock, ttl_ms: int, grace_ms: int
    ) -> None:
        self._bus = bus
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._grace_ms = grace_ms

    async def find(self, run_id: str) -> LiveRun | None:
        """See `Journal.find`."""
        return (await self._look([run_id]))[0]

    async def find_all(self, run_ids: Sequence[str]) -> dict[str, LiveRun | None]:
        """See `Journal.find_all`."""
        found: dict[str, LiveRun | None] = {}
        for start in range(0, len(run_ids), _RUNS_AT_ONCE):
            some = run_ids[start : start + _RUNS_AT_ONCE]
            found |= zip(some, await self._look(some), strict=True)
        return found

    async def missing(self, logs: Sequence[RunLog]) -> list[RunLog]:
        """Those that lack one of their keys. Raises BusError."""
        gone: list[RunLog] = []
        for start in range(0, len(logs), _RUNS_AT_ONCE):
            some = logs[start : start + _RUNS_AT_ONCE]
            looks = [("EXISTS", keys.run_meta(log.run_id), keys.run_log(log.run_id)) for log in some]
            there = await ask_all(self._bus.commands, looks)
            gone += [log for log, count in zip(some, there, strict=True) if count < 2]
        return gone

    async def erase(self, run_id: str) -> None:
        """See `Journal.erase`."""
        await self._do("DEL", keys.run_meta(run_id), keys.run_log(run_id))

    async def register(self, run_id: str) -> None:
        """This node begins a run whose row comes before its log. Raises BusError."""
        await self._list("SADD", keys.node_runs(self._bus.node), run_id)

    async def owned_by(self, node: str) -> list[LiveRun]:
        """See `Journal.owned_by`. What has ended is left to the archive, and no longer the node's."""
        place = keys.node_runs(node) if node else keys.RELEASED
        ids = sorted(member.decode() for member in await self._do("SMEMBERS", place))
        owned: list[LiveRun] = []
        for start in range(0, len(ids), _RUNS_AT_ONCE):
            some = ids[start : start + _RUNS_AT_ONCE]
            found = await self._look(some)
            if node and node != self._bus.node:
                found = [
                    run or await self._without_log(run_id, node) for run_id, run in zip(some, found, strict=True)
                ]
            owned += [run for run in found if run is not None and run.owner == node and not run.ended]
            await self._tidy(node, place, dict(zip(some, found, strict=True)))
            if len(owned) >= _OWNED_AT_ONCE:
                break
        return owned

    async def _without_log(self, run_id: str, node: str) -> LiveRun | None:
        """An unfinished run of which only the row is there."""
        row = await self._reader.find(run_id)
        if row is None or row.terminal_event is not None:
            return None
        return LiveRun(
            id=run_id,
            owner=node,
            fence=row.fence,
            epochs=row.epochs,
            head=await self._reader.head(run_id),
            first=0,
            stored=True,
            ended=False,
            state=row.run_state,
        )

    async def _tidy(self, node: str, place: str, found: dict[str, LiveRun | None]) -> None:
        """Ended runs go to the archive's list; those that are gone or another's are not looked at again."""
        for run in found.values():
            if run is not None and run.ended and run.stored:
                await self._list("ZADD", keys.ENDED, "NX", int(self._clock.now() * 1000), run.id)
        # What is being released is listed before nobody owns it: an owner that lives keeps its place there.
        stale = [
            run_id for run_id, run in found.items() if run is None or run.ended or (run.owner != node and node)
        ]
        if stale and node != self._bus.node:
            await self._do("SREM", place, *stale)

    async def adopt(self, run: LiveRun) -> LiveRun | None:
        """See `Journal.adopt`. The row's fence is raised after the log's: from here on only this node decides the
        terminal."""
        await self._list("SADD", keys.node_runs(self._bus.node), run.id)
        fence = await self._compare_and_set(run, run.owner, run.fence)
        if fence == 0:
            current = await self.find(run.id)
            if current is None or current.owner != self._bus.node:
                await self._do("SREM", keys.node_runs(self._bus.node), run.id)
            return None
        stored = run.stored
        try:
            while stored:
                row_fence = await asyncio.shield(self._writer.submit(records.take_over(run.id, None, fence)))
                if row_fence == 0:
                    stored = False  # its row was never written: the log alone is left to decide
                elif row_fence <= fence:
                    break
                else:
                    # Redis had forgotten an owner: only a fence above its own keeps it out for good.
                    fence = await self._compare_and_set(run, self._bus.node, fence, at_least=row_fence)
                    if fence == 0:
                        return None
        except StorageError:
            await self._give_back(run.id, fence)
            raise
        if run.owner != self._bus.node:
            await self._do("SREM", keys.node_runs(run.owner) if run.owner else keys.RELEASED, run.id)
        found = live_run(run.id, await self._do("HGETALL", keys.run_meta(run.id)))
        if found is None or found.owner != self._bus.node:
            return None
        return dataclasses.replace(found, stored=stored)

    async def _compare_and_set(self, run: LiveRun, owner: str, fence: int, at_least: int = 0) -> int:
        lost_meta: Sequence[Any] = (
            *("head", run.head, "first", run.head + 1, "bytes", 0, "epochs", encode_epochs(run.epochs)),
            *("stored", int(run.stored), "state", run.state),
        )
        args = (owner, fence, self._bus.node, self._ttl_ms, self._bus.publish_command, hints.NO_EVENTS, at_least)
        run_keys = (keys.run_meta(run.id), keys.run_hint(run.id))
        return int(await run_script(self._bus.commands, ADOPT, run_keys, (*args, *lost_meta)))

    async def _give_back(self, run_id: str, fence: int) -> None:
        """It was taken and cannot be gone on with here now: any node may try."""
        await self.release(run_id, fence)

    async def retake(self, lives: Sequence[Live]) -> list[tuple[Live, list[Any]]]:
        """Raise the fence of runs that are this node's; the script's answer for each. Raises StorageError.

        Where Redis has forgotten a run, its row still knows whether another node had taken it.
        """
        calls: list[Call] = [
            (RETAKE, (keys.run_meta(live.run_id),), (self._bus.node, live.fence)) for live in lives
        ]
        answers: list[tuple[Live, list[Any]]] = []
        for start in range(0, len(calls), _RUNS_AT_ONCE):
            replies = await run_scripts(self._bus.commands, calls[start : start + _RUNS_AT_ONCE])
            for live, reply in zip(lives[start : start + _RUNS_AT_ONCE], replies, strict=True):
                if isinstance(reply, Exception):
                    raise BusError("Redis refused to give a run back.") from reply
                answers.append((live, reply))
        gone = [live.run_id for live, reply in answers if reply[0] == b"gone" and live.log.stored]
        fences = await self._reader.fences(gone) if gone else {}
        return [(live, [b"lost"] if fences.get(live.run_id, 0) > live.fence else reply) for live, reply in answers]

    async def release(self, run_id: str, fence: int) -> bool:
        """Nobody owns the run from here on; False if another node does. Raises BusError."""
        await self._list("SADD", keys.RELEASED, run_id)
        args = (self._bus.node, fence, self._bus.publish_command, hints.NO_EVENTS)
        run_keys = (keys.run_meta(run_id), keys.run_hint(run_id))
        released = int(await run_script(self._bus.commands, RELEASE, run_keys, args)) == 1
        await self._do("SREM", keys.node_runs(self._bus.node), run_id)
        return released

    async def conclude(self, run: LiveRun, terminal: bytes, number: int) -> bool:
        """End the log of a run of this node whose row is decided; False if another has it. Raises StorageError."""
        row = await self._reader.find(run.id)
        state = row.run_state if row is not None else run.state
        if run.stored:
            await self._list("ZADD", keys.ENDED, int(self._clock.now() * 1000), run.id)
        ttl_ms = self._ttl_ms if run.stored else self._grace_ms
        args = (self._bus.node, run.fence, number, terminal, ttl_ms, self._bus.publish_command, "state", state)
        run_keys = (keys.run_meta(run.id), keys.run_log(run.id), keys.run_hint(run.id))
        done = int(await run_script(self._bus.commands, CONCLUDE, run_keys, args)) == 1
        await self._do("SREM", keys.node_runs(self._bus.node), run.id)
        return done

    async def _look(self, run_ids: Sequence[str]) -> list[LiveRun | None]:
        looks = [("HMGET", keys.run_meta(run_id), *LOOKED_AT) for run_id in run_ids]
        metas = await ask_all(self._bus.commands, looks)
        named = [{name.encode(): value for name, value in zip(LOOKED_AT, meta, strict=True)} for meta in metas]
        return [
            live_run(run_id, {name: value for name, value in meta.items() if value is not None})
            for run_id, meta in zip(run_ids, named, strict=True)
        ]

    async def _list(self, command: str, place: str, *entry: str | int) -> None:
        """Put a run into a set that runs out some time."""
        await ask_all(self._bus.commands, [(command, place, *entry), ("PEXPIRE", place, self._ttl_ms)])

    async def _do(self, *command: str | int) -> Any:
        return await ask(self._bus.commands, *command)
