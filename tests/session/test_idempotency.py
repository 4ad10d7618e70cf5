"""The same create twice is one run (PROTOCOL 5.8; field issue R-13)."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import httpx2
import pytest

from antiphon.journal.log import RunLog
from antiphon.journal.sqlite import SqliteJournal
from tests.session.play import (
    connected,
    log_bytes,
    response_id,
    started,
    stub_settings,
    until,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.http_client import read_sse
from tests.support.relay import UP, Relay
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, text
from tests.support.ws_client import SocketEnded, ws_client


@pytest.mark.parametrize("store", [True, False])
async def test_a_create_sent_again_after_a_cut_is_given_the_whole_run_that_began(store: bool) -> None:
    async with StubUpstream(text(40, rate=40)) as stub, running_server(**stub_settings(stub)) as server:
        async with Relay("127.0.0.1", urlsplit(server.url).port or 0) as relay:
            async with ws_client(f"ws://127.0.0.1:{relay.port}/v1/responses") as cut:
                await cut.create("stub-model", "once", idempotency_key="key-1", store=store)
                await stub.request(0)
                relay.reset()
                with pytest.raises((SocketEnded, AssertionError)):
                    while True:
                        await cut.recv()
        async with connected(server.ws_url) as again, connected(server.ws_url) as third:
            await again.create("stub-model", "once", idempotency_key="key-1", store=store, stream_id="lane")
            await third.create("stub-model", "once", idempotency_key="key-1", store=store, stream=True)
            events = await again.collect_run("lane")
            assert check_run(events, stream_id="lane").text.endswith("w39 ")
            assert log_bytes(await third.collect_run()) == log_bytes(events)
            if store:
                ended = await again.run("stub-model", "once", idempotency_key="key-1", store=store)
                assert log_bytes(ended) == log_bytes(events)
        assert len(stub.requests) == 1


async def test_a_socket_lost_right_after_the_create_leaves_a_key_that_works() -> None:
    """The cut comes while the server is between reading the frame and starting the run."""
    async with StubUpstream(text(2)) as stub, running_server(**stub_settings(stub)) as server:
        for n in range(25):
            frame = {
                "type": "response.create",
                "model": "stub-model",
                "input": f"n {n}",
                "idempotency_key": f"k{n}",
            }
            async with Relay("127.0.0.1", urlsplit(server.url).port or 0) as relay:
                async with ws_client(f"ws://127.0.0.1:{relay.port}/v1/responses") as cut:
                    size = len(json.dumps(frame))
                    relay.cut_after(relay.paths[UP].forwarded_bytes + size + (6 if size < 126 else 8), UP)
                    await cut.send(frame)
                    await cut.wait_closed()
            async with ws_client(server.ws_url) as again:
                await again.send(frame)
                assert check_run(await again.collect_run()).text == "w0 w1 "
        said = [request.body["input"][-1]["content"] for request in stub.requests]
        assert said == [f"n {n}" for n in range(25)]


async def test_a_socket_lost_while_its_create_is_being_stored_leaves_a_run_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flush, storing, go_on = SqliteJournal.flush, asyncio.Event(), asyncio.Event()

    async def held(self: SqliteJournal, run_log: RunLog) -> None:
        storing.set()
        await go_on.wait()
        await flush(self, run_log)

    async with running_server() as server, connected(server.ws_url) as again:
        monkeypatch.setattr(SqliteJournal, "flush", held)
        async with ws_client(server.ws_url) as lost:
            await lost.create(input="carried through", idempotency_key="k")
            await asyncio.wait_for(storing.wait(), 5)
            await lost.abort()
        await until(lambda: len(server.app.hub) == 1, "the end of the lost socket")
        go_on.set()
        assert check_run(await again.run(input="carried through", idempotency_key="k")).text == "carried through"


async def test_a_key_is_shared_by_the_header_and_the_frame_and_bound_to_the_body() -> None:
    async with StubUpstream(text(2)) as stub, running_server(**stub_settings(stub)) as server:
        body = {"model": "stub-model", "input": "hi", "temperature": 0.5}
        async with connected(server.ws_url) as client, httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            events = await client.run("stub-model", "hi", temperature=0.5, idempotency_key="k")
            url, headers = f"{server.url}/v1/responses", {"idempotency-key": "k"}
            answer = await http.post(url, json=body, headers=headers)
            assert answer.json() == events[-1]["response"]
            streamed = await read_sse("POST", url, json={**body, "stream": True}, headers=headers)
            assert [event.data for event in streamed.events] == log_bytes(events)
            conflict = await http.post(url, json={**body, "temperature": 0.6}, headers=headers)
            assert (conflict.status_code, conflict.json()["error"]["code"]) == (409, "idempotency_conflict")
            assert conflict.headers["x-should-retry"] == "false"
            reordered = await client.run(temperature=0.5, input="hi", model="stub-model", idempotency_key="k")
            assert response_id(reordered) == response_id(events)
        assert len(stub.requests) == 1


async def test_equal_creates_at_the_same_moment_are_one_run() -> None:
    async with (
        StubUpstream(text(5, rate=50)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as one,
        connected(server.ws_url) as two,
    ):
        clients = [(client, f"l{n}") for client in (one, two) for n in range(5)]
        creates = (c.create("stub-model", "same", idempotency_key="k", stream_id=lane) for c, lane in clients)
        await asyncio.gather(*creates)
        logs = [await client.collect_run(lane) for client, lane in clients]
        assert len({tuple(log_bytes(events)) for events in logs}) == 1
        assert len(stub.requests) == 1


async def test_a_refused_create_leaves_no_record_and_a_failed_run_does() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.create("antiphon/script:later", idempotency_key="k")
        assert (await client.recv_error())["error"]["code"] == "model_not_found"
        write_script(server.data_dir, "later", [words(1), {"error": {"code": "busy", "message": "no"}}])
        failed = await client.run("antiphon/script:later", idempotency_key="k")
        assert failed[-1]["type"] == "response.failed"
        again = await client.run("antiphon/script:later", idempotency_key="k")
        assert log_bytes(again) == log_bytes(failed)


@pytest.mark.parametrize("key", ["", "x" * 257, 7])
async def test_an_illegal_key_is_refused_by_name(key: object) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.create(idempotency_key=key)
        refused = await client.recv_error()
        assert (refused["error"]["code"], refused["error"]["param"]) == ("invalid_request", "idempotency_key")


async def test_a_key_found_again_does_not_stop_the_clock_of_another_run() -> None:
    async with running_server() as server, connected(server.ws_url) as client, connected(server.ws_url) as other:
        model = write_script(server.data_dir, "held", [words(1), {"delay_s": 30}])
        await client.create(model, idempotency_key="k")
        run_id = await started(client)
        await other.create(model, idempotency_key="k")
        assert await started(other) == run_id
        await other.send({"type": "response.cancel", "response_id": run_id})
        assert (await client.collect_run())[-1]["response"] == (await other.collect_run())[-1]["response"]
