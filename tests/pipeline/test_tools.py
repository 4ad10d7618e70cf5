"""Tools of the server: what was requested, and the tenant has, and the agent has (acceptance N)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.calling import error_of
from tests.pipeline.agents import now, post, serving

TENANTS = [{"id": "acme", "tools": ["one", "web_search"]}, {"id": "other", "tools": ["two"]}]
OWN = {"type": "mcp", "server_label": "antiphon"}
SERVER = {"name": "files", "kind": "mcp", "command": "true"}


def offered(request: Any) -> list[str]:
    return [tool["name"] for tool in request.body.get("tools") or []]


async def test_each_tenant_gets_its_own_tools_only_whatever_its_request_says() -> None:
    always = {**now("two"), "always": True}
    async with serving(tenant=TENANTS, tool=[now("one"), always]) as (stub, server):
        for key, tools in (("driver", ["one"]), ("foreign", ["two"])):
            response = (await post(server, key, model="small", tools=[OWN], tenant="acme", user="other")).json()
            listed = [item for item in response["output"] if item["type"] == "mcp_list_tools"]
            assert [[tool["name"] for tool in item["tools"]] for item in listed] == [tools]
            assert offered(stub.requests[-1]) == tools
        await post(server, "driver", model="small")
        await post(server, "foreign", model="small")
        assert [offered(request) for request in stub.requests[2:]] == [[], ["two"]]


@pytest.mark.parametrize(
    ("foreign", "unknown"),
    [
        ({**OWN, "allowed_tools": ["two"]}, {**OWN, "allowed_tools": ["none"]}),
        ({"type": "mcp", "server_label": "files"}, {"type": "mcp", "server_label": "none"}),
    ],
)
async def test_another_tenants_tool_is_refused_as_one_that_does_not_exist(
    foreign: dict[str, Any], unknown: dict[str, Any]
) -> None:
    async with serving(tenant=TENANTS, tool=[now("one"), now("two"), SERVER]) as (stub, server):
        told, none = [await post(server, model="small", tools=[tool]) for tool in (foreign, unknown)]
        assert (told.status_code, error_of(told)["code"]) == (400, "invalid_request")
        assert told.text.replace("two", "none").replace("files", "none") == none.text
        assert stub.requests == []


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "code_interpreter"},
        {"type": "mcp", "server_label": "one", "server_url": "https://mcp.example.com/"},
    ],
)
async def test_tools_of_the_upstream_and_servers_by_url_need_a_place_in_the_list_too(tool: dict[str, Any]) -> None:
    bounds = {"mcp_allowed_hosts": ["mcp.example.com"]}
    listed = [{"id": "acme", "tools": ["web_search"]}, {"id": "other"}]
    async with serving(tenant=listed, tools=bounds) as (stub, server):
        answer = await post(server, model="small", tools=[tool])
        assert (answer.status_code, error_of(answer)["code"]) == (400, "unsupported_tool")
        assert stub.requests == []
        assert (await post(server, model="small", tools=[{"type": "web_search"}])).status_code == 200
        assert stub.requests[0].body["tools"] == [{"type": "web_search"}]


async def test_an_empty_list_gives_nothing_and_leaves_clients_their_own() -> None:
    function = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    always = {**now("one"), "always": True}
    async with serving(tenant=[{"id": "acme", "tools": []}, {"id": "other"}], tool=[always]) as (stub, server):
        await post(server, model="small", tools=[OWN, function])
        assert offered(stub.requests[0]) == ["look"]


async def test_the_demo_models_own_tool_is_withheld_where_the_tenant_has_none() -> None:
    async with serving(tenant=[{"id": "acme", "tools": []}, {"id": "other"}]) as (_, server):
        for key, made in (("driver", False), ("foreign", True)):
            tool = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
            response = (await post(server, key, model="antiphon/demo", tools=[tool])).json()
            calls = [item for item in response["output"] if item["type"] == "mcp_call" and item["error"] is None]
            assert bool(calls) == made
