"""One live run and everything its owner knows about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.outcome import Outcome
from antiphon.core.create_request import CreateRequest
from antiphon.core.held_calls import HeldCalls
from antiphon.core.history import Approval, Turn, history_parts
from antiphon.core.loop_detection import Recent, Repeat
from antiphon.core.participants import Roster
from antiphon.core.principal import Principal
from antiphon.core.rounds import open_calls
from antiphon.core.run_state import Origin, RunState
from antiphon.core.steering import SteerBook
from antiphon.core.tool_registry import DeclaredTools, ToolRegistry
from antiphon.core.usage_estimate import Spent
from antiphon.governance.admission.reservation import Reservation
from antiphon.governance.agents import BUILT_IN, Agent
from antiphon.governance.hooks.passage import Passage
from antiphon.journal.log import RunLog
from antiphon.ports import OpenTools, Tool, Upstream
from antiphon.settings.upstream import UpstreamSettings


@dataclass(slots=True, eq=False)
class CreatorConnection:
    """The socket a create came over, as it is now: its session keeps this true.

    instance: the client's name for itself that stays the same over reconnects, None without one.
    """

    id: str
    instance: str | None = None
    said_hello: bool = False
    open: bool = True


@dataclass(frozen=True, slots=True)
class Create:
    """One create, from whatever transport. raw: the object as the client sent it, with the fields we do not read.

    caller_token: the caller's own upstream credential; it lives in the owner's memory only.
    connection: None over HTTP. instance: of the client that sent it, None if it did not say. traceparent: the span
    of the caller that it belongs to, as it came.
    """

    request: CreateRequest
    raw: dict[str, Any]
    origin: Origin
    idempotency_key: str | None = None
    caller_token: str | None = field(default=None, repr=False)
    connection: CreatorConnection | None = None
    instance: str | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """Which upstream answers, and under what name it knows the model.

    tools: names of tools of the server that come with the model (of those built in). charged: False where no model
    is asked, because somebody else gives the answer.
    """

    upstream: Upstream
    name: str
    settings: UpstreamSettings | None
    tools: tuple[str, ...] = ()
    charged: bool = True


Phase = Literal["streaming", "ending", "ended"]

Activity = Literal["model", "tools", "clients", ""]


@dataclass(slots=True)
class Loop:
    """Where the tool loop of a run stands.

    round: model calls made so far. context: what each finished round added for the model, encoded items.
    compacted: what replaces everything before them. usage: summed, of what upstreams reported. spent: the sum of
    what the run was charged, estimates included. answering: the model that answers instead of the one asked for.
    recent: what loop detection saw, None before it looked; repeat: what the newest turn asks of the next call.
    injected: what context providers put before the instructions, kept nowhere else. executors: the server's
    tools by (server_label, name). activity: what the run is doing. asked: call ids of this round that clients were
    asked to answer. calls_made: of tools of the server. waiting: taken up again while its last round waits for
    clients. takeovers: processes that died since its last round with something of it to execute. after_approvals:
    the input, where it stands behind calls that are made first. stream: of the last model call, to be closed.
    """

    declared: DeclaredTools = field(default_factory=DeclaredTools)
    approvals: list[Approval] = field(default_factory=list)
    round: int = 0
    context: list[bytes] = field(default_factory=list)
    compacted: bytes | None = None
    usage: dict[str, Any] | None = None
    last_usage: dict[str, Any] | None = None
    last_counted: int = 0
    spent: Spent = field(default_factory=Spent)
    answering: str | None = None
    recent: Recent | None = None
    repeat: Repeat | None = None
    injected: str | None = None
    opened: OpenTools | None = None
    registry: ToolRegistry = field(default_factory=ToolRegistry)
    executors: dict[tuple[str, str], Tool] = field(default_factory=dict)
    activity: Activity = ""
    asked: set[str] = field(default_factory=set)
    calls_made: int = 0
    waiting: bool = False
    takeovers: int = 0
    after_approvals: bytes = b""
    stream: AsyncIterator[Sequence[bytes]] | None = None


class Followed(Protocol):
    """A run as its followers see it, whichever node owns it: a `Run` of this one, or the mirror of another's.

    It stays the same object for them when the run changes hands. lost: another node has taken it from this one.
    """

    @property
    def id(self) -> str: ...
    @property
    def log(self) -> RunLog: ...
    @property
    def state(self) -> RunState: ...
    @property
    def stored(self) -> bool: ...
    @property
    def holds(self) -> bool: ...
    @property
    def turn(self) -> Turn | None: ...
    @property
    def successor_id(self) -> str | None: ...
    @property
    def successor(self) -> asyncio.Future[Followed | None] | None: ...
    @property
    def left(self) -> asyncio.Event: ...
    @property
    def lost(self) -> bool: ...


@dataclass(slots=True, eq=False)
class Run:
    """A run owned by this process.

    parent: the turn it continues. input: its own new items, encoded, in the upstream's call ids.
    phase: `ending` once its terminal is being decided: from then on nobody can cancel it.
    turn: what can be continued, set when it ended. outcome, ended_at: how and when. durable_end: False where the
    terminal could not be written (storage_unavailable). abandon_s: seconds it outlives its last listener
    (None: for ever). stop: why it must end early. executing: its task has begun. done: set when the terminal
    has been shown. steers: what was said to it while it ran. successor_id: reserved by the first of them, None
    again if nothing follows by itself; successor: the run that follows, once it is there (None: it cannot be).
    following: the create of that run as it is kept with the terminal.
    held: calls that wait for clients, None if there never were any. roster: who is attached. suspended: this
    process stops and another one can go on with it; left: set when all of it is stored for the next one.
    lost: another node has taken it; this one may neither write nor end it. stop_at: loop time at which `stop` was
    set. has_output: its first output was counted.
    agent: in whose name it works. asked: the create as models get it, without its input: with the instructions of
    the agent, which `create.raw` has not. reservation: what it holds of its tenant's quotas. passage: the
    middlewares that let it through and wait for its end; None where it was taken over. final: its response, once
    it was put away.
    """

    id: str
    create: Create
    principal: Principal
    model: Model
    parent: Turn | None
    input: bytes
    log: RunLog
    assembler: Assembler
    state: RunState
    fence: int = 1
    phase: Phase = "streaming"
    turn: Turn | None = None
    outcome: Outcome | None = None
    ended_at: float = 0.0
    durable_end: bool = True
    stop: Outcome | None = None
    stop_at: float = 0.0
    has_output: bool = False
    task: asyncio.Task[None] | None = None
    executing: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)
    listeners: int = 0
    abandon_s: float | None = None
    abandon_timer: asyncio.TimerHandle | None = None
    steers: SteerBook = field(default_factory=SteerBook)
    successor: asyncio.Future[Followed | None] | None = None
    successor_id: str | None = None
    following: bytes | None = None
    loop: Loop = field(default_factory=Loop)
    resumable: bool = True
    suspended: bool = False
    lost: bool = False
    left: asyncio.Event = field(default_factory=asyncio.Event)
    held: HeldCalls | None = None
    roster: Roster = field(default_factory=Roster)
    agent: Agent = BUILT_IN
    asked: dict[str, Any] = field(default_factory=dict)
    reservation: Reservation | None = None
    passage: Passage | None = None
    final: bytes | None = None

    def put_away(self) -> None:
        """The run is over, and so is its task: it is only read from here on, and keeps nothing that executed it.

        Ended runs are kept for a while, and what hangs on them costs memory, and the collector a look at each.
        """
        self.final = self.response()
        self.task = self.reservation = self.passage = None
        del self.assembler, self.loop

    @property
    def request(self) -> CreateRequest:
        return self.create.request

    @property
    def holds(self) -> bool:
        """Whether the run waits for the outputs of its clients, instead of ending with open calls."""
        return self.request.antiphon.client_tools == "hold"

    @property
    def can_suspend(self) -> bool:
        """Whether the run only waits, and another process could go on with it."""
        return self.executing and self.only_waits and self.stored and self.resumable

    @property
    def only_waits(self) -> bool:
        """Whether nothing is left of its round but the answers of clients: a checkpoint holds all of it."""
        return self.phase == "streaming" and self.loop.activity == "clients"

    @property
    def steerable_now(self) -> bool:
        """Whether cutting the model off would cut no item and leave no call without its output."""
        return (
            self.phase == "streaming"
            and self.loop.activity == "model"
            and not self.assembler.has_open_items
            and not open_calls(self.assembler.round_items)
        )

    def model_input(self) -> list[bytes]:
        """The input of the next model call: encoded items, several of them in one part joined by commas."""
        if self.loop.compacted is None:
            parts = history_parts(self.parent, self.input)
        else:
            parts = [self.loop.compacted] if self.loop.compacted else []
        parts.extend(part for part in self.loop.context if part)
        return parts

    @property
    def stored(self) -> bool:
        return self.log.stored

    def response(self) -> bytes:
        """The response object as it stands, encoded."""
        if self.final is not None:
            return self.final
        if self.outcome is None and self.create.origin == "background" and self.state.state == "queued":
            return self.assembler.response.encode("queued", b"[]")
        return self.assembler.snapshot(self.outcome)
