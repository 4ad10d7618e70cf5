"""POST /v1/responses/{id}/cancel: of any stored run, idempotent, at the upstream within 500 ms (PROTOCOL 8.4)."""

from __future__ import annotations

import asyncio
import json
import time

import httpx2

from tests.http.calling import MODEL, begin, create, ended, follow, get, http, script, slow, stub_server
from tests.support import stub_upstream as stub
from tests.support.gap_checker import check_run
from tests.support.http_client import open_sse
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client


async def cancel(server: RunningServer, response_id: str) -> httpx2.Response:
    async with http(server) as client:
        return await client.post(f"/v1/responses/{response_id}/cancel")


async def test_cancel_answers_with_the_final_object_that_stream_and_get_show_too() -> None:
    async with running_server() as server:
        response_id = await begin(server, model=slow(server))
        async with open_sse("GET", f"{server.url}/v1/responses/{response_id}?stream=true") as stream:
            payloads = []
            async for event in stream:
                payloads.append(event.json())
                if len(payloads) == 12:
                    answer = await cancel(server, response_id)
            assert stream.done
        stored = (await get(server, f"/v1/responses/{response_id}")).json()
    run = check_run(payloads)
    assert answer.status_code == 200 and answer.json() == run.terminal == stored
    assert stored["status"] == "cancelled" and stored["incomplete_details"] == {"reason": "cancelled"}
    assert payloads[-1]["type"] == "response.incomplete"
    assert stored["output"][0]["status"] == "incomplete"


async def test_cancelling_again_changes_nothing() -> None:
    async with running_server() as server:
        response_id = await begin(server, model=slow(server))
        answers = await asyncio.gather(*(cancel(server, response_id) for _ in range(8)))
        answers.append(await cancel(server, response_id))
        whole = await follow(server, response_id)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert len([e for e in whole.payloads if e["type"] == "response.incomplete"]) == 1


async def test_a_run_that_ended_stays_as_it_ended() -> None:
    async with running_server() as server:
        response = await create(server)
        assert (await cancel(server, response["id"])).json() == response
        failing = script(server, "fails", "[[turns]]\n[[turns.steps]]\nerror={code='own'}")
        failed = await ended(server, await begin(server, model=failing))
        assert (await cancel(server, failed["id"])).json() == failed


async def test_a_plain_run_that_somebody_waits_for_can_be_cancelled_by_anybody_who_knows_its_id() -> None:
    async with stub_server(stub.text(1000, rate=50)) as (upstream, server):
        waiting = asyncio.create_task(create(server, model=MODEL))
        await upstream.request(0)
        (state,) = list(server.app.registry)
        assert (await cancel(server, state.response_id)).json()["status"] == "cancelled"
        assert (await waiting)["status"] == "cancelled"
        assert state.terminal == {"status": "cancelled", "code": "cancelled", "by": "user:local"}


async def test_cancel_reaches_the_upstream_within_half_a_second() -> None:
    async with stub_server(stub.text(1000, rate=50)) as (upstream, server):
        response_id = await begin(server, model=MODEL)
        request = await upstream.request(0)
        started = time.monotonic()
        await cancel(server, response_id)
        closed_at = await asyncio.wait_for(request.closed, 2)
    assert closed_at - started < 0.5


async def test_cancel_reaches_an_upstream_that_has_not_begun_to_answer() -> None:
    async with stub_server(stub.hang()) as (upstream, server):
        response_id = await begin(server, model=MODEL)
        request = await upstream.request(0)
        answer = await cancel(server, response_id)
        await asyncio.wait_for(request.closed, 0.5)
    assert answer.json()["status"] == "cancelled" and answer.json()["output"] == []


async def test_a_cancelled_background_run_that_never_began_has_no_events_after_its_terminal() -> None:
    async with running_server() as server:
        for _ in range(8):
            response_id = await begin(server, model="antiphon/echo")
            await cancel(server, response_id)
            run = check_run((await follow(server, response_id)).payloads)
            assert run.terminal is not None and run.terminal["status"] in ("cancelled", "completed")


async def test_cancel_takes_no_body_and_minds_none() -> None:
    async with running_server() as server, http(server) as client:
        response = await create(server)
        path = f"/v1/responses/{response['id']}/cancel"
        assert (await client.post(path)).status_code == 200
        assert (await client.post(path, json={"reason": "x"})).status_code == 200
        assert (await client.post(path, content=b"", headers={"content-length": "0"})).status_code == 200


async def test_a_run_of_a_socket_is_cancelled_over_http_and_the_socket_is_told_once() -> None:
    async with running_server() as server, ws_client(server.ws_url) as socket:
        await socket.create(model=slow(server))
        created = await socket.recv_on(None)
        answer = await cancel(server, created["response"]["id"])
        events = [created, *await socket.collect_run()]
        more = await socket.run(input="next")
    assert check_run(events).terminal == answer.json()
    assert answer.json()["status"] == "cancelled"
    assert check_run(more).text == "next"


async def test_an_unknown_id_cannot_be_cancelled() -> None:
    async with running_server() as server:
        for response_id in ("resp_" + "0" * 32, "x", "resp_", "resp_%00", "r" * 3000):
            answer = await cancel(server, response_id)
            assert answer.status_code == 404 and answer.json()["error"]["code"] == "response_not_found"


async def test_a_cancelled_run_keeps_what_it_said_and_drops_its_calls_for_the_next_turn() -> None:
    async def talk(request: stub.StubRequest, conn: stub.StubConn) -> None:
        if len(upstream.requests) > 1:
            await stub.text(1)(request, conn)
            return
        conn.head()
        events = stub.events_of_text(["so ", "far "])
        for event in events[:-4]:
            conn.sse(event)
        await conn.held()

    async with stub_server(talk) as (upstream, server):
        response_id = await begin(server, model=MODEL)
        async with open_sse("GET", f"{server.url}/v1/responses/{response_id}?stream=true") as stream:
            async for event in stream:
                if json.loads(event.data).get("delta") == "far ":
                    break
        await cancel(server, response_id)
        await create(server, "go on", model=MODEL, previous_response_id=response_id)
        sent = (await upstream.request(1)).body["input"]
    assert [item["role"] for item in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"][0]["text"] == "so far "
