"""Steering over HTTP: the same rules, for those who have no socket (PROTOCOL 7.3.8, 11.1)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.http.calling import (
    UNKNOWN_ID,
    begin,
    body,
    create,
    ended,
    error_of,
    follow,
    get,
    http,
    key_of,
    stub_server,
    until,
)
from tests.session.speaking import BEFORE, INSIDE, WHOLE, Speaker
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}


async def steer(
    server: RunningServer, response_id: str, input: Any = "more", key: str | None = None, **fields: Any
) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.post(f"/v1/responses/{response_id}/steer", json={"input": input, **fields})


async def speaks(server: RunningServer, response_id: str) -> None:
    """Wait until a run has begun to say something."""

    async def said() -> bool:
        return bool((await get(server, f"/v1/responses/{response_id}")).json()["output"])

    await until(said)


@pytest.mark.parametrize("turn", [BEFORE, INSIDE])
async def test_a_background_run_is_steered_into_a_successor_known_by_its_id(turn: str) -> None:
    speaker = Speaker(turn, WHOLE)
    async with stub_server(speaker) as (_, server):
        target = await begin(server, "first", "stub-model", instructions="Be brief.")
        await until(lambda: bool(speaker.inputs))
        if turn == INSIDE:
            await speaks(server, target)
        answer = await steer(server, target, "second")
        assert answer.status_code == 200
        told = answer.json()
        assert told["object"] == "response.steer"
        assert told["steer"]["previous_response_id"] == target
        assert told["steer"]["id"].startswith("steer_")
        speaker.release()
        first = await ended(server, target)
        assert first["status"] in ("completed", "incomplete")

        async def there() -> bool:
            return (await get(server, f"/v1/responses/{told['successor']}")).status_code == 200

        await until(there)
        events = (await follow(server, told["successor"])).payloads
        check_run(events)
        response = events[-1]["response"]
        assert (response["previous_response_id"], response["instructions"]) == (target, "Be brief.")
        assert response["background"] is True
        assert speaker.said_by_user() == ["first", "second"]


async def test_a_create_over_http_takes_the_pending_steers_of_its_parent() -> None:
    speaker = Speaker([("look", "{}")], WHOLE)
    async with stub_server(speaker) as (_, server):
        target = await begin(server, "first", "stub-model", tools=[TOOL])
        await speaks(server, target)
        assert (await steer(server, target, "second")).status_code == 200
        speaker.release()
        [call] = (await ended(server, target))["output"]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "4"}
        await create(server, [output], "stub-model", previous_response_id=target)
        assert speaker.said_by_user() == ["first", "second"]


async def test_refusals_have_their_status_and_leave_the_target_alone() -> None:
    speaker = Speaker(INSIDE)
    async with stub_server(speaker) as (_, server):
        target = await begin(server, "first", "stub-model")
        await speaks(server, target)
        cases = [
            (await steer(server, UNKNOWN_ID), 404, "response_not_found"),
            (await steer(server, target, []), 400, "invalid_input"),
            (await steer(server, target, None), 400, "invalid_input"),
            (await steer(server, target, "x", previous_response_id=target), 400, "invalid_input"),
        ]
        for n in range(32):
            assert (await steer(server, target, f"{n}")).status_code == 200
        cases.append((await steer(server, target), 429, "too_many_pending_steers"))
        server.app.engine.service.draining = True
        cases.append((await steer(server, target), 503, "server_draining"))
        async with http(server) as client:
            await client.post(f"/v1/responses/{target}/cancel")
        cases.append((await steer(server, target), 409, "response_not_active"))
        server.app.engine.service.draining = False
        done = (await create(server))["id"]
        cases.append((await steer(server, done), 409, "response_already_completed"))
        for answer, status, code in cases:
            assert (answer.status_code, error_of(answer)["code"]) == (status, code)


async def test_roles_and_tenants_hold() -> None:
    keys = (
        key_of("driver", name="driver", tenant="a"),
        key_of("viewer", name="viewer", tenant="a", role="viewer"),
        key_of("foreign", name="foreign", tenant="b", role="operator"),
    )
    speaker = Speaker(INSIDE)
    async with stub_server(speaker, auth="required", key=keys, tenant=({"id": "a"}, {"id": "b"})) as (_, server):
        async with http(server, "driver") as client:
            begun = await client.post("/v1/responses", json=body("x", "stub-model", background=True))
        target = begun.json()["id"]
        for key, status, code in (("viewer", 403, "forbidden"), ("foreign", 404, "response_not_found")):
            answer = await steer(server, target, key=key)
            assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        assert (await steer(server, target, key="driver")).status_code == 200


async def test_only_post_is_taken() -> None:
    async with stub_server(Speaker(WHOLE)) as (_, server):
        assert (await get(server, f"/v1/responses/{UNKNOWN_ID}/steer")).status_code == 405
