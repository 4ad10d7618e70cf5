"""Runs that Python in the same process asks for: programs that embed the server, and skills."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.principal import LOCAL, Principal
from antiphon.errors import AntiphonError, RequestError
from antiphon.hooks import SkillContext, SkillDispatch
from tests.http.calling import get
from tests.pipeline.agents import serving
from tests.pipeline.hooking import events_of, nothing_is_left
from tests.support.server import RunningServer
from tests.support.stub_upstream import answering


async def test_a_run_gives_its_response_and_who_answered() -> None:
    agent = {"name": "a", "tier": "community", "model": "small"}
    async with serving(auth=False, agent=[agent]) as (_, server):
        result = await server.app.run(LOCAL, {"model": "agent:a", "input": "hello"})
        assert (result.agent, result.source, result.model, result.upstream) == ("a", "community", "small", "stub")
        assert (result.response["id"], result.response["status"]) == (result.run_id, "completed")
        assert result.usage == result.response["usage"]
        assert server.app.registry.get(result.run_id).origin == "python"
        stored = (await get(server, f"/v1/responses/{result.run_id}")).json()
        assert stored["output"] == result.response["output"]


@pytest.mark.parametrize("fields", [{"store": False}, {"idempotency_key": "k"}])
async def test_unstored_and_repeated_creates_have_results_too(fields: dict[str, Any]) -> None:
    async with serving(auth=False) as (stub, server):
        request = {"model": "small", "input": "hello", **fields}
        first, second = [await server.app.run(LOCAL, request) for _ in range(2)]
        assert first.response["output"][0]["content"] == second.response["output"][0]["content"]
        assert (first.run_id == second.run_id) == ("idempotency_key" in fields)
        assert len(stub.requests) == (1 if "idempotency_key" in fields else 2)


async def test_a_failed_run_is_a_result_and_a_refused_one_an_error() -> None:
    async with serving(auth=False, handler=answering(400, {"error": {"message": "no", "code": "bad"}})) as (
        _,
        server,
    ):
        result = await server.app.run(LOCAL, {"model": "small", "input": "hello"})
        assert (result.response["status"], result.response["error"]["code"]) == ("failed", "bad")
        with pytest.raises(RequestError) as refused:
            await server.app.run(LOCAL, {"model": "nobody", "input": "hello"})
        assert refused.value.code == "model_not_found"
        with pytest.raises(RequestError) as refused:
            await server.app.run(Principal("user:v", "default", "viewer"), {"model": "small", "input": "hello"})
        assert refused.value.code == "forbidden"


def knows(server: RunningServer, executor: Any) -> None:
    async def find(dispatch: SkillDispatch) -> Any:
        return executor if dispatch.skill_id == "sum" else None

    server.app.hooks.dispatcher.subscribe("skill.find", find, name="skills")


async def test_a_skill_is_a_run_whose_result_is_the_text() -> None:
    asked: list[SkillDispatch] = []

    async def add(dispatch: SkillDispatch, context: SkillContext) -> Any:
        asked.append(dispatch)
        said = await context.ask({"model": "small", "input": "hello"})
        return {"sum": sum(dispatch.input), "said": said.response["output"][0]["content"][0]["text"]}

    async with serving(auth=False) as (stub, server):
        knows(server, add)
        result = await server.app.run_skill(LOCAL, "sum", [1, 2])
        text = result.response["output"][0]["content"][0]["text"]
        assert text == '{"sum":3,"said":"w0 "}'
        assert (result.source, result.agent, result.upstream) == ("system", "default", "skill:sum")
        assert asked[0].run_id == result.run_id
        assert len(stub.requests) == 1
        state = server.app.registry.get(result.run_id)
        assert (state.origin, state.state) == ("skill", "completed")
        events = [event for event in events_of(server, result.run_id, "default") if event != "run.step.started"]
        assert events == ["run.created", "run.started", "run.completed"]


async def test_a_skill_nobody_executes_is_refused_and_leaves_nothing() -> None:
    async with serving(auth=False) as (_, server):
        with pytest.raises(AntiphonError) as refused:
            await server.app.run_skill(LOCAL, "none", None)
        assert (refused.value.status, refused.value.code) == (503, "skill_unavailable")
        assert refused.value.message == "SkillEngine is not provided"
        await nothing_is_left(server)


async def test_a_skill_that_crashes_is_a_failed_run_that_says_nothing_of_why() -> None:
    async def crash(dispatch: SkillDispatch, context: SkillContext) -> Any:
        raise RuntimeError("SECRET")

    async with serving(auth=False) as (_, server):
        knows(server, crash)
        result = await server.app.run_skill(LOCAL, "sum", [1])
        assert (result.response["status"], result.response["error"]["code"]) == ("failed", "server_error")
        assert "SECRET" not in str(result.response)
