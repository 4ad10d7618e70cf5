"""GET /v1/admin/status: what one machine says, what several nodes say together, and a node that says nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from antiphon.bus.memory import MemoryBus, MemoryHub
from antiphon.clock import SystemClock
from antiphon.core.node_status import NodeReport
from antiphon.ops.status import BackendStatus
from antiphon.ops.status import Status as StatusBoard
from antiphon_protocol.status import Status
from tests.core.test_node_status import REPORT
from tests.elsewhere.two_nodes import two_nodes
from tests.http.calling import MODEL, begin, create, get, key_of, slow, stub_server, until
from tests.session.play import words, write_script
from tests.support import stub_upstream as stub
from tests.support.server import RunningServer
from tests.support.ws_client import ws_client

KEYS = [key_of(role, name=role, tenant="acme", role=role) for role in ("driver", "operator", "admin")]
ANSWERED_WITHIN_S = 30.0


async def status(server: RunningServer, key: str | None = None) -> dict[str, Any]:
    """A status that has to be given, in the form the protocol has for it."""
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        answer = await get(server, "/v1/admin/status", key)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    Status.model_validate(body)
    return body


async def test_one_machine_counts_its_runs_events_tokens_errors_and_how_its_upstream_does() -> None:
    handler = stub.in_turn(stub.text(3), stub.answering(503, {"error": {"message": "no"}}))
    settings: dict[str, Any] = {"retry": {"max_attempts": 1}, "breaker": {"failures": 1}}
    async with stub_server(handler, auth="required", key=KEYS, tenant=[{"id": "acme"}], **settings) as (_, server):
        before = await status(server, "admin")
        assert before["upstreams"] == [
            {
                "name": "stub",
                "breaker": "closed",
                "failures": 0,
                "open_until": None,
                "calls": 0,
                "latency_ms": None,
            }
        ]
        done = await create(server, model=MODEL, key="driver")
        failed = await begin(server, model=MODEL, key="driver")
        await until(lambda: server.app.registry.get(failed).state == "failed")
        await get(server, f"/v1/responses/{failed}", "driver")
        live = await begin(server, model=slow(server), key="driver")
        assert (await get(server, "/v1/admin/status", "driver")).status_code == 403
        async with ws_client(server.ws_url, api_key="driver") as client:
            await client.create(model="nobody-has-it")
            await client.recv_error()
            after, less = await status(server, "admin"), await status(server, "operator")
        (node,) = after["nodes"]
        assert after["node"] == node["id"] and node["self"] and node["state"] == "ready" and node["lease"] is None
        assert (node["live_runs"], node["sockets"]) == (1, 1)
        (told,) = less["nodes"]  # what sums over all tenants is not for one of them
        assert (less["totals"], told["live_runs"], told["sockets"]) == (None, None, None)
        (also,) = less["upstreams"]
        assert (also["breaker"], also["calls"], told["state"]) == ("open", 2, "ready")
        (upstream,) = after["upstreams"]
        assert (upstream["breaker"], upstream["failures"], upstream["calls"]) == ("open", 1, 2)
        assert upstream["open_until"] > after["at"] and upstream["latency_ms"]["p50"] >= 0
        totals = after["totals"]
        assert (totals["runs_started"], totals["runs_live"]) == (3, 1)
        assert totals["output_tokens"] == done["usage"]["output_tokens"]
        assert totals["errors"] == {"upstream_unavailable": 1, "model_not_found": 1}
        assert totals["first_token_ms"]["count"] == 2
        heads = [server.app.registry.get(run).head for run in (done["id"], failed)]
        assert totals["events"] > sum(heads) + 1 and live
        assert after["bus"] == {"kind": "memory", "healthy": True, "detail": None}
        assert after["store"] == {"kind": "sqlite", "healthy": True}


async def test_a_draining_server_says_so() -> None:
    async with stub_server(stub.text(1)) as (_, server):
        server.app.engine.service.draining = True
        assert (await status(server))["nodes"][0]["state"] == "draining"


async def test_every_node_shows_all_of_them_with_sums_and_one_that_is_silent_as_silent(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes:
        model = write_script(nodes.folder, "long", [words(2000, rate=100)])
        await create(nodes.here)
        await begin(nodes.there, model=model)
        here, there = await status(nodes.here), await status(nodes.there)
        assert here["node"] != there["node"]
        for said in (here, there):
            first, second = said["nodes"]
            assert {first["id"], second["id"]} == {here["node"], there["node"]}
            assert (first["self"], second["self"]) == (True, False)
            assert all(node["state"] == "ready" and node["lease"]["expires_at"] > 0 for node in said["nodes"])
            assert (said["totals"]["runs_started"], said["totals"]["runs_live"]) == (2, 1)
            assert said["bus"]["kind"] == "redis" and said["store"] == {"kind": "postgresql", "healthy": True}

        async def never(payload: bytes) -> bytes:
            await asyncio.Event().wait()
            return payload

        nodes.there.app.engine.answering.questions["node.status"] = never
        alone = await status(nodes.here)
        assert [(node["id"], node["state"]) for node in alone["nodes"]] == [
            (here["node"], "ready"),
            (there["node"], "silent"),
        ]
        assert alone["totals"]["runs_live"] == 0


async def test_an_answer_that_cannot_be_read_is_silence_and_without_the_bus_a_node_speaks_for_itself() -> None:
    clock, hub = SystemClock(), MemoryHub()
    mine, other = MemoryBus(hub, "a", clock, 60.0), MemoryBus(hub, "b", clock, 60.0)

    async def nonsense(sender: str, kind: str, payload: bytes) -> bytes:
        return b'{"upstreams": []}'

    async def backends() -> BackendStatus:
        return BackendStatus("redis", mine.healthy, None, "postgresql", True)

    def report() -> NodeReport:
        return replace(REPORT, id="a", lease_expires_at=clock.now() + (mine.lease_left_s or 0.0))

    other.on_message = nonsense
    await mine.start()
    await other.start()
    try:
        board = StatusBoard(mine, clock, report, backends)
        body = await board.show(with_sums=True)
        assert [(node["id"], node["state"]) for node in body["nodes"]] == [("a", "ready"), ("b", "silent")]
        left_s = body["nodes"][0]["lease"]["expires_at"] - body["at"]
        assert 0 < left_s <= 60
        hub.cut("a")
        assert [node["id"] for node in (await board.show(with_sums=True))["nodes"]] == ["a"]
    finally:
        await mine.stop()
        await other.stop()
