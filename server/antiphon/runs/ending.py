"""How a run ends: the terminal is decided in one place, made durable, then shown (DESIGN "terminal")."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import structlog

from antiphon.core.assembly.outcome import Outcome, failed
from antiphon.core.history import OpenCall, Turn, finished_output
from antiphon.core.run_state import State
from antiphon.errors import StorageError
from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import Clock
from antiphon.runs.run import Run
from antiphon.settings import Settings
from antiphon.store.records import Ending, Verdict

log = structlog.get_logger(__name__)

_RETRY_S = (0.1, 0.3, 1.0, 3.0)


class RunEnder:
    """Ends runs."""

    def __init__(self, journal: SqliteJournal, registry: RunRegistry, clock: Clock, settings: Settings) -> None:
        self._journal = journal
        self._registry = registry
        self._clock = clock
        self._retry_s = settings.store.retry_s
        self._kept_s = {True: settings.journal.retention_s, False: settings.store.grace_s}
        self.on_end: Callable[[Run], None] = lambda run: None
        """Called just before the terminal is shown, when the run's turn can already be continued."""

    def hurry(self) -> None:
        """The server stops: a store that is away now is not waited for."""
        self._retry_s = 0.0

    async def end(self, run: Run, outcome: Outcome) -> None:
        """Give the run its one terminal event. Never raises for a store that is away."""
        run.phase = "ending"
        # A crash may have lost events between the assembler and the log: what is in the log counts.
        run.assembler.next_number = run.log.head + 1
        if outcome.status != "failed":
            first = run.assembler.next_number
            self._journal.append(run.log, run.assembler.close_items("incomplete"), first)
        now = self._clock.now()
        run.ended_at = now
        if outcome.status == "completed":
            run.assembler.response.completed_at = int(now)
        number = run.assembler.next_number
        terminal = run.assembler.terminal(outcome)
        output, open_calls = finished_output(run.assembler.items, outcome)
        if run.stored:
            ending = self._ending(run, outcome, terminal, number, output, open_calls, now)
            verdict = await self._decide(ending, run)
            if verdict is None:
                run.durable_end = False
                outcome = failed("storage_unavailable", "The result could not be stored.")
                run.assembler.next_number = number
                terminal = run.assembler.terminal(outcome)
                self._journal.close(run.log)
            elif verdict.terminal_event is not None and verdict.terminal_event != terminal:
                log.warning("run_decided_elsewhere", response_id=run.id)
                terminal = verdict.terminal_event
        self._show(run, outcome, terminal, output, open_calls)

    def _show(
        self, run: Run, outcome: Outcome, terminal: bytes, output: bytes, open_calls: tuple[OpenCall, ...]
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
        )
        self.on_end(run)
        run.log.end(terminal, durable=run.stored and run.durable_end)
        if run.request.is_warm_up:
            self._end_quietly(run, outcome)
        else:
            self._tell(run, outcome, [call.call_id for call in open_calls])
        run.done.set()

    def _end_quietly(self, run: Run, outcome: Outcome) -> None:
        """A warm-up is in no feed, but who attaches to it is told the truth."""
        run.state.usage = outcome.usage
        run.state.head = run.log.head
        run.state.terminal = outcome.summary
        run.state.expires_at = self._expires_at(run)
        run.state.to(outcome.status, self._clock.now())

    def _expires_at(self, run: Run) -> float:
        return run.ended_at + self._kept_s[run.stored]

    def _tell(self, run: Run, outcome: Outcome, open_calls: list[str]) -> None:
        state: State = outcome.status
        data: dict[str, Any] = {"usage": outcome.usage, "cost": None, "code": outcome.code, "by": outcome.by}
        if outcome.usage is not None:
            usage = {"step": run.state.step, **_usage_data(outcome.usage), "estimated": False}
            self._registry.note(run.state, event="run.usage", data=usage, usage=outcome.usage)
        self._registry.change(
            run.state,
            state,
            event=f"run.{state}",
            data=data,
            head=run.log.head,
            open_calls=open_calls,
            current_tool=None,
            terminal=outcome.summary,
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
    ) -> Ending:
        row = run.state.row() | {
            "state": outcome.status,
            # As high as what watchers are pushed (`_tell`): of two states the higher revision is true.
            "revision": run.state.revision + 1,
            "expires_at": self._expires_at(run),
            "head": number,
            "usage": outcome.usage,
            "updated_at": now,
            "open_calls": [call.call_id for call in open_calls],
            "terminal": outcome.summary,
        }
        calls = [
            {
                "call_id": call.call_id,
                "upstream_call_id": call.upstream_call_id,
                "name": call.name,
                "type": call.type,
            }
            for call in open_calls
        ]
        return Ending(
            id=run.id,
            fence=run.fence,
            status=outcome.status,
            ended_at=now,
            context_output=output,
            open_calls=orjson.dumps(calls),
            response=run.assembler.snapshot(outcome),
            run_state=orjson.dumps(row),
            terminal_event=terminal,
            terminal_number=number,
            http_status=outcome.http_status,
        )

    async def _decide(self, ending: Ending, run: Run) -> Verdict | None:
        """The guarded write, tried again while the store is away; None when patience ran out."""
        started = self._clock.monotonic()
        attempt = 0
        while True:
            deadline = started + self._retry_s  # shorter when the server is told to stop meanwhile
            try:
                verdict = await self._journal.end(run.log, ending, min(deadline - self._clock.monotonic(), 3.0))
                # Lost to an owner that has not decided yet: ours must not be shown.
                return verdict if verdict.won or verdict.terminal_event is not None else None
            except StorageError as error:
                log.warning("terminal_write_failed", response_id=run.id, error=str(error.__cause__))
            wait_s = _RETRY_S[min(attempt, len(_RETRY_S) - 1)]
            if self._clock.monotonic() + wait_s > deadline:
                return None
            await asyncio.sleep(wait_s)
            attempt += 1


def _usage_data(usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "input": usage["input_tokens"],
        "output": usage["output_tokens"],
        "total": usage["total_tokens"],
        "cached": usage["input_tokens_details"]["cached_tokens"],
        "reasoning": usage["output_tokens_details"]["reasoning_tokens"],
        "cost": None,
    }
