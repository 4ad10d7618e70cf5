"""Runs that wait for clients while their server stops in order: the next process goes on with them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
from pathlib import Path

import httpx2

from tests.contract.playing import MODEL, call, response, says, types
from tests.http.calling import until
from tests.session.held import calling, hold, inject, output, refused, taken, waits
from tests.session.play import connected, log_bytes, numbered, reference, response_id
from tests.session.taking_up import DONE, HOLD, MODES, Stage, shown, stage, state_of, whole
from tests.support.http_client import read_sse
from tests.support.server import running_server


@MODES
async def test_a_server_that_stops_in_order_does_not_wait_for_waiting_runs_and_their_cursors_go_on(
    tmp_path: Path, mode: str
) -> None:
    async with stage(tmp_path, says(("text", "t"), call("look", "c")), DONE, mode=mode) as s:
        async with connected(s.server.ws_url) as client, connected(s.server.ws_url) as other:
            await other.hello()
            run_id = response_id([await s.begin(client, **HOLD)])
            await s.kept(run_id, waiting=True)
            first = await state_of(other, run_id)
            begun = asyncio.get_running_loop().time()
            s.server.signal(signal.SIGTERM)
            assert await s.server.wait() == 0
            assert asyncio.get_running_loop().time() - begun < 4, "waiting runs cost no drain"
            await client.wait_closed()
            before = shown(client)
        assert "response.failed" not in types(before)
        assert json.loads(s.row(run_id, "payload"))["clean"] is True
        await s.server.start()
        await s.kept(run_id, clean=False)
        async with connected(s.server.ws_url) as client:
            await client.hello()
            again = await state_of(client, run_id)
            assert again["epoch"] == first["epoch"]
            await client.attach(run_id, after=before[-1]["sequence_number"], epoch=first["epoch"], stream_id="a")
            await inject(client, run_id, output(again["pending_calls"][0]["call_id"]), stream_id="a")
            rest = [e for e in await client.collect_attachment("a") if "sequence_number" in e]
        after = [e for e in numbered(rest) if not e["type"].startswith("response.inject")]
        assert response(after)["status"] == "completed"
        assert log_bytes(await whole(s, run_id)) == log_bytes([*before, *after])


async def test_an_answer_that_comes_while_the_server_goes_away_is_handed_back_to_be_given_again(
    tmp_path: Path,
) -> None:
    model = calling(tmp_path, 1)
    async with running_server(tmp_path) as server, connected(server.ws_url) as client:
        run = await hold(client, model)
        await waits(server, run)
        await server.app.engine.supervisor.stop_all()
        error = await refused(client, run.id, output(run.call_ids[0]))
        assert (error["code"], error.get("winner")) == ("server_draining", None)
    async with running_server(tmp_path) as server, connected(server.ws_url) as client:
        await client.hello()
        await client.attach(run.id, after="now", stream_id="a")
        await taken(client, run.id, output(run.call_ids[0]), stream_id="a")
        await client.collect_attachment("a")
        assert response(await reference(server.ws_url, run.id))["status"] == "completed"


async def test_over_http_too_a_server_that_stops_in_order_lets_go_of_waiting_runs_at_once(tmp_path: Path) -> None:
    async with stage(tmp_path, says(call("look", "c")), says(call("look", "c")), DONE) as s:
        url = f"{s.server.url}/v1/responses"
        body = {"model": MODEL, "input": "go", **HOLD}
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            whole_answer = asyncio.create_task(http.post(url, json=body))
            stream = asyncio.create_task(read_sse("POST", url, json={**body, "stream": True}))
            await s.stub.request(1)
            await until(lambda: _count(s, "checkpoints") == 2)
            begun = asyncio.get_running_loop().time()
            s.server.signal(signal.SIGTERM)
            answer, events = (await whole_answer).json(), await stream
            assert await s.server.wait() == 0
            assert asyncio.get_running_loop().time() - begun < 4
        assert (answer["status"], types(answer["output"])) == ("in_progress", ["function_call"])
        assert not events.done, "no end marker: the response has not ended"
        assert events.payloads[-1]["type"] == "response.output_item.done"
        await s.server.start()
        async with connected(s.server.ws_url) as client:
            await client.hello()
            assert (await state_of(client, answer["id"]))["pending_calls"]


def _count(s: Stage, table: str) -> int:
    with contextlib.closing(sqlite3.connect(s.server.data_dir / "antiphon.db")) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
