"""The loop of one run: model call in, events out, until the model is done. One task per run executes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import structlog

from antiphon.core.assembly.outcome import Outcome, failed, stopped
from antiphon.core.history import encode_history
from antiphon.core.model_body import model_body
from antiphon.errors import UpstreamError
from antiphon.journal.sqlite import SqliteJournal
from antiphon.ops.registry import RunRegistry
from antiphon.ports import ModelCall
from antiphon.runs.ending import RunEnder
from antiphon.runs.run import Run

log = structlog.get_logger(__name__)

_LINGER_S = 1.0
"""How long an upstream may take to close its stream after its terminal event, so that the connection is reused."""


class RunLoop:
    """Executes runs."""

    def __init__(self, journal: SqliteJournal, registry: RunRegistry, ender: RunEnder) -> None:
        self._journal = journal
        self._registry = registry
        self._ender = ender

    async def run(self, run: Run) -> None:
        """Execute the run to its terminal event, whatever happens on the way."""
        stream: AsyncIterator[Sequence[bytes]] | None = None
        run.executing = True
        try:
            if run.stop is not None:
                raise asyncio.CancelledError
            self._start(run)
            stream = run.model.upstream.stream(self._call(run))
            outcome = await self._consume(run, stream)
        except asyncio.CancelledError:
            outcome = run.stop or stopped()
        except UpstreamError as error:
            outcome = _upstream_failure(error)
        except Exception:
            log.exception("run_crashed", response_id=run.id)
            outcome = failed("server_error", "The run failed inside the server.")
        run.phase = "ending"  # its end is decided: a cancel from here on comes too late
        if outcome is not run.assembler.outcome and stream is not None:
            await _close(stream)
            stream = None
        try:
            await self._ender.end(run, outcome)
        except Exception:
            log.exception("run_end_crashed", response_id=run.id)
            await self._ender.end(run, failed("server_error", "The run failed inside the server."))
        if stream is not None:
            await _let_finish(stream)

    def _start(self, run: Run) -> None:
        if run.create.origin == "background":
            first = run.assembler.next_number
            event = run.assembler.lifecycle("response.in_progress", "in_progress")
            self._journal.append(run.log, [event], first)
        self._registry.change(run.state, "running", event="run.started", step=1, head=run.log.head)
        data = {"step": 1, "model": run.model.name}
        self._registry.note(run.state, event="run.step.started", data=data)

    def _call(self, run: Run) -> ModelCall:
        body = model_body(run.create.raw, run.model.name, encode_history(run.parent, run.input))
        return ModelCall(run.id, run.model.name, body, run.create.caller_token)

    async def _consume(self, run: Run, stream: AsyncIterator[Sequence[bytes]]) -> Outcome:
        """Feed the stream to the log until the upstream said how it ended."""
        assembler, journal, run_log = run.assembler, self._journal, run.log
        async for batch in stream:
            first = assembler.next_number
            if len(batch) == 1:
                events = assembler.feed(batch[0])
            else:
                events = [event for raw in batch for event in assembler.feed(raw)]
            if events:
                journal.append(run_log, events, first, last=assembler.outcome is not None)
            if assembler.outcome is not None:
                if assembler.dropped:
                    log.debug("upstream_events_dropped", response_id=run.id, count=assembler.dropped)
                return assembler.outcome
        return failed("upstream_error", "The upstream ended the stream without saying how.", http_status=502)


def _upstream_failure(error: UpstreamError) -> Outcome:
    return failed(error.code, error.message, http_status=error.status, headers=error.headers or None)


async def _close(stream: AsyncIterator[Sequence[bytes]]) -> None:
    try:
        await cast(Any, stream).aclose()
    except Exception:
        log.exception("upstream_close_failed")


async def _let_finish(stream: AsyncIterator[Sequence[bytes]]) -> None:
    """Read what follows the terminal event, so that the connection can be used again."""
    try:
        async with asyncio.timeout(_LINGER_S):
            async for _ in stream:
                pass
    except (TimeoutError, UpstreamError):
        pass
    finally:
        await _close(stream)
