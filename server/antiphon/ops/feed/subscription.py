"""One subscriber of a feed, from its first item on: never a hole, and never in anybody's way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from antiphon.core.feed_frames import FeedMessage, ResetReason
from antiphon.core.feed_log import Change, changes

if TYPE_CHECKING:
    from antiphon.ops.feed.view import Audience, FeedView, Snapshot

PAGE_BYTES = 64 * 1024
"""How much is put together for one write."""


class FeedSink(Protocol):
    """Where a subscription writes. Writing never waits; `full` tells when to stop until `wake`.

    encoding: sinks of one encoding take the same bytes.
    """

    encoding: str

    @property
    def full(self) -> bool: ...

    @property
    def open(self) -> bool:
        """False once nobody is there."""
        ...

    def encode(self, message: FeedMessage) -> bytes: ...

    def write(self, data: bytes) -> None: ...


class FeedSubscription:
    """While it is live its audience is written to. Else it catches up by itself: with the items it was promised,
    then with what happened since. prev: number of the last bookmark or delta written.
    """

    def __init__(self, view: FeedView, audience: Audience, sink: FeedSink, command_id: str | None) -> None:
        self._view = view
        self.audience = audience
        self.sink = sink
        self._command_id = command_id
        self._reset: ResetReason | None = None
        self._snapshot: Snapshot | None = None
        """Where items are still to be written of it, or the bookmark after them."""
        self._next_page = 0
        self._shown: set[str] = set()
        self._read = 0
        """Up to which number entries have been told, while it is not live."""
        self._slow = False
        """It did not take all there was: from here on only the newest entry of each run counts."""
        self._closed = False
        self.prev = 0

    def begin(self) -> None:
        """Give everything from a snapshot on."""
        self._view.flush(self.audience)
        self._snapshot, self._next_page = self._view.snapshot(self.audience), 0
        self._read = self._view.log.head
        self.wake()

    def resume(self, rev: int, shown: set[str]) -> None:
        """Give what happened after `rev`, of whoever was shown these runs by then."""
        self._shown, self._read = shown, rev
        self._write_bookmark()
        self.wake()

    def begin_anew(self, reason: ResetReason, audience: Audience | None = None) -> None:
        """Tell the client to forget everything, and begin again; with another audience if one is given."""
        self.audience.live.pop(self, None)
        self.audience = audience or self.audience
        self._reset, self._slow = reason, False
        self.begin()

    def fall_behind(self, shown: set[str]) -> None:
        """Its sink is full: it goes on by itself once there is room. shown: to its audience, as it was told."""
        self.audience.live.pop(self, None)
        self._shown, self._read, self._slow = set(shown), self.audience.read, True

    def wake(self) -> None:
        """There may be room again."""
        if self._closed or self in self.audience.live or not self.sink.open or self.sink.full:
            return
        if self._reset is not None:
            self.sink.write(self.sink.encode(self._view.frames.reset(self._reset)))
            self._reset = None
        if self._snapshot is None or self._write_items(self._snapshot):
            self._catch_up()

    def close(self) -> None:
        """Nothing more is written."""
        self._closed = True
        self.audience.live.pop(self, None)
        self._view.left(self)

    def _write_items(self, snapshot: Snapshot) -> bool:
        """Whether all are out, and their bookmark."""
        while self._next_page < len(snapshot):
            if self.sink.full:
                return False
            self.sink.write(snapshot.page(self._next_page, self.sink))
            self._next_page += 1
        self._shown, self._snapshot = set(snapshot.run_ids), None
        self._write_bookmark()
        return True

    def _write_bookmark(self) -> None:
        self.prev = self._read
        bookmark = self._view.frames.bookmark(
            self._view.log.epoch, self._read, initial=True, command_id=self._command_id
        )
        self._command_id = None
        self.sink.write(self.sink.encode(bookmark))

    def _catch_up(self) -> None:
        """Tell what happened since; go live in the same step in which nothing is left."""
        self._view.flush(self.audience)
        entries = self._view.log.after(self._read)
        if entries is None:
            self.begin_anew("too_old")
            return
        coalesce = self._slow or self.audience.latest
        told = changes(entries, self.audience.scope, set(self._shown), coalesce=coalesce)
        at = 0
        while at < len(told):
            if self.sink.full:
                self._slow = True
                return
            at = self._write_page(told, at)
        self._read, self._slow = self._view.log.head, False
        self._shown = set()  # from here on its audience knows
        self.audience.live[self] = None

    def _write_page(self, told: Sequence[Change], at: int) -> int:
        """Write changes from `at` on; gives the first one that is not written."""
        page: list[bytes] = []
        size = 0
        while at < len(told) and size < PAGE_BYTES:
            change = told[at]
            page.append(self.sink.encode(self._view.frames.delta(self._view.log.epoch, change, self.prev)))
            size += len(page[-1])
            if change.op == "upsert":
                self._shown.add(change.entry.run_id)
            else:
                self._shown.discard(change.entry.run_id)
            if self._slow:
                self._view.coalesced += change.count - 1
            self.prev = self._read = change.entry.rev
            at += 1
        self.sink.write(b"".join(page))
        return at
