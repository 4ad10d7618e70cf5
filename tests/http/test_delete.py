"""DELETE /v1/responses/{id}: response and log are gone, and what hung on them (PROTOCOL 5.4, 9.5)."""

from __future__ import annotations

from antiphon_protocol.bodies import ResponseDeleted
from tests.http.calling import begin, body, create, ended, error_of, get, http, slow
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client


async def delete(server: RunningServer, response_id: str) -> int:
    async with http(server) as client:
        answer = await client.delete(f"/v1/responses/{response_id}")
    if answer.status_code == 200:
        deleted = ResponseDeleted.model_validate(answer.json())
        assert deleted.id == response_id
    return answer.status_code


async def test_a_running_response_cannot_be_deleted_and_is_not_harmed() -> None:
    async with running_server() as server, http(server) as client:
        response_id = await begin(server, model=slow(server))
        answer = await client.delete(f"/v1/responses/{response_id}")
        assert (answer.status_code, error_of(answer)["code"]) == (409, "response_in_progress")
        assert answer.headers["x-should-retry"] == "false"
        assert (await client.get(f"/v1/responses/{response_id}")).json()["status"] == "in_progress"
        await client.post(f"/v1/responses/{response_id}/cancel")
        assert await delete(server, response_id) == 200


async def test_a_deleted_response_is_unknown_to_every_verb() -> None:
    async with running_server() as server, http(server) as client, ws_client(server.ws_url) as socket:
        await socket.hello()
        response_id = (await create(server, "x"))["id"]
        path = f"/v1/responses/{response_id}"
        assert await delete(server, response_id) == 200
        answers = [
            await client.get(path),
            await client.get(f"{path}?stream=true"),
            await client.get(f"{path}/input_items"),
            await client.post(f"{path}/cancel"),
            await client.delete(path),
            await client.post("/v1/responses", json=body(previous_response_id=response_id)),
        ]
        attach = await socket.command("antiphon:attach", response_id=response_id)
        await socket.create(previous_response_id=response_id)
        refused = await socket.recv_error()
    codes = [error_of(answer)["code"] for answer in answers]
    assert {answer.status_code for answer in answers} == {404}
    assert codes == ["response_not_found"] * 5 + ["previous_response_not_found"]
    assert (attach["type"], attach["code"]) == ("antiphon:error", "response_not_found")
    assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")


async def test_nothing_of_a_deleted_response_is_left_in_the_database() -> None:
    async with running_server() as server:
        response = await create(server, "SECRET-PROMPT")
        assert await delete(server, response["id"]) == 200
        rows = await server.app.backends.store.reader._all(_rows())
        assert len(rows) == 1 and not any(b"SECRET-PROMPT" in bytes(v) for v in rows[0] if isinstance(v, bytes))
        assert await server.app.backends.store.reader.head(response["id"]) == -1


def _rows():  # type: ignore[no-untyped-def]
    import sqlalchemy

    from antiphon.store.tables import responses

    return sqlalchemy.select(responses)


async def test_the_chain_of_a_deleted_parent_cannot_be_continued_and_other_chains_can() -> None:
    async with running_server() as server, http(server) as client:
        first = (await create(server, "one"))["id"]
        second = (await create(server, "two", previous_response_id=first))["id"]
        third = (await create(server, "three", previous_response_id=second))["id"]
        assert await delete(server, second) == 200
        broken = await client.post("/v1/responses", json=body(previous_response_id=third))
        whole = await client.post("/v1/responses", json=body(previous_response_id=first))
        assert (await client.get(f"/v1/responses/{third}")).status_code == 200
    assert (broken.status_code, error_of(broken)["code"]) == (404, "previous_response_not_found")
    assert whole.status_code == 200


async def test_a_socket_that_remembers_a_deleted_response_cannot_continue_it() -> None:
    async with running_server() as server, ws_client(server.ws_url) as socket:
        events = await socket.run(input="one")
        response_id = events[-1]["response"]["id"]
        assert await delete(server, response_id) == 200
        await socket.create(previous_response_id=response_id)
        assert (await socket.recv_error())["error"]["code"] == "previous_response_not_found"
        assert (await socket.run(input="new"))[-1]["response"]["status"] == "completed"


async def test_a_deleted_response_stays_deleted_over_a_restart(tmp_path) -> None:  # type: ignore[no-untyped-def]
    async with running_server(tmp_path) as server:
        kept, gone = (await create(server))["id"], (await create(server))["id"]
        assert await delete(server, gone) == 200
    async with running_server(tmp_path) as server:
        assert (await get(server, f"/v1/responses/{gone}")).status_code == 404
        assert (await get(server, f"/v1/responses/{kept}")).status_code == 200


async def test_unknown_and_unstored_responses_cannot_be_deleted() -> None:
    async with running_server() as server:
        unstored = (await create(server, store=False))["id"]
        assert await delete(server, unstored) == 404
        assert await delete(server, "resp_" + "0" * 32) == 404


async def test_a_failed_and_a_cancelled_response_can_be_deleted() -> None:
    async with running_server() as server, http(server) as client:
        failed = await ended(server, await begin(server, model="antiphon/script:fail"))
        cancelled = await begin(server, model=slow(server))
        await client.post(f"/v1/responses/{cancelled}/cancel")
        assert failed["status"] == "failed"
        assert await delete(server, failed["id"]) == await delete(server, cancelled) == 200
