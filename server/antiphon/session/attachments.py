"""The attachments of one connection: their lanes, and how they follow a steered run (PROTOCOL 7.3, 10.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog

from antiphon.core.attach import AttachPlan
from antiphon.core.lanes import check_lane_name
from antiphon.errors import AntiphonError, RequestError
from antiphon.runs.directory import Source
from antiphon.runs.engine import Engine
from antiphon.runs.run import Followed
from antiphon.session.attachment import Attachment, EndReason
from antiphon.session.socket import Socket, send_json
from antiphon.session.turns import Turns

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Attached:
    """live: the run had not ended when this was opened. conversation_id: it came with that conversation."""

    attachment: Attachment
    source: Source
    live: bool
    conversation_id: str | None

    @property
    def run_id(self) -> str:
        return self.source.log.run_id


@dataclass(frozen=True, slots=True)
class Ready:
    """A live run, and what an attachment to it gets."""

    source: Source
    plan: AttachPlan


@dataclass(slots=True)
class AttachmentHooks:
    """What the connection wants to know. opened, dropped: of a live run. freed: a place is free."""

    opened: Callable[[Followed], None]
    dropped: Callable[[Followed], None]
    freed: Callable[[], None] = lambda: None


class Attachments:
    """Attachments by lane."""

    def __init__(self, engine: Engine, socket: Socket, turns: Turns, hooks: AttachmentHooks) -> None:
        self._engine = engine
        self._socket = socket
        self._turns = turns
        self.hooks = hooks
        self._attached: dict[str, _Attached] = {}
        self._kept: dict[str, str] = {}
        """Lanes of steered runs, kept for their successors: lane -> id of the successor."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_lane = 1

    @property
    def limit(self) -> int:
        return self._engine.settings.limits.attachments_per_connection

    @property
    def free(self) -> int:
        """How many more runs can be attached to."""
        return self.limit - len(self._attached) - len(self._kept)

    def uses_lane(self, lane: str) -> bool:
        return lane in self._attached or lane in self._kept

    def deliveries(self) -> list[Attachment]:
        return [attached.attachment for attached in self._attached.values()]

    def lane_of(self, response_id: str) -> str | None:
        for lane, attached in self._attached.items():
            if attached.run_id == response_id:
                return lane
        return None

    def expects(self, response_id: str) -> bool:
        """Whether this run, which begins now, comes on the lane of the run that was steered."""
        return response_id in self._kept.values() or any(
            attached.live and attached.source.run is not None and attached.source.run.successor_id == response_id
            for attached in self._attached.values()
        )

    def choose_lane(self, wanted: str | None, response_id: str) -> str:
        """The lane for an attachment. Raises RequestError `too_many_attachments`, `lane_in_use`."""
        own = self.lane_of(response_id)
        if self.free <= 0 and own is None:
            raise self.too_many()
        if wanted is None:
            return own or self._free_lane()
        lane = check_lane_name(wanted)
        if lane != own and (self.uses_lane(lane) or self._turns.knows_lane(lane)):
            raise RequestError("This lane is in use.", code="lane_in_use", param="stream_id")
        return lane

    def too_many(self) -> RequestError:
        message = f"This connection may hold {self.limit} attachments."
        return RequestError(message, code="too_many_attachments")

    def open(self, lane: str, source: Source, plan: AttachPlan, conversation_id: str | None = None) -> None:
        """Begin to deliver on a lane that `choose_lane` gave."""
        head = {"response_id": source.log.run_id, "stream_id": lane}

        def caught_up() -> None:
            shown = max(source.log.shown, 0)
            send_json(self._socket, {"type": "antiphon:caught_up", **head, "head": shown})

        def ended(reason: EndReason) -> None:
            followed = source.run if reason == "ended" and attached.live else None
            run = self._engine.current(followed) if followed is not None else None
            successor = run.successor if run is not None else None
            if run is not None and run.successor_id is not None and successor is not None:
                self._kept[lane] = run.successor_id
            self.drop(lane)
            send_json(self._socket, {"type": "antiphon:detached", **head, "reason": reason})
            if successor is not None:
                self._in_task(lane, successor, conversation_id)

        journal, counts = self._engine.journal, self._engine.counts
        attachment = Attachment(source.log, journal, self._socket, lane, plan.after, ended, caught_up, counts.park)
        counts.attach("websocket", plan.mode, source.log.shown - plan.after)
        attached = _Attached(attachment, source, not source.log.ended, conversation_id)
        self._attached[lane] = attached
        if source.run is not None:
            self._engine.company.listened(source.run)
            self.hooks.opened(source.run)
        attachment.start()

    async def prepare(self, run: Followed) -> Ready:
        """Get ready to attach to a live run from its first event on. Raises StorageError."""
        source = Source(run.log, {}, b"", run)
        return Ready(source, await self._engine.directory.plan(source, "start", None))

    def push(self, ready: Ready, conversation_id: str | None, lane: str | None = None) -> None:
        """Attach to a run without being asked for this one run."""
        lane = lane or self._free_lane()
        frame = {"type": "antiphon:run_attached", **attached_fields(lane, ready.source, ready.plan)}
        send_json(self._socket, frame)
        self.open(lane, ready.source, ready.plan, conversation_id)

    def drop(self, lane: str) -> None:
        """End an attachment."""
        attached = self._attached.pop(lane, None)
        if attached is None:
            return
        attached.attachment.stop()
        if attached.source.run is not None:
            self._engine.company.unlistened(attached.source.run)
            self.hooks.dropped(attached.source.run)
        self._tell_freed()

    def drop_conversation(self, conversation_id: str) -> None:
        """End what came with a conversation."""
        for lane in [lane for lane, a in self._attached.items() if a.conversation_id == conversation_id]:
            self.drop(lane)

    def close(self) -> None:
        """The connection is gone."""
        self.hooks.freed = lambda: None
        for task in self._tasks:
            task.cancel()
        self._kept.clear()
        for lane in list(self._attached):
            self.drop(lane)

    def _in_task(self, lane: str, successor: asyncio.Future[Followed | None], conversation_id: str | None) -> None:
        task = asyncio.get_running_loop().create_task(self._follow(lane, successor, conversation_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _follow(
        self, lane: str, successor: asyncio.Future[Followed | None], conversation_id: str | None
    ) -> None:
        """Go on, on the same lane, with the run that follows the steered one."""
        ready: Ready | None = None
        run = await asyncio.shield(successor)
        try:
            ready = await self.prepare(run) if run is not None else None
        except AntiphonError as error:
            log.warning("successor_not_followed", lane=lane, error=str(error))
        self._kept.pop(lane, None)
        if ready is not None and self.lane_of(ready.source.log.run_id) is None:
            self.push(ready, conversation_id, lane)
        else:
            self._tell_freed()

    def _tell_freed(self) -> None:
        # Not at once: an attach that moves drops its old lane just before it takes the new one.
        asyncio.get_running_loop().call_soon(lambda: self.hooks.freed())

    def _free_lane(self) -> str:
        while True:
            lane = f"att.{self._next_lane}"
            self._next_lane += 1
            if not self.uses_lane(lane) and not self._turns.knows_lane(lane):
                return lane


def attached_fields(lane: str, source: Source, plan: AttachPlan) -> dict[str, Any]:
    """What is told about an attachment as it is made."""
    fields: dict[str, Any] = {
        "response_id": source.log.run_id,
        "stream_id": lane,
        "epoch": source.log.epochs.current,
        "head": max(plan.after if plan.mode == "snapshot" else source.log.shown, 0),
        "mode": plan.mode,
        "recovered": plan.mode != "snapshot",
    }
    if plan.mode == "snapshot":
        fields["reason"] = "cursor_expired"
    if plan.mode in ("snapshot", "ended"):
        fields["response"] = orjson.Fragment(source.response)
    return fields
