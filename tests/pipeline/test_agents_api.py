"""`/v1/agents`: what a caller can name, and what operators store for their tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.http.calling import error_of
from tests.pipeline.agents import agent_of, call, post, serving
from tests.pipeline.hooking import rows

SHARED = [
    {"name": "shared", "model": "small", "instructions": "SECRET of the system"},
    {"name": "theirs", "tier": "user", "tenant": "other", "model": "small"},
]
MINE = {"model": "small", "instructions": "mine", "tools": ["current_time"], "labels": {"team": "x"}}
PATH = "/v1/agents/team/reviewer:v2"


async def test_an_operator_stores_reads_replaces_and_deletes_an_agent_of_its_tenant() -> None:
    async with serving(agent=SHARED) as (stub, server):
        put = await call(server, "operator", "PUT", PATH, MINE)
        assert put.status_code == 201
        assert put.json() == {
            "object": "agent",
            "name": "team/reviewer:v2",
            "source": "user",
            "model": "small",
            "fallbacks": None,
            "instructions": "mine",
            "tools": ["current_time"],
            "client_tools": "return",
            "context": None,
            "strict_fallbacks": None,
            "labels": {"team": "x"},
        }
        assert (await call(server, "operator", "GET", PATH)).json() == put.json()
        response = (await post(server, model="agent:team/reviewer:v2")).json()
        assert agent_of(server, response["id"]) == ("team/reviewer:v2", "user")
        assert stub.requests[0].body["instructions"] == "mine"
        replaced = await call(server, "operator", "PUT", PATH, {"model": "large"})
        assert (replaced.status_code, replaced.json()["instructions"]) == (200, None)
        deleted = await call(server, "operator", "DELETE", PATH)
        assert deleted.json() == {"name": "team/reviewer:v2", "object": "agent", "deleted": True}
        for answer in (
            await call(server, "operator", "GET", PATH),
            await call(server, "operator", "DELETE", PATH),
            await post(server, model="agent:team/reviewer:v2"),
        ):
            assert (answer.status_code, error_of(answer)["code"]) == (404, "agent_not_found")


async def test_each_change_is_in_the_audit_log_and_says_nothing_of_what_the_agent_is_told() -> None:
    async with serving() as (_, server):
        await call(server, "operator", "PUT", PATH, {"instructions": "SECRET"})
        await call(server, "operator", "DELETE", PATH)
        entries = [str(row) for row in await rows(server, "audit")]
        assert ["agent.put" in entries[0], "agent.delete" in entries[1]] == [True, True]
        assert all("agent:team/reviewer:v2" in entry and "key:operator" in entry for entry in entries)
        assert "SECRET" not in "".join(entries)


async def test_everybody_sees_what_it_can_name_with_its_source_and_not_what_it_is_told() -> None:
    async with serving(agent=SHARED) as (_, server):
        await call(server, "operator", "PUT", "/v1/agents/mine", {"instructions": "SECRET", "model": "small"})
        listed = await call(server, "driver", "GET", "/v1/agents")
        assert [(agent["name"], agent["source"]) for agent in listed.json()["data"]] == [
            ("default", "system"),
            ("mine", "user"),
            ("shared", "system"),
        ]
        assert "SECRET" not in listed.text
        assert "SECRET of the system" not in (await call(server, "operator", "GET", "/v1/agents")).text
        foreign = await call(server, "foreign", "GET", "/v1/agents")
        assert [agent["name"] for agent in foreign.json()["data"]] == ["default", "shared", "theirs"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_another_tenants_agent_is_as_one_that_does_not_exist(method: str) -> None:
    async with serving(agent=SHARED) as (_, server):
        await call(server, "operator", "PUT", "/v1/agents/mine", MINE)
        told, none = [await call(server, "foreign", method, f"/v1/agents/{name}") for name in ("mine", "none")]
        assert told.status_code == none.status_code == 404
        assert told.text.replace("mine", "none") == none.text
        assert (await call(server, "operator", "GET", "/v1/agents/mine")).status_code == 200


async def test_two_tenants_may_have_agents_of_one_name() -> None:
    async with serving() as (stub, server):
        for key in ("operator", "foreign"):
            await call(server, key, "PUT", "/v1/agents/a", {"model": "small", "instructions": key})
            await post(server, key, model="agent:a", tenant="acme")
        assert [request.body["instructions"] for request in stub.requests] == ["operator", "foreign"]


@pytest.mark.parametrize(
    ("key", "path", "sent", "status", "code"),
    [
        ("driver", "/v1/agents/a", {}, 403, "forbidden"),
        ("operator", "/v1/agents/default", {}, 400, "invalid_request"),
        ("operator", "/v1/agents/-a", {}, 400, "invalid_request"),
        ("operator", "/v1/agents/" + "a" * 129, {}, 400, "invalid_request"),
        ("operator", "/v1/agents/a", {"colour": "red"}, 400, "invalid_request"),
        ("operator", "/v1/agents/a", {"tenant": "other"}, 400, "invalid_request"),
        ("operator", "/v1/agents/a", {"tier": "system"}, 400, "invalid_request"),
        ("operator", "/v1/agents/a", {"model": "m", "fallbacks": ["m"]}, 400, "invalid_request"),
        ("operator", "/v1/agents/a", {"context": ["nobody"]}, 400, "invalid_request"),
        ("operator", "/v1/agents/a", {"model": "large"}, 403, "model_not_allowed"),
        ("operator", "/v1/agents/a", {"fallbacks": ["large"]}, 403, "model_not_allowed"),
    ],
)
async def test_what_cannot_be_stored_is_refused(
    key: str, path: str, sent: dict[str, Any], status: int, code: str
) -> None:
    async with serving(tenant=[{"id": "acme", "models": ["small", "m"]}, {"id": "other"}]) as (_, server):
        answer = await call(server, key, "PUT", path, sent)
        assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        assert await rows(server, "agents") == []


async def test_a_tenant_may_have_as_many_agents_as_its_tier_says() -> None:
    tenants = [{"id": "acme", "tier": "free"}, {"id": "other"}]
    async with serving(tenant=tenants) as (_, server):
        assert (await call(server, "operator", "PUT", "/v1/agents/a", {})).status_code == 201
        full = await call(server, "operator", "PUT", "/v1/agents/b", {})
        assert (full.status_code, error_of(full)["message"]) == (429, "Agent quota exceeded")
        assert (await call(server, "operator", "PUT", "/v1/agents/a", MINE)).status_code == 200
        await call(server, "operator", "DELETE", "/v1/agents/a")
        assert (await call(server, "operator", "PUT", "/v1/agents/b", {})).status_code == 201


async def test_stored_agents_outlive_the_process(tmp_path: Path) -> None:
    for number in range(2):
        async with serving(data_dir=tmp_path) as (stub, server):
            if number == 0:
                await call(server, "operator", "PUT", "/v1/agents/a", MINE)
            await post(server, model="agent:a")
            assert stub.requests[0].body["instructions"] == "mine"
