"""Held calls of live runs: opened by the loop, answered by any client, made durable before anybody is told.

The decisions are `core/held_calls.py`; here are the timers, the store and RunState.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from antiphon.core.assembly.outcome import Outcome, cancelled
from antiphon.core.held_answers import GivenAnswer, read_answers
from antiphon.core.held_calls import (
    DEADLINE,
    HeldCall,
    HeldCalls,
    Resolution,
    Sender,
    held_call,
)
from antiphon.core.input_urls import check_input_urls
from antiphon.core.participants import Participant, Presence
from antiphon.core.principal import Principal
from antiphon.core.run_state import State
from antiphon.errors import AntiphonError, StorageError
from antiphon.journal.contract import Journal, RunLost
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock
from antiphon.runs.directory import RunDirectory
from antiphon.runs.held.attendance import Attendance, shown_calls
from antiphon.runs.held.claims import HeldClaims, calls_of, check_role, refuse_held_back, refuse_suspended
from antiphon.runs.run import Run
from antiphon.settings import Settings
from antiphon.store import held_results
from antiphon.store.held_results import Committed
from antiphon.store.responses import ResponseReader
from antiphon.store.writing import Writer

log = structlog.get_logger(__name__)

_RETRY_S = 1.0
"""Between attempts to write that a deadline passed, while the store is away."""


@dataclass(frozen=True, slots=True)
class Injected:
    """The answer to an inject. sequence_number: the last of the log. error: why nothing of it was taken."""

    sequence_number: int
    duplicate: bool = False
    error: AntiphonError | None = None


class HeldRuns:
    """The held calls and the participants of all live runs."""

    def __init__(
        self,
        registry: RunRegistry,
        directory: RunDirectory,
        journal: Journal,
        reader: ResponseReader,
        writer: Writer,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._journal = journal
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._grace_s = settings.store.grace_s
        self._refuses_private_urls = settings.refuses_private_urls
        self._attendance = Attendance(registry, clock)
        lease_s = settings.timeouts.claim_lease_s
        self.claims = HeldClaims(directory, journal, writer, clock, lease_s, self._claims_changed)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._lonely: dict[str, asyncio.TimerHandle] = {}
        self._complete: dict[str, asyncio.Event] = {}
        """Runs that wait for their calls."""
        self._expiring: set[str] = set()
        """Runs whose deadlines are being dealt with."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.stop: Callable[[Run, Outcome], bool] = lambda run, outcome: False
        """How a run is ended early."""

    # For the loop

    def open(self, run: Run, items: Sequence[Mapping[str, Any]], *, side_effects: Collection[str] = ()) -> None:
        """Finished calls wait from now on. items: as clients see them; call it before their `output_item.done`.

        side_effects: names of tools whose calls must never be made twice.
        """
        if not items:
            return
        held = run.held = run.held or HeldCalls()
        options, now = run.request.antiphon, self._clock.now()
        calls = [
            held_call(
                item,
                now=now,
                deadline_s=options.deadline_s,
                on_expiry=options.on_expiry,
                side_effects=item.get("name") in side_effects,
            )
            for item in items
        ]
        for call in calls:
            held.open(call)
        self._tell(run, "run.tool.called", [_call_data(call) for call in calls])
        self._rearm(run)

    async def until_answered(self, run: Run) -> None:
        """Wait until every call of the round has its answer; meanwhile the run is `waiting_for_tool`."""
        held = run.held
        if held is None or not held.pending:
            return
        complete = self._complete[run.id] = asyncio.Event()
        first = held.pending[0]
        to: State | None = "waiting_for_tool" if run.state.state != "waiting_for_tool" else None
        self._tell(run, "run.tool.waiting", [_call_data(first)], to=to, current_tool=first.name)
        self._mind_loneliness(run)
        try:
            await complete.wait()
        finally:
            del self._complete[run.id]
            self._not_lonely(run)

    def take_answers(self, run: Run) -> list[Resolution]:
        """The answers of the calls opened since the last take, in the order of the calls."""
        return run.held.take() if run.held is not None else []

    def close(self, run: Run) -> None:
        """The end of the run is being decided: injects come too late, and nothing is pending any more."""
        self._attendance.close(run)
        self._not_lonely(run)
        timer = self._timers.pop(run.id, None)
        if timer is not None:
            timer.cancel()
        if run.held is not None:
            run.held.close()
        run.state.pending_calls = []

    def snapshot(self, run: Run) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON; answers are in the store already."""
        return {"held": run.held.snapshot() if run.held else [], "creators": run.roster.snapshot()}

    async def restore(self, run: Run, snapshot: Mapping[str, Any]) -> None:
        """After a restart: with every stored answer and claim. Deadlines that passed meanwhile pass now.

        Raises StorageError.
        """
        results = await self._reader.held_results(run.id)
        run.roster.restore(snapshot["creators"])
        run.held = HeldCalls.restore(snapshot["held"], results, await self._reader.held_claims(run.id))
        run.state.participants = []
        run.state.pending_calls = shown_calls(run, self._clock.now())
        run.state.resolved_calls = run.held.resolved_rows()
        self._rearm(run)

    # For clients

    async def inject(self, response_id: str, given: list[Any], sender: Sender, principal: Principal) -> Injected:
        """Answer held calls: all of the list or nothing of it. The answer is durable when this returns."""
        number = 0
        try:
            run = self._directory.live(response_id, principal)
            if run is None:
                stored = await self._directory.stored(response_id, principal)
                number = max(stored.terminal_number or 0, 0)
            else:
                number = max(run.log.shown, 0)
            check_role(principal)
            answers = read_answers(given)
            if self._refuses_private_urls:
                check_input_urls(given)
            if run is None:
                duplicate = await self._check_late(response_id, answers, sender)
            else:
                duplicate = await self._answer(run, answers, sender)
                number = max(run.log.shown, 0)
        except AntiphonError as error:
            return Injected(number, error=error)
        return Injected(number, duplicate)

    # Participants

    def joined(self, run: Run, participant: Participant, *, creator: bool = False) -> None:
        """A connection is attached to a run (once more). creator: the run was created on it."""
        if run.roster.join(participant, creator=creator):
            self._attendance.changed(run)
        self._not_lonely(run)

    def left(self, run: Run, connection: str) -> None:
        """One attachment of a connection is over."""
        if run.roster.leave(connection):
            self._attendance.changed(run)
            self._mind_loneliness(run)

    def introduced(self, run: Run, participant: Participant) -> None:
        """A connection that is attached said hello."""
        if run.roster.introduce(participant):
            self._attendance.changed(run)

    def shown(self, run: Run, connection: str, state: Presence, label: str | None) -> bool:
        """What the people behind a connection do; False if it is not attached to this run."""
        there = run.roster.show(connection, state, label)
        if there:
            self._attendance.changed(run)
        return there

    # Answering

    async def _answer(self, run: Run, answers: list[GivenAnswer], sender: Sender) -> bool:
        """Whether it was a repeat. Raises RequestError, StorageError, Draining."""
        refuse_suspended(run)
        refuse_held_back(self._journal, run)
        while True:
            new = calls_of(run).check(answers, sender, self._clock.now())
            if not new:
                return True
            committed = await self._commit(run, new)
            if committed.won:
                return False
            if committed.over:
                return await self._check_late(run.id, answers, sender)
            # Others were faster: their answers are known here now, and the next check tells who it was.

    async def _check_late(self, response_id: str, answers: list[GivenAnswer], sender: Sender) -> bool:
        """As `_answer`, for a stored run that has ended."""
        calls = HeldCalls.restore([], await self._reader.held_results(response_id))
        calls.close()
        calls.check(answers, sender, self._clock.now())
        return True

    async def _commit(self, run: Run, answers: list[Resolution]) -> Committed:
        """Make answers durable, then true. What the store says is what counts. Raises StorageError, RunLost."""
        committed = Committed()
        if run.stored:
            await self._journal.flush(run.log)  # an answer that is kept needs its call, and the run that waits
            fence = self._journal.fence(run.log)
            committed = await self._writer.submit(held_results.insert(run.id, answers, fence))
        if committed.lost:
            raise RunLost(run.id)
        if not committed.over:
            self._resolved(run, committed.others or answers)
        return committed

    def _resolved(self, run: Run, answers: Iterable[Resolution]) -> None:
        held = run.held
        assert held is not None
        by = {answer.call_id: answer for answer in answers}
        calls = held.commit(by.values())
        if not calls or run.phase != "streaming":
            return
        data = [_resolved_data(call, by[call.call_id]) for call in calls]
        complete = self._complete.get(run.id) if not held.pending else None
        if complete is not None:
            self._tell(run, "run.tool.resolved", data, to="running", current_tool=None)
            complete.set()
        else:
            self._tell(run, "run.tool.resolved", data)
        self._rearm(run)

    def _tell(
        self,
        run: Run,
        event: Literal["run.tool.called", "run.tool.waiting", "run.tool.resolved"],
        data: Sequence[dict[str, Any]],
        to: State | None = None,
        **fields: Any,
    ) -> None:
        """One change of state, and a lifecycle event for each call it is about."""
        state = run.state
        rows = {
            "pending_calls": shown_calls(run, self._clock.now()),
            "resolved_calls": run.held.resolved_rows() if run.held else [],
            "head": run.log.head,
        }
        self._registry.change(state, to, event=event, data=data[0], **rows, **fields)
        for more in data[1:]:
            self._registry.note(state, event=event, data=more)

    def _claims_changed(self, run: Run) -> None:
        """Somebody took a call, gave it back, or its lease ran out."""
        self._registry.change(run.state, pending_calls=shown_calls(run, self._clock.now()))
        self._rearm(run)

    # Time

    def _rearm(self, run: Run) -> None:
        """One timer per run, at the next deadline or end of a lease."""
        timer = self._timers.pop(run.id, None)
        if timer is not None:
            timer.cancel()
        held = run.held
        if held is None or held.over or run.phase != "streaming":
            return
        now = self._clock.now()
        at = held.next_change(now)
        if at is not None:
            loop = asyncio.get_running_loop()
            self._timers[run.id] = loop.call_later(max(at - now, 0.0), self._ran_out, run, at)

    def _ran_out(self, run: Run, at: float) -> None:
        del self._timers[run.id]
        held = run.held
        assert held is not None
        now = self._clock.now()
        if now < at:  # the two clocks differ a little
            self._rearm(run)
        elif held.expired(now):
            if run.id not in self._expiring:
                self._expiring.add(run.id)
                self._in_task(self._expire(run, held))
        else:
            self._claims_changed(run)

    async def _expire(self, run: Run, held: HeldCalls) -> None:
        """Deadlines passed: deal with them, also with those that pass meanwhile."""
        try:
            while not held.over and (calls := held.expired(self._clock.now())):
                if not await self._answer_late(run, calls):
                    return
        finally:
            self._expiring.discard(run.id)
        self._rearm(run)

    async def _answer_late(self, run: Run, calls: list[HeldCall]) -> bool:
        """Answer in the place of the clients, or end the run; whether it goes on."""
        now = self._clock.now()
        late = [(call.call_id, item) for call in calls if (item := call.late) is not None]
        answers = [Resolution(call_id, item, DEADLINE, DEADLINE, None, now) for call_id, item in late]
        if len(answers) < len(calls):
            log.info("tool_deadline", response_id=run.id, calls=len(calls))
            self.stop(run, Outcome("incomplete", reason="tool_deadline"))
            return False
        try:
            return not (await self._commit(run, answers)).over
        except RunLost:
            return False
        except StorageError as error:
            log.warning("tool_deadline_not_stored", response_id=run.id, error=str(error.__cause__))
            await asyncio.sleep(_RETRY_S)
            return True

    def _mind_loneliness(self, run: Run) -> None:
        """A run that is only in memory waits while somebody is attached, and for the grace after."""
        if run.stored or run.id not in self._complete or len(run.roster) or run.id in self._lonely:
            return
        loop = asyncio.get_running_loop()
        self._lonely[run.id] = loop.call_later(self._grace_s, self._abandon, run)

    def _not_lonely(self, run: Run) -> None:
        timer = self._lonely.pop(run.id, None)
        if timer is not None:
            timer.cancel()

    def _abandon(self, run: Run) -> None:
        del self._lonely[run.id]
        self.stop(run, cancelled("system:abandoned"))

    def _in_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _call_data(call: HeldCall) -> dict[str, Any]:
    return {"call_id": call.call_id, "name": call.name, "owner": "client", "deadline": call.deadline}


def _resolved_data(call: HeldCall, answer: Resolution) -> dict[str, Any]:
    duration_ms = max(round((answer.at - call.opened_at) * 1000), 0)
    return {**_call_data(call), "by": answer.by, "ok": answer.by != DEADLINE, "duration_ms": duration_ms}
