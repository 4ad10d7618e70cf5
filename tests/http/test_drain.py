"""A shutdown as HTTP clients see it: refused aloud, finished in time, or ended truthfully (PROTOCOL 3.6.2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.http.calling import begin, body, create, error_of, follow, get, http, script, slow, until
from tests.support.gap_checker import check_run
from tests.support.server import running_server


async def test_new_work_is_refused_with_a_hint_while_running_turns_finish(tmp_path: Path) -> None:
    async with running_server(timeouts={"drain_s": 20}) as server, http(server) as client:
        text = "[[turns]]\n[[turns.steps]]\ntext='w{n} '\nrate=100\nrepeat=60"
        watching = asyncio.create_task(follow(server, await begin(server, model=script(server, "short", text))))
        waiting = asyncio.create_task(create(server, model="antiphon/script:short"))
        await until(lambda: server.app.engine.supervisor.running == 2)
        draining = asyncio.create_task(server.app.drain())
        await until(lambda: server.app.engine.service.draining)
        refused = await client.post("/v1/responses", json=body())
        assert (refused.status_code, error_of(refused)["code"]) == (503, "server_draining")
        assert refused.headers["retry-after"] == "2"
        assert (await get(server, "/ready")).status_code == 503 and (
            await get(server, "/health")
        ).status_code == 200
        async with asyncio.timeout(40):
            run = check_run((await watching).payloads)
            assert run.terminal is not None and run.terminal["status"] == "completed"
            assert (await waiting)["status"] == "completed"
            await draining


async def test_what_outlives_the_budget_ends_server_lost_now_and_after_the_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path, timeouts={"drain_s": 0.1}) as server, http(server) as client:
        model = slow(server)
        response_id = await begin(server, model=model)
        watching = asyncio.create_task(follow(server, response_id))
        waiting = asyncio.create_task(client.post("/v1/responses", json=body(model=model)))
        await until(lambda: server.app.engine.supervisor.running == 2)
        async with asyncio.timeout(40):
            await server.app.drain()
            stream, answer = await watching, await waiting
    terminal = check_run(stream.payloads).terminal
    assert stream.done and terminal is not None and terminal["error"]["code"] == "server_lost"
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "server_lost")
    async with running_server(tmp_path) as server:
        assert (await get(server, f"/v1/responses/{response_id}")).json() == terminal
        assert (await follow(server, response_id)).events == stream.events


async def test_readiness_fails_before_work_is_refused() -> None:
    async with running_server(timeouts={"drain_pause_s": 0.5, "drain_s": 1}) as server:
        draining = asyncio.create_task(server.app.drain())
        await until(lambda: server.app._draining)
        assert (await get(server, "/ready")).json() == {"status": "draining"}
        assert (await create(server))["status"] == "completed"
        await draining
