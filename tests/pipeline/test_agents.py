"""Agents: found in three tiers, what they add to a create, and what clients see of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.calling import error_of, get, until
from tests.pipeline.agents import agent_of, now, post, serving
from tests.session.play import connected
from tests.support.stub_upstream import answering, calls, in_turn, text

TIERS: list[dict[str, Any]] = [
    {"name": "shared", "tier": "system", "model": "small", "instructions": "system"},
    {"name": "shared", "tier": "community", "model": "small", "instructions": "community"},
    {"name": "shared", "tier": "user", "tenant": "acme", "model": "small", "instructions": "acme"},
    {"name": "plain", "tier": "system", "model": "small"},
]


@pytest.mark.parametrize(
    ("key", "source", "told"), [("driver", "user", "acme"), ("foreign", "community", "community")]
)
async def test_a_tenants_own_agent_comes_before_a_community_one_and_that_before_a_system_one(
    key: str, source: str, told: str
) -> None:
    async with serving(agent=TIERS) as (stub, server):
        response = (await post(server, key, model="agent:shared")).json()
        assert agent_of(server, response["id"]) == ("shared", source)
        assert stub.requests[0].body["instructions"] == told
        assert stub.requests[0].body["model"] == "small"


@pytest.mark.parametrize("named", [{"model": "agent:nobody"}, {"antiphon": {"agent": "nobody"}, "model": "small"}])
async def test_an_unknown_agent_is_404_and_never_a_generic_one(named: dict[str, Any]) -> None:
    async with serving(agent=TIERS) as (stub, server):
        answer = await post(server, **named)
        assert (answer.status_code, error_of(answer)["code"]) == (404, "agent_not_found")
        assert stub.requests == []


async def test_another_tenants_agent_answers_as_one_that_does_not_exist() -> None:
    mine = {"name": "mine", "tier": "user", "tenant": "acme", "model": "small"}
    async with serving(agent=[mine]) as (_, server):
        foreign, unknown = [await post(server, "foreign", model=f"agent:{name}") for name in ("mine", "none")]
        assert foreign.status_code == 404
        assert foreign.text.replace("mine", "none") == unknown.text


async def test_without_an_agent_it_is_the_built_in_one_with_what_the_request_says() -> None:
    async with serving() as (stub, server):
        response = (await post(server, model="large", instructions="mine")).json()
        assert agent_of(server, response["id"]) == ("default", "system")
        assert (stub.requests[0].body["model"], stub.requests[0].body["instructions"]) == ("large", "mine")
        assert response["model"] == "large"


async def test_a_model_beside_an_agent_is_an_override() -> None:
    async with serving(agent=TIERS) as (stub, server):
        response = (await post(server, model="large", antiphon={"agent": "shared"})).json()
        assert agent_of(server, response["id"]) == ("shared", "user")
        assert (stub.requests[0].body["model"], response["model"]) == ("large", "large")


async def test_neither_model_nor_agent_nor_default_is_model_required() -> None:
    async with serving(agent=[{"name": "bare"}]) as (stub, server):
        for fields in ({}, {"model": "agent:bare"}):
            answer = await post(server, **fields)
            assert (answer.status_code, error_of(answer)["code"]) == (400, "model_required")
        assert stub.requests == []


async def test_the_default_model_answers_where_nobody_names_one() -> None:
    async with serving(agent=[{"name": "bare"}], default_model="other") as (stub, server):
        for fields in ({}, {"model": "agent:bare"}):
            assert (await post(server, **fields)).json()["model"] == "other"
        assert [request.body["model"] for request in stub.requests] == ["other", "other"]


async def test_the_agents_instructions_stand_before_the_requests_and_are_never_shown() -> None:
    agent = {"name": "a", "model": "small", "instructions": "SECRET of the agent"}
    async with serving(agent=[agent]) as (stub, server):
        answer = await post(server, model="agent:a", instructions="mine")
        assert stub.requests[0].body["instructions"] == "SECRET of the agent\n\nmine"
        stored = await get(server, f"/v1/responses/{answer.json()['id']}", "driver")
        for text_ in (answer.text, stored.text):
            assert "SECRET" not in text_
        assert answer.json()["instructions"] == stored.json()["instructions"] == "mine"
        assert (await post(server, model="agent:a")).json()["instructions"] is None


async def test_a_continuation_keeps_nothing_of_the_agent_unless_it_is_named_again() -> None:
    async with serving(agent=[{"name": "a", "model": "small", "instructions": "told"}]) as (stub, server):
        first = (await post(server, model="agent:a")).json()["id"]
        second = (await post(server, model="large", previous_response_id=first)).json()["id"]
        assert agent_of(server, second) == ("default", "system")
        assert "instructions" not in stub.requests[1].body


async def test_the_agents_own_chain_answers_visibly_when_its_model_fails() -> None:
    agent = {"name": "a", "model": "small", "fallbacks": ["large"]}
    refuse = answering(503, {"error": {"message": "down"}})
    async with serving(
        handler=in_turn(refuse, text(1)), retry={"max_attempts": 1}, agent=[agent], fallbacks={"small": ["other"]}
    ) as (stub, server):
        response = (await post(server, model="agent:a")).json()
        assert response["status"] == "completed"
        assert [request.body["model"] for request in stub.requests] == ["small", "large"]
        state = server.app.registry.get(response["id"])
        assert (state.degraded, state.fallback_from) == (True, "small")


async def test_labels_of_the_agent_are_the_runs_where_the_request_has_no_other() -> None:
    agent = {"name": "a", "model": "small", "labels": {"team": "x", "app": "y"}}
    async with serving(agent=[agent]) as (_, server):
        response = (await post(server, model="agent:a", antiphon={"labels": {"app": "mine"}})).json()
        assert server.app.registry.get(response["id"]).labels == {"team": "x", "app": "mine"}


HOLDING = {"name": "a", "model": "small", "client_tools": "hold"}


@pytest.mark.parametrize(
    ("hello", "fields", "holds"),
    [
        (False, {"model": "agent:a"}, False),
        (False, {"antiphon": {"agent": "a"}}, True),
        (True, {"model": "agent:a"}, True),
        (True, {"model": "agent:a", "antiphon": {"client_tools": "return"}}, False),
    ],
)
async def test_an_agents_hold_is_for_creators_that_said_hello_or_sent_our_object(
    hello: bool, fields: dict[str, Any], holds: bool
) -> None:
    look = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    async with (
        serving(handler=calls(("look", "{}")), agent=[HOLDING], auth=False) as (_, server),
        connected(server.ws_url) as client,
    ):
        if hello:
            await client.hello()
        await client.send({"type": "response.create", "input": "x", "tools": [look], **fields})
        done = await client.recv_until(lambda event: event["type"] == "response.output_item.done")
        response_id = next(event for event in done if event["type"] == "response.created")["response"]["id"]
        if holds:
            await until(lambda: server.app.registry.get(response_id).state == "waiting_for_tool")
            await client.send({"type": "response.cancel", "response_id": response_id})
        await until(lambda: server.app.registry.get(response_id).terminal is not None)
        assert server.app.registry.get(response_id).state == ("cancelled" if holds else "completed")


async def test_an_agent_offers_its_tools_where_the_request_says_nothing_about_tools() -> None:
    agents = [{"name": "a", "model": "small", "tools": ["one"]}, {"name": "none", "model": "small", "tools": []}]
    own = {"type": "mcp", "server_label": "antiphon"}
    async with serving(agent=agents, tool=[now("one"), now("two")]) as (stub, server):
        for fields, offered in (
            ({"model": "agent:a"}, ["one"]),
            ({"model": "agent:a", "tools": []}, []),
            ({"model": "agent:a", "tools": [own]}, ["one"]),
            ({"model": "agent:a", "tools": [{**own, "allowed_tools": ["two"]}]}, []),
            ({"model": "agent:none", "tools": [own]}, []),
            ({"model": "small", "tools": [own]}, ["current_time", "one", "two"]),
        ):
            assert (await post(server, **fields)).json()["status"] == "completed"
            tools = stub.requests[-1].body.get("tools") or []
            assert [tool["name"] for tool in tools] == offered


async def test_tools_that_clients_execute_are_theirs_whatever_the_agent_has() -> None:
    function = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    async with serving(agent=[{"name": "a", "model": "small", "tools": []}]) as (stub, server):
        await post(server, model="agent:a", tools=[function, {"type": "code_interpreter"}])
        assert [tool.get("name") for tool in stub.requests[0].body["tools"]] == ["look"]
