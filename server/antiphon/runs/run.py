"""One live run and everything its owner knows about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from antiphon.core.assembly.assembler import Assembler
from antiphon.core.assembly.outcome import Outcome
from antiphon.core.create_request import CreateRequest
from antiphon.core.history import Turn
from antiphon.core.principal import Principal
from antiphon.core.run_state import Origin, RunState
from antiphon.journal.log import RunLog
from antiphon.ports import Upstream
from antiphon.settings import UpstreamSettings


@dataclass(frozen=True, slots=True)
class Create:
    """One create, from whatever transport. raw: the object as the client sent it, with the fields we do not read.

    caller_token: the caller's own upstream credential; it lives in the owner's memory only.
    """

    request: CreateRequest
    raw: dict[str, Any]
    origin: Origin
    idempotency_key: str | None = None
    caller_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Model:
    """Which upstream answers, and under what name it knows the model."""

    upstream: Upstream
    name: str
    settings: UpstreamSettings | None


Phase = Literal["streaming", "ending", "ended"]


@dataclass(slots=True, eq=False)
class Run:
    """A run owned by this process.

    parent: the turn it continues. input: its own new items, encoded, in the upstream's call ids.
    phase: `ending` once its terminal is being decided: from then on nobody can cancel it.
    turn: what can be continued, set when it ended. outcome, ended_at: how and when. durable_end: False where the
    terminal could not be written (storage_unavailable). abandon_s: seconds it outlives its last listener
    (None: for ever). stop: why it must end early. executing: its task has begun. done: set when the terminal
    has been shown.
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
    task: asyncio.Task[None] | None = None
    executing: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)
    listeners: int = 0
    abandon_s: float | None = None
    abandon_timer: asyncio.TimerHandle | None = None

    @property
    def request(self) -> CreateRequest:
        return self.create.request

    @property
    def stored(self) -> bool:
        return self.log.stored

    def response(self) -> bytes:
        """The response object as it stands, encoded."""
        if self.outcome is None and self.create.origin == "background" and self.state.state == "queued":
            return self.assembler.response.encode("queued", b"[]")
        return self.assembler.snapshot(self.outcome)
