"""One open log, and what of it Redis has taken."""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from antiphon.bus.redis import keys
from antiphon.core.cursor import BEFORE_FIRST, Epochs
from antiphon.core.run_state import RunState
from antiphon.journal.log import RunLog
from antiphon.journal.redis.meta import encode_epochs
from antiphon.journal.redis.scripts import APPEND, Call
from antiphon.store.records import Chunk

_ENTRY_BYTES = 1024 * 1024
"""Events of one stream entry together; a longer backlog goes in several."""

_WHOLE_BYTES = 256 * 1024
"""A log up to this size is kept together with its end, in one row: it need not be moved."""

Mode = Literal["new", "on", "over"]


@dataclass(frozen=True, slots=True)
class Terminal:
    """What ends a run. state: its RunState row after it, encoded. http_status: of a terminal that its row does not
    have yet (`end_undecided`); -1: the row has it."""

    event: bytes
    state: bytes
    http_status: int = -1


@dataclass(slots=True, eq=False)
class Live:
    """A log that is written here.

    acked: last number that Redis has taken. mode: see `scripts.APPEND`. version: raised by every change;
    written: the one that Redis has taken. described: epochs and kind of the run stand in the meta. checkpoint: the
    newest one. unsent_bytes: events that Redis has not taken. log_bytes: its size in Redis. born: it began here.
    trimmed: some of it may have been moved to the store. registered: it stands in the node's set of runs. row:
    writes its row, None if that was there before. gated: nothing of it may go to Redis before its row. awaits_row:
    its row is not written yet. row_fence: the one in its row. epochs_changed: the row's are older. kept: the store
    has the whole log. news: channel and payload of what is published once it can be found. renewed_at: when its
    keys last got their expiry, by `Terms.now`. over: closed or lost. leaves: being over, it is nobody's here.
    """

    log: RunLog
    state: RunState
    fence: int
    acked: int
    mode: Mode
    version: int = 0
    written: int = 0
    described: bool = False
    state_due: bool = True
    checkpoint: tuple[int, bytes] | None = None
    checkpoint_due: bool = False
    terminal: Terminal | None = None
    unsent_bytes: int = 0
    log_bytes: int = 0
    born: bool = False
    trimmed: bool = False
    registered: bool = False
    row: asyncio.Task[None] | None = None
    gated: bool = False
    awaits_row: bool = False
    row_fence: int = 0
    epochs_changed: bool = False
    kept: bool = False
    news: tuple[str, bytes] | None = None
    renewed_at: float = -math.inf
    over: bool = False
    leaves: bool = False
    changed: asyncio.Event | None = None

    @property
    def run_id(self) -> str:
        return self.log.run_id

    @property
    def can_be_found(self) -> bool:
        """Whether other nodes see it in Redis and in the store."""
        return self.acked > BEFORE_FIRST and not self.awaits_row

    def wake(self) -> None:
        """Something that somebody may wait for has happened."""
        if self.changed is not None:
            self.changed.set()
            self.changed = None

    async def change(self, within_s: float) -> None:
        """Wait until `wake` is called, at most so long."""
        if self.changed is None:
            self.changed = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.changed.wait()

    def shows(self, terminal: bytes) -> bool:
        """Whether the run has ended with this terminal, or may still do so."""
        return not self.log.ended or self.log.since(self.log.head) == [terminal]

    def whole(self, terminal: bytes) -> Chunk | None:
        """All events with the terminal that follows, where they are few and none of them is in the store."""
        if not self.born or self.trimmed or self.log.first > 0 or self.log_bytes + len(terminal) > _WHOLE_BYTES:
            return None
        events = [*self.log.since(0), terminal]
        return self.run_id, 0, len(events) - 1, b"\n".join(events)

    def took(self, part: Part, log_bytes: int) -> None:
        """Redis has taken a part."""
        self.acked = part.last
        self.unsent_bytes = max(0, self.unsent_bytes - part.size)
        self.written = max(self.written, part.version)
        self.log_bytes = log_bytes
        self.log.mark_durable(min(part.last, self.log.head))

    def written_up_to(self, number: int) -> None:
        """Redis has events up to `number`, which may be less than it had taken; everything else is due again."""
        self.acked = number
        self.unsent_bytes = sum(map(len, self.log.since(number + 1)))
        self.log.mark_durable(min(number, self.log.head))
        self.all_due()

    def all_due(self) -> None:
        """It is not known what of the last flush was written: what may be written twice is."""
        self.described = False
        self.state_due = True
        self.renewed_at = -math.inf
        self.checkpoint_due = self.checkpoint is not None

    def restart(self, token: str) -> None:
        """Its log is lost in Redis: what memory still has is written again, in an epoch of its own."""
        self.log.epochs = Epochs(((token, self.log.first),))
        self.mode = "over"
        self.registered = False
        self.epochs_changed = True
        self.kept = False
        self.version += 1
        self.written_up_to(self.log.first - 1)


@dataclass(frozen=True, slots=True)
class Part:
    """What one flush writes of one run.

    version: of the run when everything was taken, -1 if events are left for the next flush.
    """

    live: Live
    fence: int
    first: int
    last: int
    size: int
    version: int
    ends: bool
    call: Call

    @property
    def to_be_moved(self) -> bool:
        """Whether the log is to be moved to the store from here on."""
        return self.ends and self.live.log.stored and not self.live.kept


@dataclass(frozen=True, slots=True)
class Terms:
    """What the calls of a node have in common. ttl_ms, grace_ms, linger_ms: expiry of the keys of a run, of an
    unstored one that has ended, and of one whose log is in the store. now: monotonic seconds.
    """

    node: str
    publish_command: str
    hint_bytes: int
    ttl_ms: int
    grace_ms: int
    linger_ms: int
    now: float


def take(live: Live, terms: Terms) -> Part:
    """What is to be written of a run, in one call."""
    first = live.acked + 1
    events, size, whole = _events(live, first)
    ends = whole and (live.terminal is not None or live.log.ended)
    if live.terminal is not None and ends and not live.log.ended:
        events.append(live.terminal.event)
        size += len(live.terminal.event)
    fields = _fields(live, whole, ends)
    last = first + len(events) - 1
    args = [
        terms.node,
        live.fence,
        live.mode,
        first,
        last,
        b"\n".join(events),
        _expiry_ms(live, terms, ends, bool(events)),
        terms.publish_command,
        1 if live.mode == "over" or (whole and (live.state_due or ends or not live.described)) else 0,
        terms.hint_bytes,
        *fields,
    ]
    run_id = live.run_id
    live.described = True
    if whole:
        live.state_due = live.checkpoint_due = False
    call_keys = (keys.run_meta(run_id), keys.run_log(run_id), keys.run_hint(run_id))
    return Part(
        live, live.fence, first, last, size, live.version if whole else -1, ends, (APPEND, call_keys, args)
    )


def _expiry_ms(live: Live, terms: Terms, ends: bool, has_events: bool) -> int:
    """What the keys of a run get with its next part, 0: they keep what they have."""
    if ends and not live.log.stored:
        return terms.grace_ms
    if ends and live.kept:
        return terms.linger_ms
    if live.mode == "on" and not ends and (terms.now - live.renewed_at) * 1000 < terms.ttl_ms / 8:
        return 0
    if has_events:  # else there may be no stream yet that could get it
        live.renewed_at = terms.now
    return terms.ttl_ms


def _events(live: Live, first: int) -> tuple[list[bytes], int, bool]:
    """Events for one entry, their bytes, and whether they are all there are."""
    events = live.log.since(first)
    size = 0
    for index, event in enumerate(events):
        size += len(event)
        if size >= _ENTRY_BYTES and index + 1 < len(events):
            return events[: index + 1], size, False
    return events, size, True


def _fields(live: Live, whole: bool, ends: bool) -> list[Any]:
    """Pairs for the meta. What describes the head of the log goes with the last of its events."""
    fields: list[Any] = []
    if not live.described or live.mode != "on":
        fields += ["epochs", encode_epochs(live.log.epochs), "stored", int(live.log.stored)]
    if live.terminal is not None and ends and live.shows(live.terminal.event):
        fields += ["state", live.terminal.state]
    elif live.mode != "on" or (whole and live.state_due):
        fields += ["state", orjson.dumps(live.state.row())]
    if whole and live.checkpoint is not None and live.checkpoint_due:
        fields += ["cph", live.checkpoint[0], "cp", live.checkpoint[1]]
    if ends:
        fields += ["ended", 1]
        if live.terminal is not None and live.terminal.http_status >= 0:
            fields += ["undecided", live.terminal.http_status]
    return fields
