"""One run's way through the middlewares (`agent.run`, the waterfall).

The middlewares of a run are one task. What they decide, to go on, to answer themselves or to refuse, is known as
soon as one of them has decided it, and nothing that happens later changes it; they then stand behind their `next`
until the run has ended. Only their own time counts: what they take before `next`, and after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from antiphon.errors import AntiphonError, Deny, HookError
from antiphon.governance.hooks.calling import Calls, ends_the_process, place_of
from antiphon.governance.hooks.dispatch import Subscription
from antiphon.governance.hooks.rewriting import Rewrite, checked_reply
from antiphon.hooks import Reply, RunOutcome, RunRequest

log = structlog.get_logger(__name__)

_NAME = "middlewares"


@dataclass(frozen=True, slots=True)
class Change:
    """What one middleware changed of a request: names of fields, never their content."""

    by: str
    fields: tuple[str, ...]


class Passage:
    """What became of a request, and how the middlewares hear of the end.

    request: as the last middleware passed it on; the very one that was given if none changed it. reply: the answer
    of a middleware that did not let it through, by: its name.
    """

    def __init__(self, request: RunRequest, stages: Sequence[Subscription], chain_s: float, calls: Calls) -> None:
        self.request = request
        self.reply: Reply | None = None
        self.by: str | None = None
        self.changes: list[Change] = []
        self._stages = stages
        self._calls = calls
        self._chain_s = chain_s
        self._left_s = chain_s
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._closed = False
        self._fault: AntiphonError | None = None

    @property
    def changed(self) -> list[dict[str, Any]]:
        """`changes` for the log and for lifecycle events."""
        return [{"by": change.by, "fields": list(change.fields)} for change in self.changes]

    async def decide(self) -> None:
        """Go in; returns when it is known what becomes of the request. Raises what refused it."""
        if not self._stages:
            return
        loop = asyncio.get_running_loop()
        self._decided: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[RunOutcome] = loop.create_future()
        if self._calls.too_many_left(_NAME):
            raise HookError("The middlewares of this server do not come to an end.", code="middleware_timeout")
        self._task = self._calls.start(self._walk(), _NAME)
        try:
            await self._decided
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            self._begun = True
        if self._fault is not None:
            self.refuse(self._fault)
            raise self._fault

    def end(self, outcome: RunOutcome) -> None:
        """The run has ended, and everybody saw it."""
        if self._task is not None and not self._ended.done():
            self._left_s = self._chain_s
            self._ended.set_result(outcome)

    def refuse(self, error: AntiphonError) -> None:
        """It was refused behind the middlewares, which hear it from `next` and cannot change it."""
        if self._task is not None and not self._ended.done():
            self._left_s = self._chain_s
            self._ended.set_exception(error)
            self._ended.exception()  # a middleware may have stopped listening

    def abandon(self) -> None:
        """Nobody here will know how it ends."""
        self._closed = True
        self._stop_timer()
        if self._task is not None:
            self._calls.give_up(self._task)

    async def _walk(self) -> None:
        try:
            await self._stage(0, Rewrite(self.request))
        except asyncio.CancelledError:
            self._decide(HookError("A middleware of this server was cancelled from inside."))
            raise
        except AntiphonError:
            pass  # it was decided where it arose
        finally:
            self._stop_timer()

    async def _stage(self, index: int, given: Rewrite) -> RunOutcome:
        """Middleware `index` and all behind it. Raises AntiphonError."""
        if index == len(self._stages):
            return await self._behind_all(given)
        stage = self._stages[index]
        calls: list[RunOutcome | None] = []

        async def go_on(request: RunRequest) -> RunOutcome:
            if calls or self._closed:
                raise self._wrong(stage, "called next twice" if calls else "called next too late")
            calls.append(None)
            try:
                outcome = await self._stage(index + 1, self._accepted(stage, given, request))
            finally:
                self._start_timer(stage)
            calls[0] = outcome
            return outcome

        self._start_timer(stage)
        try:
            result = await stage.handler(given.copy(), go_on)
        except AntiphonError as error:
            self._decide(error)
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and not ends_the_process(error):
                raise
            raise self._wrong(stage, place_of(error)) from error
        self._stop_timer()
        if calls and calls[0] is not None:
            if result is not calls[0]:
                self._wrong(stage, "gave something else than next had given it")
            return calls[0]
        return await self._own_result(stage, given, result, called=bool(calls))

    def _accepted(self, stage: Subscription, given: Rewrite, request: Any) -> Rewrite:
        """What a middleware passes on. Raises HookError if it may not."""
        try:
            rewritten, changed = given.accept(request)
        except ValueError as error:
            raise self._wrong(stage, str(error)) from error
        if changed:
            self.changes.append(Change(stage.name, changed))
        return rewritten

    async def _own_result(self, stage: Subscription, given: Rewrite, result: Any, *, called: bool) -> RunOutcome:
        """What a middleware gave that has no outcome of `next`. Raises AntiphonError."""
        if isinstance(result, Deny):
            self._decide(result)
            raise result
        if called or not isinstance(result, Reply):
            raise self._wrong(stage, f"gave {type(result).__name__}")
        try:
            self.reply, self.by = checked_reply(result), stage.name
        except ValueError as error:
            raise self._wrong(stage, str(error)) from error
        return await self._behind_all(given)

    async def _behind_all(self, given: Rewrite) -> RunOutcome:
        self._stop_timer()
        self.request = given.request
        self._decide(None)
        return await self._ended

    def _decide(self, error: AntiphonError | None) -> None:
        """The first decision is the one, unless it was to go on and a fault shows before anything has begun."""
        if self._begun or self._fault is not None or (self._decided.done() and error is None):
            return
        self._fault = error
        self._closed = error is not None
        if not self._decided.done():
            self._decided.set_result(None)

    def _wrong(self, stage: Subscription, what: str) -> HookError:
        """A middleware broke its contract: the run fails with it, as long as nothing of it has begun."""
        log.error("middleware_wrong", middleware=stage.name, what=what, response_id=self.request.run_id)
        error = HookError("A middleware of this server failed.")
        self._decide(error)
        return error

    def _start_timer(self, stage: Subscription) -> None:
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._timer = loop.call_later(min(stage.timeout_s, self._left_s), self._late, stage)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._since is not None:
            self._left_s = max(0.0, self._left_s - (asyncio.get_running_loop().time() - self._since))
            self._since = None

    def _late(self, stage: Subscription) -> None:
        """The decision does not wait for the task: it may not hear its cancellation."""
        log.warning("middleware_timeout", middleware=stage.name, response_id=self.request.run_id)
        self._decide(HookError("A middleware of this server took too long.", code="middleware_timeout"))
        self.abandon()
