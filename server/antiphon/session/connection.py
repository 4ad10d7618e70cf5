"""One WebSocket connection: reads frames, dispatches them, keeps lanes alive, closes in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from antiphon.core.json_input import parse_object
from antiphon.core.lanes import LaneName, check_lane_name
from antiphon.errors import AntiphonError, Draining, RequestError, Unauthorized
from antiphon.runs.engine import Engine
from antiphon.runs.run import CreatorConnection
from antiphon.session.attachment import Attachment
from antiphon.session.caller import Caller, Over
from antiphon.session.extension import Extension
from antiphon.session.frames import error_frame, refused_frame
from antiphon.session.inject import answer_inject, on_lane, read_inject
from antiphon.session.rates import Pace
from antiphon.session.socket import Socket, send_json
from antiphon.session.steer import Steers
from antiphon.session.turns import Ticket, TurnHooks, Turns

log = structlog.get_logger(__name__)

Receive = Callable[[], Awaitable[str | bytes | None]]
"""The next message: text, binary, or None when the connection is over."""

_SPREAD_MS = 5_000
"""Clients told to go away come back spread over this time."""

_REPLIES_OUTBOXES = 4
"""A client that sends and does not read: beyond this many full outboxes of answers its frames are not read."""

_BAD_FRAME_CODES = frozenset({"invalid_json", "unsupported_event_type", "unknown_command"})
"""Answers to frames that count as bad (PROTOCOL 3.5)."""


_WITHOUT_CREDENTIAL = frozenset({"antiphon:auth", "antiphon:hello", "antiphon:ping", "response.create"})


class Connection:
    """A session over one socket."""

    def __init__(
        self, engine: Engine, caller: Caller, socket: Socket, receive: Receive, pace: Pace | None = None
    ) -> None:
        """pace: how fast frames may come; None for as fast as they are read."""
        self.id = engine.ids.mint("conn")
        self._engine = engine
        self._caller = caller
        self._socket = socket
        self._receive = receive
        self._pace = pace
        self._bad_frames: deque[float] = deque()
        self._closing = False
        self._room = asyncio.Event()
        hooks = TurnHooks(
            started=self._turn_started, finished=self._turn_finished, behind=self._too_slow, forked=self._forked
        )
        self._as_creator = CreatorConnection(self.id)
        self._turns = Turns(engine, caller, socket, hooks, self._as_creator)
        self._extension = Extension(engine, caller, socket, self._turns, self._as_creator)
        self._steers = Steers(engine, caller, socket, self._as_creator, self._lane_of)
        self._extension.delivered = self._steers.delivered
        caller.on_expiring, caller.on_over = self._expiring, self._over
        socket.on_writable = self._wake
        socket.on_stalled = self._stalled
        self._age_timer = asyncio.get_running_loop().call_later(
            engine.settings.timeouts.connection_age_s, self._too_old
        )

    async def run(self) -> None:
        """Serve until the connection is over. Runs that were started here go on."""
        try:
            while (message := await self._receive()) is not None:
                if not self._closing:
                    await self._handle(message)
                    await self._until_answers_fit()
        except Exception:
            log.exception("connection_crashed", connection_id=self.id)
            self._close(1011, "server error")
        finally:
            self._age_timer.cancel()
            self._caller.close()
            self._as_creator.open = False
            self._turns.close()
            self._extension.close()

    @property
    def unsent_bytes(self) -> int:
        """What was written and the operating system has not taken yet."""
        return self._socket.unsent

    def keep_alive(self, now: float, silence_s: float) -> None:
        """Send a keepalive on every running lane that said nothing for `silence_s`. now: loop time."""
        for attachment in (*self._turns.deliveries(), *self._extension.deliveries()):
            if now - attachment.last_write >= silence_s and not self._socket.full:
                frame: dict[str, Any] = {"type": "keepalive", "sequence_number": max(attachment.last, 0)}
                if attachment.stream_id is not None:
                    frame["stream_id"] = attachment.stream_id
                send_json(self._socket, frame)
                attachment.last_write = now

    def drain(self, budget_s: float) -> None:
        """The server goes away: say so, refuse what waits, let what runs finish."""
        self._extension.goaway("draining", int(budget_s * 1000), _SPREAD_MS)
        message = "The server is shutting down; send this turn again elsewhere."
        self._turns.refuse_waiting(Draining(message))

    def shut(self) -> None:
        """Close, with the code for a restart."""
        self._close(4000 if self._extension.said_hello else 1012, "server restart")

    # Frames

    async def _handle(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            self._bad(RequestError("Send text frames; this one was binary.", code="invalid_json"))
            return
        try:
            frame = parse_object(message, self._engine.settings.limits.json_depth)
            kind = frame.get("type")
            if not isinstance(kind, str):
                raise RequestError("The frame has no type.", code="unsupported_event_type", param="type")
            if not self._is_too_fast(kind, frame) and self._still_counts(kind, frame):
                await self._dispatch(kind, frame)
        except RequestError as error:
            self._bad(error)
        except Exception:
            log.exception("frame_crashed", connection_id=self.id)
            send_json(self._socket, error_frame(AntiphonError("The server could not handle this frame.")))

    def _is_too_fast(self, kind: str, frame: dict[str, Any]) -> bool:
        """Count a frame, and refuse it if its like came too fast; who goes on all the same is cut off."""
        if self._pace is None:
            return False
        try:
            self._pace.check(kind)
        except RequestError as error:
            send_json(self._socket, refused_frame(error, kind, frame))
            if self._pace.gave_up():
                self._close(4029 if self._extension.said_hello else 1013, "rate")
            return True
        return False

    def _still_counts(self, kind: str, frame: dict[str, Any]) -> bool:
        """Whether the caller's credential counts; else the frame is refused. Creates: in their turn."""
        if kind in _WITHOUT_CREDENTIAL:
            return True
        try:
            self._caller.check()
        except AntiphonError as error:
            send_json(self._socket, refused_frame(error, kind, frame))
            return False
        return True

    async def _dispatch(self, kind: str, frame: dict[str, Any]) -> None:
        if kind == "response.create":
            self._create(frame)
        elif kind.startswith("antiphon:"):
            self._count_bad(await self._extension.command(kind, frame))
            if kind == "antiphon:hello":
                self._caller.remind()
        elif kind == "response.cancel":
            await self._cancel(frame)
        elif kind == "response.steer":
            await self._steers.take(frame)
        elif kind == "response.inject":
            await self._inject(frame)
        elif kind != "response.processed":
            raise RequestError(
                f"This server does not know the event {kind[:80]!r}.", code="unsupported_event_type", param="type"
            )

    def _create(self, frame: dict[str, Any]) -> None:
        lane: LaneName = None
        if "stream_id" in frame:
            lane = check_lane_name(frame["stream_id"])
            if self._extension.uses_lane(lane):
                error = RequestError("This lane belongs to an attachment.", code="lane_in_use", param="stream_id")
                send_json(self._socket, error_frame(error, lane))
                return
        self._turns.create(frame, lane)

    async def _inject(self, frame: dict[str, Any]) -> None:
        response_id, given = read_inject(frame)
        _, lane = self._lane_of(response_id)
        sender = self._extension.presence.sender
        answer = await answer_inject(self._engine.reach, response_id, given, sender, self._caller.principal)
        send_json(self._socket, on_lane(answer, lane))

    async def _cancel(self, frame: dict[str, Any]) -> None:
        response_id = frame.get("response_id")
        if not isinstance(response_id, str):
            raise RequestError("response.cancel needs response_id.", param="response_id")
        try:
            await self._engine.reach.cancel(response_id, self._caller.principal)
        except AntiphonError as error:
            self._engine.counts.refuse("command", error.code)
            send_json(self._socket, error_frame(error))

    def _bad(self, error: RequestError) -> None:
        """Answer a frame that cannot be understood; too many of them end the connection."""
        send_json(self._socket, error_frame(error))
        self._count_bad(error.code)

    def _count_bad(self, code: str | None) -> None:
        if code is not None:
            self._engine.counts.refuse("command", code)
        if code not in _BAD_FRAME_CODES:
            return
        now = self._engine.clock.monotonic()
        self._bad_frames.append(now)
        while self._bad_frames[0] < now - 60:
            self._bad_frames.popleft()
        if len(self._bad_frames) > self._engine.settings.limits.bad_frames_per_minute:
            self._close(4501 if self._extension.said_hello else 1008, "too many bad frames")

    async def _until_answers_fit(self) -> None:
        """Bound what a client can make us say while it does not read."""
        limit = _REPLIES_OUTBOXES * self._engine.settings.limits.outbox_bytes
        while self._socket.unsent > limit and self._socket.full and self._socket.open:
            self._room.clear()
            await self._room.wait()

    def _lane_of(self, response_id: str) -> tuple[bool, LaneName]:
        """Whether a run is being delivered here, and on which lane: a turn's own or an attachment's."""
        delivering, lane = self._turns.lane_of(response_id)
        attached = None if delivering else self._extension.lane_of(response_id)
        return delivering or attached is not None, attached or lane

    # Life of the connection

    def _turn_started(self, ticket: Ticket) -> None:
        if ticket.run is not None:
            self._extension.watch(ticket.run, creator=True)

    def _turn_finished(self, ticket: Ticket) -> None:
        if ticket.run is not None:
            self._extension.unwatch(ticket.run)
            self._steers.delivered(ticket.run.id)
        if self._turns.refuse_with is not None and self._turns.running <= 1:
            asyncio.get_running_loop().call_soon(self._close_if_old)

    def _too_old(self) -> None:
        """The connection reached its age: no new turns; those that run may finish within the grace."""
        grace_s = self._engine.settings.timeouts.connection_grace_s
        self._extension.goaway("connection_age", int(grace_s * 1000), _SPREAD_MS)
        self._turns.refuse_waiting(
            RequestError(
                "This connection is too old for new turns; open a new one.",
                code="websocket_connection_limit_reached",
            )
        )
        self._age_timer = asyncio.get_running_loop().call_later(grace_s, self._close_old)
        self._close_if_old()

    def _expiring(self, left_s: float) -> None:
        self._extension.goaway("token_expiring", max(int(left_s * 1000), 0), 0)

    def _over(self, why: Over) -> None:
        """The credential counts no more. What was started with it goes on."""
        expired = why == "expired"
        error = Unauthorized(
            "Your token has run out; come back with a new one." if expired else "Your key or token was revoked.",
            code="token_expired" if expired else "invalid_api_key",
        )
        if self._extension.said_hello:
            self._close(4002 if expired else 4500, error.code)
        else:
            send_json(self._socket, error_frame(error))
            self._close(1008, error.code)

    def _close_if_old(self) -> None:
        refusal = self._turns.refuse_with
        if refusal is not None and refusal.code != "server_draining" and not self._turns.running:
            self._close_old()

    def _close_old(self) -> None:
        self._close(4004 if self._extension.said_hello else 1012, "connection age")

    def _stalled(self) -> None:
        log.info("socket_stalled", connection_id=self.id)
        self._too_slow()

    def _too_slow(self) -> None:
        if not self._closing:
            self._engine.counts.evict("websocket")
        self._close(4001 if self._extension.said_hello else 1013, "too slow")

    def _forked(self) -> None:
        """A turn cannot go on here: what its client has seen of it is not what happened (PROTOCOL 6.4.6)."""
        self._close(4000 if self._extension.said_hello else 1012, "the log of a turn changed")

    def _close(self, code: int, reason: str) -> None:
        self._closing = True
        self._socket.close(code, reason)

    def _wake(self) -> None:
        self._room.set()
        deliveries: list[Attachment] = self._turns.deliveries()
        for delivery in deliveries:
            delivery.wake()
        self._extension.wake()
