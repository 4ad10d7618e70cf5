"""Idempotency keys: one key and body is one run, whatever happens in between (PROTOCOL 5.8)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from antiphon.runs.start import idempotency
from antiphon.runs.start.idempotency import IdempotencyKeys
from tests.http.calling import MODEL, body, ended, error_of, http, script, stub_server, until
from tests.support import stub_upstream as stub
from tests.support.gap_checker import check_run
from tests.support.http_client import open_sse, read_sse
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

KEY = {"Idempotency-Key": "order-17"}


async def post(server: RunningServer, headers: dict[str, str] | None = None, **fields: Any) -> httpx2.Response:
    async with http(server, **(headers or KEY)) as client:
        return await client.post("/v1/responses", json=body(**fields))


async def test_the_same_key_and_body_is_the_same_run() -> None:
    async with stub_server(stub.text()) as (upstream, server):
        first = await post(server, model=MODEL, metadata={"a": "1", "b": "2"})
        again = await post(server, model=MODEL, metadata={"b": "2", "a": "1"})
        assert first.status_code == 200 and again.json() == first.json()
        assert len(upstream.requests) == 1


async def test_delivery_does_not_make_another_body() -> None:
    async with stub_server(stub.text()) as (upstream, server):
        first = (await post(server, model=MODEL)).json()
        stream = await read_sse(
            "POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True), headers=KEY
        )
        background = (await post(server, model=MODEL, background=True)).json()
        async with ws_client(server.ws_url) as socket:
            events = await socket.run(model=MODEL, stream_id="lane", idempotency_key="order-17")
        assert len(upstream.requests) == 1
    assert check_run(stream.payloads).response_id == first["id"] == background["id"]
    assert stream.done and background == first
    assert check_run(events, stream_id="lane").terminal == first


async def test_the_same_key_with_another_body_is_refused_and_not_to_be_sent_again() -> None:
    async with stub_server(stub.text()) as (upstream, server):
        await post(server, model=MODEL)
        answer = await post(server, model=MODEL, input="other")
        error = error_of(answer)
        assert (answer.status_code, error["code"]) == (409, "idempotency_conflict")
        assert answer.headers["x-should-retry"] == "false"
        assert len(upstream.requests) == 1
        assert (await post(server, {"Idempotency-Key": "order-18"}, model=MODEL, input="other")).status_code == 200


async def test_creates_with_one_key_at_the_same_moment_make_one_request_upstream() -> None:
    async with stub_server(stub.text(20, rate=100)) as (upstream, server):
        answers = await asyncio.gather(*(post(server, model=MODEL) for _ in range(10)))
        assert len({answer.text for answer in answers}) == 1 and answers[0].status_code == 200
        assert len(upstream.requests) == 1


async def test_a_key_outlives_a_restart(tmp_path: Path) -> None:
    async with stub_server(stub.text(), data_dir=tmp_path) as (_, server):
        first = await post(server, model=MODEL)
    async with stub_server(stub.text(), data_dir=tmp_path) as (upstream, server):
        again = await post(server, model=MODEL)
        conflict = await post(server, model=MODEL, input="other")
        stream = await read_sse(
            "POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True), headers=KEY
        )
        assert upstream.requests == []
    assert again.json() == first.json() and conflict.status_code == 409
    assert check_run(stream.payloads).terminal == first.json()


async def test_a_refused_create_leaves_no_record() -> None:
    async with stub_server(stub.text()) as (upstream, server):
        for refused in ({"model": "nobody"}, {"previous_response_id": "resp_no"}, {"temperature": 9}):
            assert (await post(server, **{"model": MODEL, **refused})).status_code in (400, 404)
        assert (await post(server, model=MODEL)).status_code == 200
        assert len(upstream.requests) == 1


async def test_a_failed_run_stays_the_run_of_its_key_and_fails_again_with_an_error_status() -> None:
    handler = stub.in_turn(stub.answering(500, {}), stub.text())
    async with stub_server(handler, retry={"max_attempts": 1}) as (upstream, server):
        first = await post(server, model=MODEL)
        again = await post(server, model=MODEL)
        assert len(upstream.requests) == 1
    assert (first.status_code, again.status_code) == (503, 503)
    assert again.json() == first.json() and first.json()["status"] == "failed"


async def test_keys_of_unstored_runs_live_as_long_as_their_log() -> None:
    async with stub_server(stub.text(), store={"grace_s": 1.5}) as (upstream, server):
        first = (await post(server, model=MODEL, store=False)).json()
        assert (await post(server, model=MODEL, store=False)).json() == first

        async def new_run() -> bool:
            return bool((await post(server, model=MODEL, store=False)).json()["id"] != first["id"])

        await until(new_run)
        assert len(upstream.requests) == 2


async def test_a_key_whose_log_has_expired_starts_a_new_run() -> None:
    async with stub_server(stub.text(), journal={"retention_s": 0}) as (upstream, server):
        first = (await post(server, model=MODEL)).json()
        await server.app.engine.janitor.clean()
        stream = await read_sse(
            "POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True), headers=KEY
        )
        assert stream.done and check_run(stream.payloads).response_id != first["id"]
        assert len(upstream.requests) == 2


async def test_a_deleted_run_frees_its_key() -> None:
    async with stub_server(stub.text()) as (upstream, server):
        first = (await post(server, model=MODEL)).json()
        async with http(server) as client:
            assert (await client.delete(f"/v1/responses/{first['id']}")).status_code == 200
        assert (await post(server, model=MODEL)).json()["id"] != first["id"]
        assert len(upstream.requests) == 2


async def test_keys_of_no_or_too_many_characters_are_refused_by_name() -> None:
    async with running_server() as server, http(server) as client:
        for key in ("", "k" * 257):
            answer = await client.post("/v1/responses", json=body(), headers={"Idempotency-Key": key})
            assert (answer.status_code, error_of(answer)["param"]) == (400, "Idempotency-Key")
            wrong = await client.post("/v1/responses", json=body(idempotency_key=key))
            assert (wrong.status_code, error_of(wrong)["param"]) == (400, "idempotency_key")
        assert (await post(server, {"Idempotency-Key": "k" * 256})).status_code == 200


async def test_a_client_that_lost_its_stream_comes_back_with_its_key_and_gets_the_whole_run() -> None:
    async with stub_server(stub.text(60, rate=200)) as (upstream, server):
        async with open_sse(
            "POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True), headers=KEY
        ) as lost:
            seen = await anext(aiter(lost))
        whole = await read_sse(
            "POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True), headers=KEY
        )
        assert len(upstream.requests) == 1
    assert whole.events[0] == seen and check_run(whole.payloads).terminal is not None


async def test_a_socket_that_leaves_while_its_create_is_made_durable_leaves_no_run_that_nobody_executes() -> None:
    async with running_server() as server:
        model = script(server, "short", "[[turns]]\n[[turns.steps]]\ntext='done'")
        entered, release = asyncio.Event(), asyncio.Event()
        flush = server.app.backends.journal.flush

        async def held(run_log: Any) -> None:
            entered.set()
            await release.wait()
            await flush(run_log)

        server.app.backends.journal.flush = held  # type: ignore[method-assign]
        async with ws_client(server.ws_url) as socket:
            await socket.create(model=model, idempotency_key="order-17")
            async with asyncio.timeout(40):
                await entered.wait()
            await socket.abort()
        await until(lambda: len(server.app.hub) == 0)
        release.set()
        async with asyncio.timeout(40):
            answer = await post(server, model=model)
        assert (await ended(server, answer.json()["id"]))["status"] == "completed"


async def test_a_create_that_another_node_was_faster_with_becomes_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other node's row is written between our look and our own write."""
    async with stub_server(stub.text()) as (upstream, server):
        theirs = (await post(server, model=MODEL)).json()
        keys = server.app.engine.service._keys
        keys._records.clear()  # it is another node's: we know it only from the store
        find, looks = IdempotencyKeys.find, 0

        async def find_nothing_at_first(self: IdempotencyKeys, *args: Any) -> str | None:
            nonlocal looks
            looks += 1
            return None if looks == 1 else await find(self, *args)

        monkeypatch.setattr(IdempotencyKeys, "find", find_nothing_at_first)
        ours = await post(server, model=MODEL)
        assert ours.status_code == 200 and ours.json() == theirs
        assert len(upstream.requests) == 1 and looks == 2
        assert [run.id for run in server.app.engine.directory._runs.values()] in ([], [theirs["id"]])
        looks = 0
        conflict = await post(server, model=MODEL, input="other")
        assert (conflict.status_code, error_of(conflict)["code"]) == (409, "idempotency_conflict")
        assert (await post(server, model=MODEL)).json() == theirs, "nothing of the loser is left behind"


async def test_so_many_keys_are_remembered_and_older_ones_are_read_from_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def key(number: int) -> dict[str, str]:
        return {"Idempotency-Key": f"key-{number}"}

    monkeypatch.setattr(idempotency, "_RECORDS", 3)
    async with running_server() as server:
        keys = server.app.engine.service._keys
        made = [(await post(server, key(n), input=str(n))).json()["id"] for n in range(6)]
        assert len(keys._records) == len(keys._scopes) == 3
        again = [(await post(server, key(n), input=str(n))).json()["id"] for n in range(6)]
        assert again == made
        async with http(server) as client:
            assert (await client.delete(f"/v1/responses/{made[5]}")).status_code == 200
        assert len(keys._records) == len(keys._scopes) == 2
        assert (await post(server, key(5), input="5")).json()["id"] != made[5]
