"""The feed of one tenant on this node: read once, encoded once, written to everybody who subscribes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

from antiphon.core.feed_frames import FeedFrames, FeedMessage, ResetReason
from antiphon.core.feed_log import Change, FeedEntry, FeedLog, FeedRows, changes, shown_at
from antiphon.core.feed_progress import Progress
from antiphon.core.feed_scope import FeedScope
from antiphon.ops.feed.subscription import PAGE_BYTES, FeedSink, FeedSubscription
from antiphon.ports import Clock

Mode = Literal["all", "latest"]

_COLLECT_S = 0.01
"""What happens within this time is written together."""
_SHARE = 8
"""Writing takes at most one part in so many of the loop's time: many subscribers get larger batches."""
_LONGEST_COLLECT_S = 1.0


class Snapshot:
    """The rows that an audience gets at one moment, in pages of a write each.

    A page is encoded once, however many subscribe, and when it is wanted: who reads nothing costs little.
    """

    def __init__(self, frames: FeedFrames, entries: Sequence[FeedEntry]) -> None:
        self.run_ids = frozenset(entry.run_id for entry in entries)
        self._frames = frames
        self._parts = _parts(entries)
        self._pages: dict[tuple[str, int], bytes] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def page(self, number: int, sink: FeedSink) -> bytes:
        """Items as this kind of sink takes them. number: from 0 on."""
        page = self._pages.get((sink.encoding, number))
        if page is None:
            page = b"".join([sink.encode(self._frames.item(entry)) for entry in self._parts[number]])
            self._pages[sink.encoding, number] = page
        return page


def _parts(entries: Sequence[FeedEntry]) -> list[Sequence[FeedEntry]]:
    """The entries in their order, in parts of about PAGE_BYTES."""
    parts: list[Sequence[FeedEntry]] = []
    first = size = 0
    for end, entry in enumerate(entries, 1):
        size += len(entry.row)
        if size >= PAGE_BYTES or end == len(entries):
            parts.append(entries[first:end])
            first, size = end, 0
    return parts


class Audience:
    """Subscriptions that are told the same. read: up to which number they were told. live: those that keep up."""

    def __init__(self, scope: FeedScope, *, latest: bool) -> None:
        self.scope = scope
        self.latest = latest
        self.read = 0
        self.shown: set[str] = set()
        self.live: dict[FeedSubscription, None] = {}
        self.members = 0
        self.snapshot: Snapshot | None = None
        """What a new member gets, until something happens."""


class FeedView:
    """Rows and newest entries of one tenant, and who is told of them.

    sure: whether nothing can have happened that it does not know, so that a bookmark is true. coalesced: changes
    that slow readers got together with a later one.
    """

    def __init__(self, tenant: str, clock: Clock) -> None:
        self.tenant = tenant
        self.frames = FeedFrames(tenant)
        self.log = FeedLog("")
        self.rows = FeedRows()
        self.sure = True
        self.coalesced = 0
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._audiences: dict[tuple[FeedScope, bool], Audience] = {}
        self._subscriptions: dict[FeedSubscription, None] = {}
        self._flushing: asyncio.TimerHandle | None = None
        self._flush_from = 0.0
        """Loop time before which nothing is written again."""
        self._progress: dict[str, Progress] = {}
        self._with_snapshot: set[Audience] = set()
        """Audiences that have one: few at a time, however many there are."""

    @property
    def subscriptions(self) -> int:
        return len(self._subscriptions)

    # What is read

    def begin(self, log: FeedLog, rows: FeedRows, reason: ResetReason = "epoch") -> None:
        """Know this from now on. Whoever subscribed before begins anew."""
        self.log, self.rows = log, rows
        for audience in self._audiences.values():
            self._look_anew(audience)
        for subscription in list(self._subscriptions):
            subscription.begin_anew(reason)

    def take(self, entries: Iterable[FeedEntry]) -> None:
        """The next entries; they are told soon. Raises ValueError if they do not follow."""
        for entry in entries:
            self.log.append(entry)
            self.rows.apply(entry)
        self._changed()
        if self._flushing is None and self._audiences:
            wait_s = max(_COLLECT_S, self._flush_from - self._loop.time())
            self._flushing = self._loop.call_later(wait_s, self._flush_soon)

    def progressed(self, runs: Iterable[Progress]) -> None:
        """Runs moved; told with the next `tell_progress`."""
        for run in runs:
            self._progress[run.run_id] = run

    # Who is told

    def subscribe(
        self,
        scope: FeedScope,
        mode: Mode,
        sink: FeedSink,
        *,
        position: tuple[str, int] | None = None,
        command_id: str | None = None,
    ) -> FeedSubscription:
        """Tell a sink from a snapshot on, or from a position. command_id: what the initial bookmark answers."""
        audience = self._audience(scope, mode == "latest")
        audience.members += 1
        subscription = FeedSubscription(self, audience, sink, command_id)
        self._subscriptions[subscription] = None
        if position is None:
            subscription.begin()
        elif position[0] != self.log.epoch:
            subscription.begin_anew("epoch")
        elif self.log.after(position[1]) is None:
            subscription.begin_anew("too_old")
        else:
            subscription.resume(position[1], shown_at(self.log, position[1], scope))
        return subscription

    def narrow(self, subscription: FeedSubscription, scope: FeedScope) -> None:
        """The subscription may see less from now on."""
        before = subscription.audience
        other = self._audience(scope, before.latest)
        other.members += 1
        subscription.begin_anew("access", other)
        self._leave(before)

    def left(self, subscription: FeedSubscription) -> None:
        """A subscription is over."""
        if subscription in self._subscriptions:
            del self._subscriptions[subscription]
            self._leave(subscription.audience)

    def snapshot(self, audience: Audience) -> Snapshot:
        """What an audience is shown at this moment."""
        if audience.snapshot is None:
            audience.snapshot = Snapshot(self.frames, self._shown_to(audience))
            self._with_snapshot.add(audience)
        return audience.snapshot

    def flush(self, audience: Audience) -> None:
        """Write to an audience what it was not told yet."""
        if audience.read == self.log.head:
            return
        for subscription in [one for one in audience.live if one.sink.full or not one.sink.open]:
            subscription.fall_behind(audience.shown)
        entries = self.log.after(audience.read)
        if entries is None:  # more came at once than is kept
            self._look_anew(audience)
            for subscription in list(audience.live):
                subscription.begin_anew("too_old")
            return
        told = changes(entries, audience.scope, audience.shown, coalesce=audience.latest)
        audience.read = self.log.head
        if told:
            self._write(audience, told)

    # From time to time

    def expire(self) -> None:
        """Runs that ended more than a minute ago are shown no more."""
        gone = self.rows.expire(self._clock.now())
        if gone:
            for audience in self._audiences.values():
                audience.shown.difference_update(gone)
            self._changed()

    def flush_all(self, *, latest: bool) -> None:
        """latest: also to those who want changes that come close together as one."""
        for audience in list(self._audiences.values()):
            if latest or not audience.latest:
                self.flush(audience)

    def tell_progress(self) -> None:
        """How far runs have come, to those who are shown them."""
        moved, self._progress = self._progress, {}
        if not moved:
            return
        for audience in list(self._audiences.values()):
            shown = moved.keys() & audience.shown if audience.live else ()
            if shown:
                self._write_to_all(audience, self.frames.progress(moved[run_id].row() for run_id in shown))

    def tell_bookmark(self) -> None:
        """Everybody who keeps up has everything up to here."""
        if not self.sure:
            return
        self.flush_all(latest=True)
        bookmark = self.frames.bookmark(self.log.epoch, self.log.head)
        for audience in list(self._audiences.values()):
            for subscription in self._write_to_all(audience, bookmark):
                subscription.prev = self.log.head

    def close(self) -> None:
        """Nobody is told anything any more."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None

    # Inside

    def _audience(self, scope: FeedScope, latest: bool) -> Audience:
        audience = self._audiences.get((scope, latest))
        if audience is None:
            audience = self._audiences[scope, latest] = Audience(scope, latest=latest)
            self._look_anew(audience)
        return audience

    def _leave(self, audience: Audience) -> None:
        audience.members -= 1
        if audience.members == 0:
            del self._audiences[audience.scope, audience.latest]
            self._with_snapshot.discard(audience)

    def _look_anew(self, audience: Audience) -> None:
        audience.read, audience.snapshot = self.log.head, None
        audience.shown = {entry.run_id for entry in self._shown_to(audience)}

    def _shown_to(self, audience: Audience) -> list[FeedEntry]:
        return [entry for entry in self.rows if audience.scope.passes(entry.facts)]

    def _changed(self) -> None:
        """What a new member would get is not the same any more. Called for each event: it looks at nobody else."""
        for audience in self._with_snapshot:
            audience.snapshot = None
        self._with_snapshot.clear()

    def _flush_soon(self) -> None:
        self._flushing = None
        began = self._loop.time()
        self.flush_all(latest=False)
        ended = self._loop.time()
        self._flush_from = ended + min((_SHARE - 1) * (ended - began), _LONGEST_COLLECT_S)

    def _write(self, audience: Audience, told: Sequence[Change]) -> None:
        """The same bytes to all whose last frame was the same."""
        encoded: dict[tuple[int, str], bytes] = {}
        last = told[-1].entry.rev
        for subscription in list(audience.live):
            sink = subscription.sink
            data = encoded.get((subscription.prev, sink.encoding))
            if data is None:
                data = encoded[subscription.prev, sink.encoding] = self._encode(told, subscription.prev, sink)
            sink.write(data)
            subscription.prev = last

    def _encode(self, told: Sequence[Change], prev: int, sink: FeedSink) -> bytes:
        parts: list[bytes] = []
        for change in told:
            parts.append(sink.encode(self.frames.delta(self.log.epoch, change, prev)))
            prev = change.entry.rev
        return b"".join(parts)

    def _write_to_all(self, audience: Audience, message: FeedMessage) -> list[FeedSubscription]:
        """To those that keep up and have room; gives them."""
        encoded: dict[str, bytes] = {}
        written: list[FeedSubscription] = []
        for subscription in list(audience.live):
            sink = subscription.sink
            if sink.full or not sink.open:
                continue
            if sink.encoding not in encoded:
                encoded[sink.encoding] = sink.encode(message)
            sink.write(encoded[sink.encoding])
            written.append(subscription)
        return written
