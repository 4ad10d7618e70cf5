"""Runs for Python in the same process: skills, and programs that embed the server. Through the one door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from antiphon.core.create_request import parse_create
from antiphon.core.principal import Principal
from antiphon.core.run_state import Origin
from antiphon.governance.agents import AgentSource
from antiphon.hooks import SkillDispatch
from antiphon.journal.frames import Batch
from antiphon.runs.directory import RunDirectory
from antiphon.runs.elsewhere.reach import Reach
from antiphon.runs.run import Create, Followed, Run
from antiphon.runs.service import RunService, Started


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run came out.

    response: the response object. usage: tokens as on the wire, None where nothing was used. source: the tier that
    the agent came from.
    """

    response: dict[str, Any]
    usage: dict[str, Any] | None
    model: str
    upstream: str
    source: AgentSource
    agent: str
    run_id: str


class InProcess:
    """Starts runs and waits for their ends. current: a run as it is now, wherever it goes on."""

    def __init__(
        self,
        service: RunService,
        directory: RunDirectory,
        reach: Reach,
        current: Callable[[Followed], Followed],
    ) -> None:
        self._service = service
        self._directory = directory
        self._reach = reach
        self._current = current

    async def run(self, principal: Principal, request: Mapping[str, Any]) -> RunResult:
        """Run a create (`{"model": ..., "input": ...}`) to its end. A run that failed is a result, too.

        Whoever stops waiting leaves the run to go on. Raises AntiphonError where it was refused.
        """
        return await self._run(principal, dict(request), "python", None)

    async def run_skill(
        self, principal: Principal, skill_id: str, input: Any, request: Mapping[str, Any] | None = None
    ) -> RunResult:
        """Have a skill do its work as a run; its result is the text. request: further fields of the create.

        Raises AntiphonError where it was refused, HookError `skill_unavailable` where nobody executes the skill.
        """
        dispatch = SkillDispatch(skill_id, input, self._service.mint())
        return await self._run(principal, dict(request or {}), "skill", dispatch)

    async def _run(
        self, principal: Principal, raw: dict[str, Any], origin: Origin, skill: SkillDispatch | None
    ) -> RunResult:
        request = parse_create(raw)
        create = Create(
            request=request,
            raw=raw,
            origin=origin,
            idempotency_key=request.idempotency_key,
            caller_token=request.antiphon.upstream_authorization,
        )
        started = await self._service.start(create, principal, skill=skill)
        return await self._result(started, principal)

    async def _result(self, started: Started, principal: Principal) -> RunResult:
        run_id = started.response_id
        run = started.run or await self._directory.find(run_id, principal)
        if run is not None:
            await until_over(run)
            run = self._current(run)
        if isinstance(run, Run) and run.outcome is not None:
            state, response = run.state.row(), run.response()
        else:
            state = (await self._directory.source(run_id, principal)).state
            response = await self._reach.response(run_id, principal)
        return RunResult(
            response=orjson.loads(response),
            usage=state["usage"],
            model=state["model"],
            upstream=state["upstream"],
            source=state["agent_source"],
            agent=state["agent"],
            run_id=run_id,
        )


async def until_over(run: Followed) -> None:
    """Wait for the end of a run, or until this process stops and it goes on elsewhere."""
    over = asyncio.Event()

    def on_batch(batch: Batch) -> None:
        if run.log.ended:
            over.set()

    run.log.listen(on_batch)
    left = asyncio.ensure_future(run.left.wait())
    left.add_done_callback(lambda _: over.set())
    try:
        if not run.log.ended:
            await over.wait()
    finally:
        left.cancel()
        run.log.unlisten(on_batch)
