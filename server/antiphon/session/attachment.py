"""One reader of one run on one lane of one socket: replay, then live, never a hole.

Live batches are written as they come. When the socket is full the attachment is parked: it lets batches pass and
reads the log on from its own position once there is room. The run never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

import structlog

from antiphon.errors import StorageError
from antiphon.journal.contract import Journal
from antiphon.journal.frames import Batch
from antiphon.journal.log import RunLog
from antiphon.session.socket import Socket

log = structlog.get_logger(__name__)

PAGE_BYTES = 256 * 1024
"""How much is read and written at once while catching up."""

_READ_AGAIN_S = 0.5

EndReason = Literal["ended", "cursor_expired", "epoch_changed"]


class Attachment:
    """Delivers events after `after`. last: number of the last event written. last_write: loop time of it.

    on_caught_up: called once, when everything that was there at the start has been written. on_parked: called each
    time it falls behind a live run.
    on_end: called once: the terminal event was written, the log no longer reaches back, or it forked at or before
    what was written, so that this is no longer what happened.
    """

    def __init__(
        self,
        run_log: RunLog,
        journal: Journal,
        socket: Socket,
        stream_id: str | None,
        after: int,
        on_end: Callable[[EndReason], None],
        on_caught_up: Callable[[], None] | None = None,
        on_parked: Callable[[], None] | None = None,
    ) -> None:
        self.log = run_log
        self.stream_id = stream_id
        self.last = after
        self._journal = journal
        self._socket = socket
        self._on_end = on_end
        self._on_caught_up = on_caught_up
        self._on_parked = on_parked
        self._loop = asyncio.get_running_loop()
        self.last_write = self._loop.time()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._live = False
        self._forks = 0
        self._stopped = False

    def start(self) -> None:
        """Begin. What is in memory and fits goes out at once, the rest in a task."""
        self.log.listen(self._on_batch, self._on_fork)
        page = self.log.page(self.last, PAGE_BYTES)
        if page is not None and not self._socket.full:
            self._write(page)
        if self.last == self.log.shown:
            self._go_live()
        else:
            self._catch_up_in_task()

    def stop(self) -> None:
        """No more events; `on_end` will not be called."""
        self._stopped = True
        self.log.unlisten(self._on_batch)
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def wake(self) -> None:
        """The socket has room again, or is gone."""
        self._room.set()

    def _go_live(self) -> None:
        if self._on_caught_up is not None:
            self._on_caught_up()
            self._on_caught_up = None
        if self.log.ended:
            self._end("ended")
        else:
            self._live = True

    def _on_batch(self, batch: Batch) -> None:
        if not self._live:
            return  # the task reads it from the log
        if self._socket.full or batch.first != self.last + 1:
            self._live = False
            if self._on_parked is not None:
                self._on_parked()
            self._catch_up_in_task()
            return
        self._socket.write_frames(batch.frames(self.stream_id))
        self.last = batch.last
        self.last_write = self._loop.time()
        if self.log.ended and self.last == self.log.head:
            self._end("ended")

    def _on_fork(self, first: int) -> None:
        """Events from `first` on are void: another owner writes them again, in a new epoch."""
        self._forks += 1
        if self.last >= first:
            self._end("epoch_changed")

    def _catch_up_in_task(self) -> None:
        self._task = self._loop.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Read on from the last event written until nothing is left, then go live in the same step."""
        while self.last < self.log.shown:
            while self._socket.full and self._socket.open:
                self._room.clear()
                await self._room.wait()
            if not self._socket.open:
                return
            forks = self._forks
            try:
                page = await self._journal.read(self.log, self.last, PAGE_BYTES)
            except StorageError:
                log.warning("replay_read_failed", response_id=self.log.run_id)
                await asyncio.sleep(_READ_AGAIN_S)
                continue
            if forks != self._forks:
                continue  # some of it may be void by now
            if page is None or not page:
                self._task = None
                self._end("cursor_expired")
                return
            if self._socket.full:
                continue  # others wrote meanwhile; this page is read again when there is room
            self._write(page)
            await asyncio.sleep(0)  # a long replay leaves the loop to others between pages
        self._task = None
        self._go_live()

    def _write(self, page: list[bytes]) -> None:
        if page:
            batch = Batch(self.last + 1, page)
            self._socket.write_frames(batch.frames(self.stream_id))
            self.last = batch.last
            self.last_write = self._loop.time()

    def _end(self, reason: EndReason) -> None:
        if not self._stopped:
            self.stop()
            self._on_end(reason)
