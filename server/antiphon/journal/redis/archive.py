"""Moves logs of ended runs from Redis to the store, where they stay for their retention."""

from __future__ import annotations

import asyncio
import contextlib

import orjson
import structlog

from antiphon.bus.redis import keys
from antiphon.errors import StorageError
from antiphon.journal.contract import LiveRun
from antiphon.journal.redis.chunks import Merger
from antiphon.journal.redis.exchange import ask, ask_all
from antiphon.journal.redis.flusher import RedisSide
from antiphon.journal.redis.meta import encode_epochs, live_run
from antiphon.journal.redis.reading import FIRST_ENTRIES, Entry, entries, next_count, number_of
from antiphon.ports import Clock
from antiphon.settings import Settings
from antiphon.store import records
from antiphon.store.moved import Moved, keep_log
from antiphon.store.records import Ending
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_LEFT_BEHIND_S = 60.0
"""Age from which any node moves a log: its own node has had its time."""

_AGAIN_S = 5.0
"""After a move that the store refused."""

_CLOSE_WITHIN_S = 5.0
_MOVES_AT_ONCE = 4
_SWEEP_RUNS = 500
"""Logs looked at in one sweep; the next one goes on."""


class Archive:
    """Moves this node's logs right after the end of their runs, and those that dead nodes left behind."""

    def __init__(self, bus: RedisSide, writer: Writer, settings: Settings, clock: Clock) -> None:
        self._bus = bus
        self._writer = writer
        self._linger_ms = int(settings.bus.linger_s * 1000)
        self._clock = clock
        self._waiting: dict[str, None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._moving = 0
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def start(self) -> None:
        """Begin to move; call it in the event loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._work(), name="archive") for _ in range(_MOVES_AT_ONCE)]

    async def aclose(self) -> None:
        """What cannot be moved in a moment is left to another node."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await self._idle.wait()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks = []

    def moved_soon(self, run_id: str) -> None:
        """A run of this node has ended."""
        self._waiting[run_id] = None
        self._idle.clear()
        self._news.set()

    async def sweep(self) -> int:
        """Move what was left behind; gives how many logs. Raises BusError."""
        until_ms = int((self._clock.now() - _LEFT_BEHIND_S) * 1000)
        some = ("LIMIT", 0, _SWEEP_RUNS)
        old = await ask(self._bus.commands, "ZRANGEBYSCORE", keys.ENDED, "-inf", until_ms, *some)
        moved = 0
        for member in old:
            with contextlib.suppress(StorageError):
                moved += await self.move(member.decode())
        return moved

    async def move(self, run_id: str) -> bool:
        """Move one log, if its run has ended and has a row; two nodes may do it at once. Raises StorageError."""
        meta: dict[bytes, bytes] = await ask(self._bus.commands, "HGETALL", keys.run_meta(run_id))
        run = live_run(run_id, meta)
        if run is None or not run.ended:
            # Gone, or its end is still to be appended; that lists it again.
            await self._leave(run_id, expire=False)
            return False
        moved = await self._copy(run)
        if moved == "no row":
            return False
        if moved == "kept" and b"undecided" in meta:
            await self._settle_row(run, int(meta[b"undecided"]))
        await self._leave(run_id, expire=True)
        return moved == "kept"

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            if not self._waiting:
                self._news.clear()
                continue
            run_id = next(iter(self._waiting))
            del self._waiting[run_id]
            self._moving += 1
            try:
                await self.move(run_id)
            except StorageError as error:
                # It stays listed: should this node die meanwhile, a sweep of another one moves it.
                log.warning("move_failed", response_id=run_id, error=str(error.__cause__ or error))
                asyncio.get_running_loop().call_later(_AGAIN_S, self.moved_soon, run_id)
            except Exception:
                log.exception("move_crashed", response_id=run_id)
            finally:
                self._moving -= 1
                if not self._moving and not self._waiting:
                    self._idle.set()

    async def _copy(self, run: LiveRun) -> Moved:
        merger, start, count = Merger(run.id), "-", FIRST_ENTRIES
        epochs = encode_epochs(run.epochs).decode()
        while True:
            page = await entries(self._bus, run.id, start, count)
            for entry in page:
                merger.add(number_of(entry), entry[1][b"p"])
            more = len(page) == count
            chunks = merger.full() if more else merger.finish()
            work = keep_log(run.id, epochs, run.fence, chunks)
            moved = await asyncio.shield(self._writer.submit(work))
            if moved != "kept" or not more:
                return moved
            start, count = "(" + page[-1][0].decode(), next_count(page)

    async def _settle_row(self, run: LiveRun, http_status: int) -> None:
        """A terminal that could not be written into the row in time is in the log alone: what was shown wins."""
        newest = await self._newest_event(run.id)
        if newest is None:
            return
        number, terminal = newest
        response = orjson.loads(terminal)["response"]
        ending = Ending(
            id=run.id,
            fence=run.fence,
            status=response["status"],
            ended_at=orjson.loads(run.state)["updated_at"],
            context_output=b"",
            open_calls=b"[]",
            response=orjson.dumps(response),
            run_state=run.state,
            terminal_event=terminal,
            terminal_number=number,
            http_status=http_status,
        )
        await asyncio.shield(self._writer.submit(records.overrule(ending)))

    async def _newest_event(self, run_id: str) -> tuple[int, bytes] | None:
        newest: list[Entry] = await ask(
            self._bus.commands, "XREVRANGE", keys.run_log(run_id), "+", "-", "COUNT", 1
        )
        if not newest:
            return None
        events = newest[0][1][b"p"].split(b"\n")
        return number_of(newest[0]) + len(events) - 1, events[-1]

    async def _leave(self, run_id: str, *, expire: bool) -> None:
        """Take it off the list; its keys linger for who reads them just now."""
        linger = [(name(run_id), self._linger_ms) for name in (keys.run_meta, keys.run_log)] if expire else []
        steps = [("PEXPIRE", key, ttl_ms) for key, ttl_ms in linger]
        await ask_all(self._bus.commands, [*steps, ("ZREM", keys.ENDED, run_id)])
