"""Skills: who executes them, and what becomes of what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from antiphon.errors import AntiphonError, HookError, RequestError
from antiphon.governance.skills import Skill, Skills
from antiphon.hooks import SkillContext, SkillDispatch, SkillExecutor
from tests.hooks.hooking import ANN, WAIT_S, dispatching, hang

ASKED = SkillDispatch("count", {"text": "hello"}, "resp_1")


async def no_model(create: Mapping[str, Any]) -> Any:
    raise AssertionError


async def executed(
    executor: SkillExecutor, dispatch: SkillDispatch = ASKED, timeout_s: float = WAIT_S, ask: Any = no_model
) -> str:
    async with dispatching() as dispatcher:
        skills = Skills({"count": Skill("count", executor, timeout_s)}, dispatcher, WAIT_S)
        async with asyncio.timeout(WAIT_S):
            return await skills.execute(dispatch, ANN, ask)


async def count(dispatch: SkillDispatch, context: SkillContext) -> dict[str, Any]:
    return {"run": dispatch.run_id, "for": [context.tenant, context.principal], "n": len(dispatch.input["text"])}


async def test_the_json_of_the_result_is_the_text() -> None:
    assert await executed(count) == '{"run":"resp_1","for":["acme","user:ann"],"n":5}'


async def test_a_skill_asks_models_through_the_door() -> None:
    creates: list[Mapping[str, Any]] = []

    async def ask(create: Mapping[str, Any]) -> str:
        creates.append(create)
        return "42"

    async def execute(dispatch: SkillDispatch, context: SkillContext) -> Any:
        return await context.ask({"model": "antiphon/echo", "input": dispatch.input})

    assert await executed(execute, ask=ask) == '"42"'
    assert creates == [{"model": "antiphon/echo", "input": {"text": "hello"}}]


async def test_without_an_executor_the_refusal_has_the_contracts_words() -> None:
    async with dispatching() as dispatcher:
        with pytest.raises(HookError) as caught:
            await Skills({}, dispatcher, WAIT_S).find(ASKED)
    error = caught.value
    assert (error.code, error.status, error.message) == ("skill_unavailable", 503, "SkillEngine is not provided")
    assert not error.retryable and error.headers == {"x-should-retry": "false"}


async def test_an_observer_may_know_an_executor_that_is_not_configured() -> None:
    async def find(dispatch: SkillDispatch) -> SkillExecutor | None:
        return count if dispatch.skill_id == "elsewhere" else None

    async with dispatching() as dispatcher:
        dispatcher.subscribe("skill.find", find, name="finder")
        skills = Skills({}, dispatcher, WAIT_S)
        elsewhere = SkillDispatch("elsewhere", {"text": ""}, "resp_2")
        assert (await skills.find(elsewhere)).execute is count
        assert '"n":0' in await skills.execute(elsewhere, ANN, no_model)
        with pytest.raises(HookError, match="SkillEngine is not provided"):
            await skills.execute(ASKED, ANN, no_model)


async def test_an_error_of_ours_passes_and_every_other_one_stays_inside() -> None:
    refused = RequestError("There is no such text.", code="invalid_input")

    async def refuse(dispatch: SkillDispatch, context: SkillContext) -> Any:
        raise refused

    async def crash(dispatch: SkillDispatch, context: SkillContext) -> Any:
        raise KeyError(dispatch.input["text"])

    async def leave(dispatch: SkillDispatch, context: SkillContext) -> Any:
        raise SystemExit(1)

    async def give_junk(dispatch: SkillDispatch, context: SkillContext) -> Any:
        return object()

    with pytest.raises(RequestError) as caught:
        await executed(refuse)
    assert caught.value is refused
    for executor in (crash, leave, give_junk):
        with capture_logs() as lines, pytest.raises(AntiphonError) as failed:
            await executed(executor)
        assert failed.value.code == "server_error" and "hello" not in f"{failed.value} {lines}"


async def test_one_that_hangs_costs_its_time() -> None:
    with pytest.raises(HookError, match=r"did not end within 0\.05 s"):
        await executed(hang, timeout_s=0.05)
