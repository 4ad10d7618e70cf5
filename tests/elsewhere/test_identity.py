"""Several nodes: a ticket counts on each and once in all, a revocation is heard everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from tests.elsewhere.two_nodes import two_nodes
from tests.http.calling import http, key_of
from tests.identity.servers import KEY, TENANTS, bare, revoke_key, store_key
from tests.support.ws_client import ws_client

AUTH: dict[str, Any] = {
    "auth": "required",
    "key": [key_of(KEY, name="ci", tenant="acme")],
    "tenant": TENANTS,
    "identity": {"reread_s": 0.2},
}


async def test_a_ticket_of_one_node_opens_a_socket_on_the_other_once(postgres_url: str) -> None:
    async with two_nodes(postgres_url, **AUTH) as nodes, http(nodes.here, KEY) as client:
        ticket = (await client.post("/v1/tickets")).json()["ticket"]
        async with bare(nodes.there, query=f"?ticket={ticket}") as socket:
            await socket.hello()
        for node in (nodes.here, nodes.there):
            with pytest.raises(InvalidStatus):
                async with bare(node, query=f"?ticket={ticket}"):
                    pass


async def test_a_key_revoked_through_one_node_closes_its_sockets_on_the_other(postgres_url: str) -> None:
    async with two_nodes(postgres_url, **AUTH) as nodes:
        key_id = await store_key(nodes.here, "ak_both")
        async with ws_client(nodes.there.ws_url, api_key="ak_both") as socket:
            await socket.hello()
            await revoke_key(nodes.here, key_id)
            assert await socket.wait_closed() == (4500, "invalid_api_key")


async def test_what_protects_a_node_is_counted_by_each_for_itself(postgres_url: str) -> None:
    once = {
        "creates_per_s": 0.001,
        "create_burst": 1,
        "failed_logins_per_s": 0.001,
        "failed_login_burst": 1,
        "sockets_per_principal": 1,
    }
    async with two_nodes(postgres_url, **AUTH, door=once) as nodes:
        for node in (nodes.here, nodes.there):
            async with http(node, "wrong") as stranger:
                assert [(await stranger.get("/v1/models")).status_code for _ in range(2)] == [401, 429]
            async with http(node, KEY) as client:
                create = {"model": "antiphon/echo", "input": "x"}
                answers = [(await client.post("/v1/responses", json=create)).status_code for _ in range(2)]
                assert answers == [200, 429]
            async with ws_client(node.ws_url, api_key=KEY):
                with pytest.raises(InvalidStatus):
                    async with ws_client(node.ws_url, api_key=KEY):
                        pass
