"""Every verb on a run, whichever node owns it: done here, or asked of the owner and answered the same."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from antiphon.core.held_calls import Claim, Sender
from antiphon.core.principal import Principal
from antiphon.errors import AntiphonError, NodeGone, RequestError
from antiphon.journal.contract import LiveRun, RunLost
from antiphon.ports import Bus, Ids
from antiphon.runs.elsewhere.answering import is_moving, perform_on
from antiphon.runs.elsewhere.company import Company
from antiphon.runs.elsewhere.messages import read_answer
from antiphon.runs.elsewhere.remote_runs import without_owner
from antiphon.runs.elsewhere.verbs import (
    Cancel,
    ClaimCall,
    Here,
    Inject,
    ReleaseClaim,
    RenewClaim,
    Show,
    Shown,
    SteerRun,
    Verb,
)
from antiphon.runs.held.calls import Injected
from antiphon.runs.run import CreatorConnection, Followed
from antiphon.runs.steering.settled import SettledListener, SteerSettled, SteerTaken

Result = TypeVar("Result")

_LOOK_FOR_S = 1.0
_LOOK_EVERY_S = 0.1
"""How long, and how often, an owner is looked for before the caller is told that there is none."""

_ANSWER_WITHIN_S = 15.0
"""How long the owner may take: it may have to wait for the store."""

_STEERS_KEPT = 4096
"""Senders of steers that are still to be told more; those of runs that died are never told, and make room."""


@dataclass(slots=True)
class _Sender:
    """Who sent a steer. accepted: it was told so; what comes earlier waits in `early`."""

    listener: SettledListener
    accepted: bool = False
    early: SteerSettled | None = None


class Reach:
    """The verbs. Errors are those of a run of this node, BusError, and NodeGone where nobody owns the run."""

    def __init__(self, bus: Bus, here: Here, company: Company, ids: Ids) -> None:
        self._bus = bus
        self._here = here
        self._company = company
        self._ids = ids
        self._senders: OrderedDict[str, _Sender] = OrderedDict()

    async def cancel(self, response_id: str, principal: Principal, reason: str | None = None) -> str:
        """Stop a run: `accepted`, or `already_terminal`. Raises RequestError `response_not_found`, `forbidden`."""
        return await self._carry_out(Cancel(response_id, principal, reason))

    async def inject(self, response_id: str, given: list[Any], sender: Sender, principal: Principal) -> Injected:
        """Answer held calls: see `HeldRuns.inject`. Raises nothing: an error stands in the answer."""
        try:
            return await self._carry_out(Inject(response_id, principal, sender, given))
        except NodeGone as error:
            return Injected(await self.last_number(response_id, principal), error=error)
        except AntiphonError as error:
            return Injected(0, error=error)

    async def claim(
        self,
        response_id: str,
        call_id: str,
        sender: Sender,
        principal: Principal,
        *,
        lease_ms: int | None = None,
        fence: int | None = None,
    ) -> Claim:
        """Take a held call for a while: see `HeldClaims.claim`."""
        await self._company.said(response_id)  # who may claim depends on who is attached
        return await self._carry_out(ClaimCall(response_id, principal, sender, call_id, lease_ms, fence))

    async def renew(
        self,
        response_id: str,
        call_id: str,
        sender: Sender,
        principal: Principal,
        *,
        fence: int,
        lease_ms: int | None = None,
    ) -> Claim:
        """Go on with a claim: see `HeldClaims.renew`."""
        return await self._carry_out(RenewClaim(response_id, principal, sender, call_id, fence, lease_ms))

    async def release(
        self, response_id: str, call_id: str, sender: Sender, principal: Principal, *, fence: int
    ) -> None:
        """Give a held call back: see `HeldClaims.release`."""
        await self._carry_out(ReleaseClaim(response_id, principal, sender, call_id, fence))

    async def steer(
        self,
        response_id: str,
        given: Any,
        principal: Principal,
        connection: CreatorConnection | None = None,
        on_settled: SettledListener | None = None,
    ) -> SteerTaken:
        """Say more to a run: see `Steering.steer`. on_settled: told once, after this has returned."""
        steer_id = self._ids.mint("steer")
        sender = _Sender(on_settled) if on_settled is not None else None
        if sender is not None:
            self._senders[steer_id] = sender
            if len(self._senders) > _STEERS_KEPT:
                self._senders.popitem(last=False)
        try:
            taken = await self._carry_out(SteerRun(response_id, principal, steer_id, given, connection))
        except BaseException:
            self._senders.pop(steer_id, None)
            raise
        if sender is not None:
            sender.accepted = True
            if sender.early is not None:
                asyncio.get_running_loop().call_soon(sender.listener, sender.early)
        return taken

    def settled(self, settled: SteerSettled) -> None:
        """What became of a steer that was sent from here."""
        sender = self._senders.pop(settled.steer_id, None)
        if sender is None:
            return
        if sender.accepted:
            sender.listener(settled)
        else:
            sender.early = settled

    async def response(self, response_id: str, principal: Principal, *, stored_only: bool = False) -> bytes:
        """The response object: of a live run as it stands, else as stored.

        stored_only: one that was not stored is unknown. Raises RequestError `response_not_found`.
        """
        return (await self._carry_out(Show(response_id, principal, stored_only)))[0]

    async def response_of(self, run: Followed) -> Shown:
        """The same, of a run that the caller has found already, with the number of the log it stands at."""
        anybody = Principal("system", run.state.tenant, "admin")
        return await self._carry_out(Show(run.id, anybody))

    async def last_number(self, response_id: str, principal: Principal) -> int:
        """The last number of a log, 0 if there is none that this principal may see."""
        run = self._here.directory.live(response_id, principal)
        try:
            if run is not None:
                return max(run.log.shown, 0)
            live = await self._find(response_id, principal)
            if live is not None:
                return max(live.head, 0)
            return max((await self._here.directory.stored(response_id, principal)).terminal_number or 0, 0)
        except AntiphonError:
            return 0

    # Finding the owner

    async def _carry_out(self, verb: Verb[Result]) -> Result:
        if self._bus.alone:
            return await verb.perform(self._here, self.settled)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _LOOK_FOR_S
        while True:
            answer = await self._try(verb)
            if answer is not None:
                return answer[0]
            if loop.time() >= deadline:
                raise without_owner()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _try(self, verb: Verb[Result]) -> tuple[Result] | None:
        """The result, or None if it is not known at this moment who owns the run."""
        run = self._here.directory.live(verb.response_id, verb.principal)
        try:
            if run is not None and not run.lost:
                return None if is_moving(run) else (await perform_on(run, verb, self._here, self.settled),)
        except RunLost:
            return None
        live = await self._find(verb.response_id, verb.principal)
        if live is None or (live.ended and live.stored):
            over = live is not None or not await self._is_orphan(verb)
            return (await verb.perform(self._here, self.settled),) if over else None
        if live.owner and live.owner != self._bus.node:
            try:
                packed = await self._bus.ask(live.owner, verb.kind, verb.pack(), _ANSWER_WITHIN_S)
            except NodeGone:
                packed = b"m"
            answer = read_answer(packed)
            if answer.error is not None:
                raise answer.error
            if not answer.moved:
                return (verb.read_result(answer.result),)
        return (await verb.after_end(self._here, live),) if live.ended else None

    async def _find(self, response_id: str, principal: Principal) -> LiveRun | None:
        """A run of the cluster that this principal may see. Raises BusError."""
        if self._bus.alone or not response_id.startswith("resp_"):
            return None
        live = await self._here.journal.find(response_id)
        if live is None:
            return None
        row = orjson.loads(live.state)
        return live if principal.may_see(row["tenant"], row["principal"], row["visibility"]) else None

    async def _is_orphan(self, verb: Verb[Result]) -> bool:
        """Whether the run is in the store, has not ended, and nobody has it: owner or log were lost."""
        try:
            row = await self._here.directory.stored(verb.response_id, verb.principal)
        except RequestError:
            return False
        return row.terminal_number is None
