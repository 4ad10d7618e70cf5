"""The creates of one connection: queued in lanes, started through the one door, delivered on their lane."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from antiphon.core.connection_memory import ConnectionMemory
from antiphon.core.create_request import CreateRequest, parse_create
from antiphon.core.lanes import LaneName, Lanes
from antiphon.core.run_state import RunState
from antiphon.errors import AntiphonError, RequestError
from antiphon.ops.registry import StateListener
from antiphon.runs.engine import Engine
from antiphon.runs.run import Create, CreatorConnection, Followed
from antiphon.runs.service import Started
from antiphon.session.attachment import Attachment, EndReason
from antiphon.session.caller import Caller
from antiphon.session.frames import error_frame
from antiphon.session.socket import Socket, send_json

log = structlog.get_logger(__name__)

_LANES_REMEMBERED = 256


@dataclass(eq=False, slots=True)
class Ticket:
    """One create that waits, runs or is refused when its turn comes."""

    lane: LaneName
    frame: dict[str, Any]
    request: CreateRequest | None
    refusal: AntiphonError | None = None
    attachment: Attachment | None = None
    run: Followed | None = None
    on_state: StateListener | None = None
    successor_id: str | None = None
    """What a run that is read from the store was steered into."""

    @property
    def previous_response_id(self) -> str | None:
        value = self.frame.get("previous_response_id")
        return value if isinstance(value, str) else None


@dataclass(slots=True)
class TurnHooks:
    """What the connection wants to know.

    started: a live run is delivered now. finished: it is over. behind: the socket was so slow that events it
    still had to get are gone. forked: what was sent of a turn is not what happened.
    """

    started: Callable[[Ticket], None] = field(default=lambda ticket: None)
    finished: Callable[[Ticket], None] = field(default=lambda ticket: None)
    behind: Callable[[], None] = field(default=lambda: None)
    forked: Callable[[], None] = field(default=lambda: None)


class Turns:
    """Lanes, tickets and the deliveries of running turns."""

    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        socket: Socket,
        hooks: TurnHooks,
        connection: CreatorConnection,
    ) -> None:
        limits = engine.settings.limits
        self._engine = engine
        self._caller = caller
        self._socket = socket
        self._hooks = hooks
        self._connection = connection
        self._memory = ConnectionMemory()
        self._lanes: Lanes[Ticket] = Lanes(
            max_running=1 if engine.settings.profile == "open-responses" else limits.running_per_connection,
            max_named=limits.named_lanes,
            max_waiting=limits.queued_per_connection,
        )
        self._running: set[Ticket] = set()
        self._delivered_on: dict[str, LaneName] = {}
        """The lanes of the newest runs: a notice about one that has just ended belongs there too."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.refuse_with: AntiphonError | None = None
        """Set when the connection takes no new turns any more."""

    @property
    def running(self) -> int:
        return self._lanes.running

    def knows_lane(self, lane: LaneName) -> bool:
        return self._lanes.knows(lane)

    def create(self, frame: dict[str, Any], lane: LaneName) -> None:
        """Queue a create. What is wrong with it is told when its turn comes, so that it can be tied to it."""
        ticket = Ticket(lane, frame, None)
        try:
            ticket.request = parse_create(frame)
        except AntiphonError as error:
            ticket.refusal = error
            self._engine.counts.refuse("command", error.code)
        try:
            started = self._lanes.submit(lane, ticket)
        except RequestError as error:
            self._send_error(error, lane)
            return
        self._begin(started)

    def refuse_waiting(self, error: AntiphonError) -> None:
        """Turns that have not started are answered with `error`, and so are all later ones."""
        self.refuse_with = error
        for ticket in self._lanes.clear_waiting():
            self._send_error(error, ticket.lane)

    def close(self) -> None:
        """The connection is gone: stop delivering. The runs go on.

        A create whose turn has come is still carried through: cut in the middle it would leave a run that nobody
        executes, and an idempotency key that leads to it.
        """
        self._closed = True
        self._lanes.clear_waiting()
        for ticket in list(self._running):
            self._detach(ticket)

    def deliveries(self) -> list[Attachment]:
        return [ticket.attachment for ticket in self._running if ticket.attachment is not None]

    def lane_of(self, response_id: str) -> tuple[bool, LaneName]:
        """Whether a run is being delivered here, and on which lane it is or was."""
        for ticket in self._running:
            if ticket.attachment is not None and ticket.attachment.log.run_id == response_id:
                return True, ticket.lane
        return False, self._delivered_on.get(response_id)

    def _begin(self, tickets: list[Ticket]) -> None:
        # A loop, not recursion: a lane may hold a thousand refusals, each of which lets the next one begin.
        begin = deque(tickets)
        while begin:
            ticket = begin.popleft()
            refusal = ticket.refusal or self.refuse_with
            if refusal is not None or ticket.request is None:
                begin.extend(self._answer_refused(ticket, refusal or RequestError("The create cannot be read.")))
                continue
            self._in_task(self._start(ticket, ticket.request))

    def _in_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, ticket: Ticket, request: CreateRequest) -> None:
        create = Create(
            request=request,
            raw=ticket.frame,
            origin="websocket",
            idempotency_key=request.idempotency_key,
            caller_token=request.antiphon.upstream_authorization,
            connection=self._connection,
            instance=self._connection.instance,
            traceparent=request.traceparent,
        )
        try:
            started = await self._engine.service.start(create, self._caller.check(), self._memory)
            await self._deliver(ticket, started)
        except AntiphonError as error:
            self._refuse(ticket, error)
        except Exception:
            log.exception("create_crashed", connection_id=self._connection.id)
            self._refuse(ticket, AntiphonError("The server could not start this turn."))

    async def _deliver(self, ticket: Ticket, started: Started) -> None:
        run: Followed | None = started.run
        if run is not None:
            run_log = run.log
        else:
            source = await self._engine.directory.source(started.response_id, self._caller.principal)
            run, run_log = source.run, source.log
            ticket.successor_id = (source.state.get("terminal") or {}).get("successor")
        if run is not None:
            self._engine.company.listened(run)
        if self._closed:
            if run is not None:
                self._engine.company.unlistened(run)
            return
        ticket.run = run
        self._running.add(ticket)
        self._delivered_on[run_log.run_id] = ticket.lane
        if len(self._delivered_on) > _LANES_REMEMBERED:
            del self._delivered_on[next(iter(self._delivered_on))]

        def ended(reason: EndReason) -> None:
            self._delivered(ticket, reason)

        ticket.attachment = Attachment(
            run_log,
            self._engine.journal,
            self._socket,
            ticket.lane,
            -1,
            ended,
            on_parked=self._engine.counts.park,
        )
        if run is not None and run.holds:
            self._park_while_waiting(ticket, run)
        self._hooks.started(ticket)
        ticket.attachment.start()

    def _park_while_waiting(self, ticket: Ticket, run: Followed) -> None:
        """While the run waits for a tool of a client, its running slot is another turn's."""

        def changed(state: RunState) -> None:
            if state.state == "waiting_for_tool":
                self._begin(self._lanes.park(ticket))
            else:
                self._lanes.unpark(ticket)

        ticket.on_state = changed
        self._engine.registry.listen(run.id, changed)
        changed(run.state)

    def _delivered(self, ticket: Ticket, reason: EndReason) -> None:
        if reason != "ended":
            (self._hooks.forked if reason == "epoch_changed" else self._hooks.behind)()
            return
        run = self._engine.current(ticket.run) if ticket.run is not None else None
        if run is not None and run.turn is not None:
            self._memory.remember(ticket.lane, run.turn)
        self._detach(ticket)
        self._hooks.finished(ticket)
        # Both lead back to the ticket: a run's memory must not wait for the garbage collector.
        ticket.attachment = ticket.run = None
        if run is not None:
            ticket.successor_id = run.successor_id
        if ticket.successor_id is None:
            self._begin(self._lanes.finished(ticket))
        else:
            self._in_task(self._follow(ticket, ticket.successor_id, run.successor if run is not None else None))

    async def _follow(
        self, ticket: Ticket, response_id: str, successor: asyncio.Future[Followed | None] | None
    ) -> None:
        """The run was steered: what follows it comes next on its lane, before any create that waits there."""
        ticket.successor_id = None
        run = await asyncio.shield(successor) if successor is not None else None
        try:
            if successor is not None and run is None:
                raise RequestError("There is no successor.")
            await self._deliver(ticket, Started(response_id, run, False))
        except Exception as error:
            if not isinstance(error, AntiphonError):
                log.exception("follow_crashed", connection_id=self._connection.id)
            self._hooks.finished(ticket)
            self._begin(self._lanes.finished(ticket))

    def _detach(self, ticket: Ticket) -> None:
        self._running.discard(ticket)
        if ticket.attachment is not None:
            ticket.attachment.stop()
        if ticket.run is not None:
            self._engine.company.unlistened(ticket.run)
            if ticket.on_state is not None:
                self._engine.registry.unlisten(ticket.run.id, ticket.on_state)
                ticket.on_state = None

    def _refuse(self, ticket: Ticket, error: AntiphonError) -> None:
        self._begin(self._answer_refused(ticket, error))

    def _answer_refused(self, ticket: Ticket, error: AntiphonError) -> list[Ticket]:
        """Tell the client; gives the tickets that may begin now."""
        if ticket.previous_response_id is not None:
            self._memory.refused(ticket.lane, ticket.previous_response_id)
        self._send_error(error, ticket.lane)
        self._hooks.finished(ticket)
        return self._lanes.finished(ticket)

    def _send_error(self, error: AntiphonError, lane: LaneName) -> None:
        send_json(self._socket, error_frame(error, lane))
