"""Faults inside: one truthful end, nobody else hurt (PROTOCOL 6.1, 8; field issues G-01, M-06, D-10)."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from typing import Any

import httpx2
import pytest

from antiphon.store.writer import SqliteWriter
from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    reference,
    response_id,
    started,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.ws_client import ws_client

FINAL = ({"crash": "boom"}, {"cut": True}, {"error": {"code": "busy", "message": "no"}})


@pytest.mark.parametrize("said", [0, 1, 7, 500])
@pytest.mark.parametrize("fault", FINAL, ids=["crash", "cut", "error"])
async def test_after_a_fault_the_next_number_is_response_failed_and_the_last(
    said: int, fault: dict[str, Any]
) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "faulty", [*([words(said)] if said else []), fault])
        events = await client.run(model)
        checked = check_run(events)
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        assert events[-1]["type"] == "response.failed"
        code = {"crash": "server_error", "cut": "upstream_error", "error": "busy"}[next(iter(fault))]
        assert events[-1]["response"]["error"]["code"] == code
        assert "boom" not in events[-1].raw
        assert checked.response_id
        assert log_bytes(await reference(server.ws_url, checked.response_id)) == log_bytes(events)
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            stored = await http.get(f"{server.url}/v1/responses/{checked.response_id}")
            assert stored.json() == events[-1]["response"]


async def test_a_store_that_takes_no_events_fails_the_run_in_time_and_get_never_says_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_server(store={"retry_s": 1.0}) as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "paced", [words(30, rate=60)])
        real = SqliteWriter.submit
        broken = asyncio.Event()

        def submit(self: SqliteWriter, work: Any) -> Any:
            def fail(connection: sqlite3.Connection) -> None:
                raise sqlite3.OperationalError("disk I/O error")

            return real(self, fail if broken.is_set() else work)

        monkeypatch.setattr(SqliteWriter, "submit", submit)
        await client.create(model)
        seen = await client.recv_until(lambda event: event.get("delta") == "w5 ")
        broken.set()
        events = seen + await client.collect_run(wait_s=40)
        check_run(events)
        assert events[-1]["response"]["error"]["code"] == "storage_unavailable"
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            stored = await http.get(f"{server.url}/v1/responses/{response_id(events)}")
            assert stored.json()["status"] == "failed"
            assert (await http.get(f"{server.url}/ready")).status_code == 503
        broken.clear()
        assert (await client.run(input="again"))[-1]["type"] == "response.completed"


async def test_a_store_that_comes_back_within_patience_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_server(store={"retry_s": 20}) as server, connected(server.ws_url) as client:
        real, left = SqliteWriter.submit, [6]

        def submit(self: SqliteWriter, work: Any) -> Any:
            def fail(connection: sqlite3.Connection) -> None:
                raise sqlite3.OperationalError("database is locked")

            left[0] -= 1
            return real(self, fail if left[0] >= 0 else work)

        monkeypatch.setattr(SqliteWriter, "submit", submit)
        events = await client.run(input="held back", wait_s=40)
        assert check_run(events).text == "held back"
        assert log_bytes(await reference(server.ws_url, response_id(events))) == log_bytes(events)


async def test_a_reader_that_crashes_costs_the_run_and_other_readers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_server() as server, connected(server.ws_url) as owner, ws_client(server.ws_url) as broken:
        await broken.hello()
        model = write_script(server.data_dir, "paced", [words(30, rate=60)])
        await owner.create(model)
        run_id = await started(owner)
        await broken.attach(run_id)
        run = next(run for run in server.app.engine.supervisor._directory.live_runs() if run.id == run_id)

        def crash(batch: object) -> None:
            raise RuntimeError("a listener's fault")

        run.log._listeners = {crash: None, **run.log._listeners}
        await owner.collect_run()
        check_run(owner.received)
        assert len(await attach_all(broken, run_id)) == len(owner.received)


async def test_fifty_runs_survive_garbage_collections() -> None:
    async with running_server() as server, ws_client(server.ws_url) as client:
        model = write_script(server.data_dir, "paced", [words(10, rate=30)])
        for n in range(50):
            async with ws_client(server.ws_url) as short:
                await short.create(model, input=str(n))
                await started(short)
            gc.collect(0)
        runs = [run.id for run in server.app.engine.supervisor._directory.live_runs()]
        await client.hello()
        for run_id in runs:
            gc.collect(1)
            assert (await attach_all(client, run_id))[-1]["type"] == "response.completed"
        assert {state.state for state in server.app.registry} == {"completed"}
