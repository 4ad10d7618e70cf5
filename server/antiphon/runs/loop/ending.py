"""How a run ends: the terminal is decided in one place, made durable, then shown (ARCHITECTURE "A run")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import orjson
import structlog

from antiphon.core.assembly.outcome import Outcome, failed
from antiphon.core.conversation_requests import left_in_conversation
from antiphon.core.history import OpenCall, Turn, finished_output
from antiphon.core.run_state import State
from antiphon.errors import StorageError
from antiphon.journal.contract import Journal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock
from antiphon.runs.run import Run
from antiphon.settings import Settings
from antiphon.store.named_conversations import Appended
from antiphon.store.records import Ending, Verdict

log = structlog.get_logger(__name__)

_RETRY_S = (0.1, 0.3, 1.0, 3.0)


class RunEnder:
    """Ends runs."""

    def __init__(self, journal: Journal, registry: RunRegistry, clock: Clock, settings: Settings) -> None:
        self._journal = journal
        self._registry = registry
        self._clock = clock
        self._retry_s = settings.store.retry_s
        self._kept_s = {True: settings.journal.retention_s, False: settings.store.grace_s}
        self.on_end: Callable[[Run], None] = lambda run: None
        """Called just before the terminal is shown, when the run's turn can already be continued."""
        self.before_end: Callable[[Run, Outcome, Sequence[OpenCall]], str | None] = lambda *_: None
        """Called when the end is known, not yet decided; gives the id of the response that follows by itself."""

    def hurry(self) -> None:
        """The server stops: a store that is away now is not waited for."""
        self._retry_s = 0.0

    async def end(self, run: Run, outcome: Outcome) -> None:
        """Give the run its one terminal event. Never raises for a store that is away. Raises RunLost."""
        run.phase = "ending"
        first = run.log.head + 1
        left = run.assembler.take()
        if run.assembler.next_number - len(left) != first:
            # A crash lost events between the assembler and the log: what is in the log counts.
            left, run.assembler.next_number = [], first
        failed_now = outcome.status == "failed"  # its half items stay open: the terminal shows them as they are
        closing = run.assembler.release() if failed_now else run.assembler.close_items("incomplete")
        self._journal.append(run.log, left + closing, first)
        now = self._clock.now()
        run.ended_at = now
        if outcome.status == "completed":
            run.assembler.response.completed_at = int(now)
        number = run.assembler.next_number
        terminal = run.assembler.terminal(outcome)
        last, open_calls = finished_output(run.assembler.round_items, outcome)
        output = b",".join(part for part in (*run.loop.context, last) if part)
        successor = self.before_end(run, outcome, open_calls)
        if run.stored:
            ending = self._ending(run, outcome, terminal, number, output, open_calls, now, successor)
            verdict = await self._decide(run, partial(self._journal.end, run.log, ending))
            if verdict is None:
                successor, outcome = None, failed("storage_unavailable", "The result could not be stored.")
                terminal = self._again(run, outcome, number)
                undecided = self._ending(run, outcome, terminal, number, b"", (), now, None)
                run.durable_end = await self._journal.end_undecided(run.log, undecided)
            elif verdict.terminal_event is not None and verdict.terminal_event != terminal:
                log.warning("run_decided_elsewhere", response_id=run.id)
                terminal = verdict.terminal_event
        elif await self._decide(run, partial(self._journal.end_unstored, run.log, terminal)) is None:
            successor, outcome = None, failed("storage_unavailable", "The end could not be stored.")
            terminal = self._again(run, outcome, number)
        self._show(run, outcome, terminal, output, open_calls, successor)

    def _show(
        self,
        run: Run,
        outcome: Outcome,
        terminal: bytes,
        output: bytes,
        open_calls: tuple[OpenCall, ...],
        successor: str | None,
    ) -> None:
        run.outcome = outcome
        run.phase = "ended"
        run.turn = Turn(
            response_id=run.id,
            tenant=run.principal.tenant,
            creator=run.principal.id,
            visibility=run.state.visibility,
            conversation_id=run.state.conversation_id,
            stored=run.stored,
            status=outcome.status,
            parent=run.parent,
            input=run.input,
            output=output,
            open_calls=open_calls,
            compacted=run.loop.compacted,
            recent=run.loop.recent,
        )
        self.on_end(run)
        run.log.end(terminal, durable=run.stored and run.durable_end)
        if run.request.is_warm_up:
            self._end_quietly(run, outcome)
        else:
            self._tell(run, outcome, [call.call_id for call in open_calls], successor)
        run.done.set()

    def _end_quietly(self, run: Run, outcome: Outcome) -> None:
        """A warm-up is in no feed, but who attaches to it is told the truth."""
        run.state.participants = []
        run.state.usage = _usage(run, outcome)
        run.state.head = run.log.head
        run.state.terminal = outcome.summary
        run.state.expires_at = self._expires_at(run)
        run.state.to(outcome.status, self._clock.now())

    def _expires_at(self, run: Run) -> float:
        return run.ended_at + self._kept_s[run.stored]

    def _tell(self, run: Run, outcome: Outcome, open_calls: list[str], successor: str | None) -> None:
        state: State = outcome.status
        usage, cost = _usage(run, outcome), run.loop.spent.cost
        data: dict[str, Any] = {"usage": usage, "cost": cost, "code": outcome.code, "by": outcome.by}
        run.state.usage, run.state.cost = usage, cost
        self._registry.change(
            run.state,
            state,
            event=f"run.{state}",
            data=data,
            head=run.log.head,
            open_calls=open_calls,
            current_tool=None,
            participants=[],
            terminal=_terminal(outcome, successor),
            expires_at=self._expires_at(run),
        )

    def _ending(
        self,
        run: Run,
        outcome: Outcome,
        terminal: bytes,
        number: int,
        output: bytes,
        open_calls: tuple[OpenCall, ...],
        now: float,
        successor: str | None,
    ) -> Ending:
        row = run.state.row() | {
            "state": outcome.status,
            # As high as what watchers are pushed (`_tell`): of two states the higher revision is true.
            "revision": run.state.revision + 1,
            "expires_at": self._expires_at(run),
            "head": number,
            "usage": _usage(run, outcome),
            "cost": run.loop.spent.cost,
            "updated_at": now,
            "open_calls": [call.call_id for call in open_calls],
            "current_tool": None,
            "participants": [],
            "terminal": _terminal(outcome, successor),
        }
        return Ending(
            id=run.id,
            fence=run.fence,
            status=outcome.status,
            ended_at=now,
            context_output=output,
            open_calls=orjson.dumps(open_calls),
            response=run.assembler.snapshot(outcome),
            run_state=orjson.dumps(row),
            terminal_event=terminal,
            terminal_number=number,
            http_status=outcome.http_status,
            compacted_context=run.loop.compacted,
            item_ids=[(item.id, item.upstream_id) for item in run.assembler.items],
            following=run.following,
            appended=_appended(run, outcome, open_calls),
        )

    def _again(self, run: Run, outcome: Outcome, number: int) -> bytes:
        """Another terminal event in the place of the one that could not be written."""
        run.assembler.next_number = number
        return run.assembler.terminal(outcome)

    async def _decide(self, run: Run, write: Callable[[float], Awaitable[Verdict]]) -> Verdict | None:
        """The guarded write, tried again while the store is away; None when patience ran out. Raises RunLost.

        write: takes how many seconds to wait for earlier events.
        """
        started = self._clock.monotonic()
        attempt = 0
        while True:
            deadline = started + self._retry_s  # shorter when the server is told to stop meanwhile
            try:
                verdict = await write(min(deadline - self._clock.monotonic(), 3.0))
                # Lost to an owner that has not decided yet: ours must not be shown.
                return verdict if verdict.won or verdict.terminal_event is not None else None
            except StorageError as error:
                log.warning("terminal_write_failed", response_id=run.id, error=str(error.__cause__))
            wait_s = _RETRY_S[min(attempt, len(_RETRY_S) - 1)]
            if self._clock.monotonic() + wait_s > deadline:
                return None
            await asyncio.sleep(wait_s)
            attempt += 1


def _appended(run: Run, outcome: Outcome, open_calls: Sequence[OpenCall]) -> Appended | None:
    """What the run leaves in the conversation it was created for. One that failed leaves nothing in it."""
    conversation_id = run.request.conversation_id
    if conversation_id is None or outcome.status == "failed":
        return None
    output = orjson.loads(run.assembler.snapshot(outcome))["output"]
    return Appended(conversation_id, left_in_conversation(output, [call.call_id for call in open_calls]))


def _usage(run: Run, outcome: Outcome) -> dict[str, Any] | None:
    """What all model calls of the run came to, estimates included; the response shows what upstreams reported."""
    return run.loop.spent.usage or outcome.usage


def _terminal(outcome: Outcome, successor: str | None) -> dict[str, Any]:
    return outcome.summary | ({"successor": successor} if successor is not None else {})
