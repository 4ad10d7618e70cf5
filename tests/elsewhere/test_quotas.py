"""Two nodes count together: one unit for both, one pause for both (acceptance D, K)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.elsewhere.two_nodes import two_nodes
from tests.http.calling import body, error_of, get, http, key_of, until
from tests.support.server import RunningServer

KEYS = [
    key_of("driver", name="driver", tenant="acme", role="driver"),
    key_of("admin", name="admin", tenant="default", role="admin"),
]


def settings(**quotas: Any) -> dict[str, Any]:
    return {"auth": "required", "key": KEYS, "tenant": [{"id": "acme", "quotas": quotas}]}


async def start(server: RunningServer) -> tuple[int, str]:
    async with http(server, "driver") as client:
        answer = await client.post("/v1/responses", json=body())
    return answer.status_code, "" if answer.status_code == 200 else error_of(answer)["message"]


async def test_of_many_starts_on_two_nodes_one_gets_the_last_unit(postgres_url: str) -> None:
    async with two_nodes(postgres_url, **settings(requests_per_month=1)) as nodes:
        answers = await asyncio.gather(*(start((nodes.here, nodes.there)[i % 2]) for i in range(20)))
        assert sorted(answers)[0] == (200, "")
        assert sorted(answers)[1:] == [(429, "Monthly request quota exceeded")] * 19
        for server in (nodes.here, nodes.there):
            await server.app.accounts.flush()
        used = (await get(nodes.there, "/v1/usage", "admin")).json()["data"]
        assert [(one["tenant"], one["runs"]) for one in used] == [("acme", 1)]


async def test_a_pause_on_one_node_binds_the_next_run_on_the_other(postgres_url: str) -> None:
    async with two_nodes(postgres_url, **settings()) as nodes:
        async with http(nodes.here, "admin") as client:
            assert (await client.post("/v1/admin/tenants/acme/pause")).status_code == 200
        await until(lambda: nodes.there.app.accounts.standing.paused("acme"))
        assert await start(nodes.there) == (503, "This tenant is paused.")
        async with http(nodes.there, "admin") as client:
            assert (await client.post("/v1/admin/tenants/acme/resume")).status_code == 200
        await until(lambda: not nodes.here.app.accounts.standing.paused("acme"))
        assert (await start(nodes.here))[0] == 200
