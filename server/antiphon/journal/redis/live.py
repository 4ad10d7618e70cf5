"""One open log, and what of it Redis has taken."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from antiphon.bus.redis import keys
from antiphon.core.cursor import Epochs
from antiphon.core.run_state import RunState
from antiphon.journal.log import RunLog
from antiphon.journal.redis.meta import encode_epochs
from antiphon.journal.redis.scripts import APPEND, Call

_ENTRY_BYTES = 1024 * 1024
"""Events of one stream entry together; a longer backlog goes in several."""

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
    registered: it stands in the node's set of runs. row: writes its row, None if that was there before. gated:
    nothing of it may go to Redis before its row. epochs_changed: the row's are older. over: closed or lost.
    leaves: what is over is no longer this node's.
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
    registered: bool = False
    row: asyncio.Task[None] | None = None
    gated: bool = False
    epochs_changed: bool = False
    over: bool = False
    leaves: bool = False
    changed: asyncio.Event | None = None

    @property
    def run_id(self) -> str:
        return self.log.run_id

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
        self.checkpoint_due = self.checkpoint is not None

    def restart(self, token: str) -> None:
        """Its log is lost in Redis: what memory still has is written again, in an epoch of its own."""
        self.log.epochs = Epochs(((token, self.log.first),))
        self.mode = "over"
        self.registered = False
        self.epochs_changed = True
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


@dataclass(frozen=True, slots=True)
class Terms:
    """What the calls of a node have in common."""

    node: str
    publish_command: str
    hint_bytes: int
    ttl_ms: int
    grace_ms: int


def take(live: Live, terms: Terms) -> Part:
    """What is to be written of a run, in one call."""
    first = live.acked + 1
    events, size, whole = _events(live, first)
    ends = whole and (live.terminal is not None or live.log.ended)
    if live.terminal is not None and ends and not live.log.ended:
        events.append(live.terminal.event)
        size += len(live.terminal.event)
    fields = _fields(live, whole, ends)
    ttl_ms = terms.ttl_ms
    if ends and not live.log.stored:
        ttl_ms = terms.grace_ms
    last = first + len(events) - 1
    args = [
        terms.node,
        live.fence,
        live.mode,
        first,
        last,
        b"\n".join(events),
        ttl_ms,
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
