"""What clients can ask of a run. Each verb is carried out where the run is: here, or by its owner over the bus."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import orjson

from antiphon.core.held_calls import Claim, Sender, run_is_over
from antiphon.core.principal import Principal
from antiphon.errors import RequestError
from antiphon.journal.contract import Journal, LiveRun
from antiphon.runs.directory import RunDirectory, not_found
from antiphon.runs.elsewhere.messages import pack_injected, read_injected
from antiphon.runs.held.calls import HeldRuns, Injected
from antiphon.runs.run import CreatorConnection, Run
from antiphon.runs.service import RunService
from antiphon.runs.steering.settled import SettledListener, SteerTaken
from antiphon.runs.steering.steering import Steering, ended_for_steers

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Here:
    """What carries verbs out on the runs of this node, and on those that have ended."""

    service: RunService
    held: HeldRuns
    steering: Steering
    directory: RunDirectory
    journal: Journal


class Verb(ABC, Generic[Result]):
    """response_id: of which run. principal: who asks; what it may not see is unknown to it."""

    kind: ClassVar[str]
    response_id: str
    principal: Principal

    @abstractmethod
    async def perform(self, here: Here, on_settled: SettledListener) -> Result:
        """Do it to a run of this node, or to one that is only in the store. Raises AntiphonError, RunLost."""

    @abstractmethod
    def pack_result(self, result: Result) -> bytes:
        """The result as it travels."""

    @abstractmethod
    def read_result(self, packed: bytes) -> Result:
        """The result as it arrived."""

    async def after_end(self, here: Here, live: LiveRun) -> Result:
        """For an unstored run that has ended and that nobody has in memory any more. Raises RequestError."""
        raise run_is_over()

    def pack(self) -> bytes:
        return orjson.dumps(self)


@dataclass(frozen=True, slots=True)
class Cancel(Verb[str]):
    """reason: for the log."""

    kind: ClassVar[str] = "run.cancel"
    response_id: str
    principal: Principal
    reason: str | None = None

    async def perform(self, here: Here, on_settled: SettledListener) -> str:
        return await here.service.cancel_by_id(self.response_id, self.principal, self.reason)

    def pack_result(self, result: str) -> bytes:
        return result.encode()

    def read_result(self, packed: bytes) -> str:
        return packed.decode()

    async def after_end(self, here: Here, live: LiveRun) -> str:
        if not self.principal.may_cancel(orjson.loads(live.state)["principal"]):
            raise RequestError("Only its creator or an operator may cancel this run.", code="forbidden")
        return "already_terminal"


@dataclass(frozen=True, slots=True)
class Inject(Verb[Injected]):
    """given: the outputs as they were sent. sender: whose repeats are recognised."""

    kind: ClassVar[str] = "run.inject"
    response_id: str
    principal: Principal
    sender: Sender
    given: list[Any]

    async def perform(self, here: Here, on_settled: SettledListener) -> Injected:
        return await here.held.inject(self.response_id, self.given, self.sender, self.principal)

    def pack_result(self, result: Injected) -> bytes:
        return pack_injected(result)

    def read_result(self, packed: bytes) -> Injected:
        return read_injected(packed)


class _Claiming(Verb[Claim], ABC):
    def pack_result(self, result: Claim) -> bytes:
        return orjson.dumps(result)

    def read_result(self, packed: bytes) -> Claim:
        return Claim(**orjson.loads(packed))


@dataclass(frozen=True, slots=True)
class ClaimCall(_Claiming):
    """lease_ms: None for the default of the server. fence: the last one its client knows."""

    kind: ClassVar[str] = "run.claim"
    response_id: str
    principal: Principal
    sender: Sender
    call_id: str
    lease_ms: int | None = None
    fence: int | None = None

    async def perform(self, here: Here, on_settled: SettledListener) -> Claim:
        return await here.held.claims.claim(
            self.response_id, self.call_id, self.sender, self.principal, lease_ms=self.lease_ms, fence=self.fence
        )


@dataclass(frozen=True, slots=True)
class RenewClaim(_Claiming):
    """lease_ms: None for the default of the server."""

    kind: ClassVar[str] = "run.renew"
    response_id: str
    principal: Principal
    sender: Sender
    call_id: str
    fence: int
    lease_ms: int | None = None

    async def perform(self, here: Here, on_settled: SettledListener) -> Claim:
        return await here.held.claims.renew(
            self.response_id, self.call_id, self.sender, self.principal, lease_ms=self.lease_ms, fence=self.fence
        )


@dataclass(frozen=True, slots=True)
class ReleaseClaim(Verb[None]):
    """Give a call back."""

    kind: ClassVar[str] = "run.release"
    response_id: str
    principal: Principal
    sender: Sender
    call_id: str
    fence: int

    async def perform(self, here: Here, on_settled: SettledListener) -> None:
        await here.held.claims.release(
            self.response_id, self.call_id, self.sender, self.principal, fence=self.fence
        )

    def pack_result(self, result: None) -> bytes:
        return b""

    def read_result(self, packed: bytes) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SteerRun(Verb[SteerTaken]):
    """steer_id: minted where it came in, so that it is taken once. connection: the socket, None for HTTP."""

    kind: ClassVar[str] = "run.steer"
    response_id: str
    principal: Principal
    steer_id: str
    given: Any
    connection: CreatorConnection | None = None

    async def perform(self, here: Here, on_settled: SettledListener) -> SteerTaken:
        return await here.steering.steer(
            self.response_id, self.given, self.principal, self.connection, on_settled, steer_id=self.steer_id
        )

    def pack_result(self, result: SteerTaken) -> bytes:
        return orjson.dumps(result)

    def read_result(self, packed: bytes) -> SteerTaken:
        return SteerTaken(**orjson.loads(packed))

    async def after_end(self, here: Here, live: LiveRun) -> SteerTaken:
        raise ended_for_steers(orjson.loads(live.state)["state"])


Shown = tuple[bytes, int]
"""A response object as it stands, encoded, and the last event of the log that is in it."""


@dataclass(frozen=True, slots=True)
class Show(Verb[Shown]):
    """The response object, and the number of the log it stands at.

    stored_only: one that was not stored is unknown, as in a plain GET.
    """

    kind: ClassVar[str] = "run.show"
    response_id: str
    principal: Principal
    stored_only: bool = False

    async def perform(self, here: Here, on_settled: SettledListener) -> Shown:
        run = here.directory.live(self.response_id, self.principal)
        if run is None:
            row = await here.directory.stored(self.response_id, self.principal)
            return row.response, row.terminal_number or 0
        if self.stored_only and not run.stored:
            raise not_found(self.response_id)
        return await as_it_stands(run, here.journal)

    def pack_result(self, result: Shown) -> bytes:
        return b"%d %b" % (result[1], result[0])

    def read_result(self, packed: bytes) -> Shown:
        number, _, body = packed.partition(b" ")
        return body, int(number)

    async def after_end(self, here: Here, live: LiveRun) -> Shown:
        if self.stored_only:
            raise not_found(self.response_id)
        _, events = await here.journal.events(self.response_id, live.head - 1, 1)
        if not events:
            raise not_found(self.response_id)
        return orjson.dumps(orjson.loads(events[-1])["response"]), live.head


VERBS: dict[str, type[Verb[Any]]] = {
    verb.kind: verb for verb in (Cancel, Inject, ClaimCall, RenewClaim, ReleaseClaim, SteerRun, Show)
}

_PARTS: dict[str, type[Any]] = {"principal": Principal, "sender": Sender, "connection": CreatorConnection}


def read_verb(kind: str, packed: bytes) -> Verb[Any]:
    """What another node asks. KeyError for a kind this one does not know."""
    verb = VERBS[kind]
    fields = orjson.loads(packed)
    for name, part in _PARTS.items():
        if fields.get(name) is not None:
            fields[name] = part(**fields[name])
    return verb(**fields)


async def as_it_stands(run: Run, journal: Journal) -> Shown:
    """The object of a run of this node. Raises StorageError."""
    body, number = run.response(), run.log.head
    if run.log.shown < number:
        await journal.flush(run.log)  # strict mode: say nothing the log does not show
    return body, number
