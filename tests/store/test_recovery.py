"""What a dead process left behind is ended truthfully at the next start, once (PROTOCOL 9.3, 6.4.2)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.store import records
from antiphon.store.records import NewResponse
from tests.http.calling import body, create, error_of, follow, get, http
from tests.store.database import database, ending, new_response
from tests.support.gap_checker import check_run
from tests.support.http_client import open_sse
from tests.support.server import ServerProcess, running_server
from tests.support.ws_client import ws_client

RESP = "resp_" + "a" * 32


async def half_a_run(folder: Path, events: int) -> list[bytes]:
    """A stored run that stops after so many events, as a kill leaves it; all events it had."""
    async with running_server(folder) as server:
        response = await create(server, "one two three")
        log = [event.data.encode() for event in (await follow(server, response["id"])).events]

        def work(connection: Any) -> None:
            connection.execute("DELETE FROM journal")
            connection.execute("UPDATE responses SET id = ?", (RESP,))
            connection.execute(
                "UPDATE responses SET terminal_event = NULL, terminal_number = NULL, ended_at = NULL, "
                "status = 'in_progress', response = ?, context_output = NULL, open_calls = NULL, "
                "run_state = replace(cast(run_state AS text), 'completed', 'running')",
                (
                    json.dumps(
                        {**response, "id": RESP, "status": "in_progress", "completed_at": None, "output": []}
                    ).encode(),
                ),
            )
            mine = [event.replace(response["id"].encode(), RESP.encode()) for event in log[:events]]
            if mine:
                connection.execute(
                    "INSERT INTO journal (run_id, first, last, payload) VALUES (?, 0, ?, ?)",
                    (RESP, events - 1, b"\n".join(mine)),
                )

        await server.app.backends.store.writer.submit(work)
    return [event.replace(response["id"].encode(), RESP.encode()) for event in log]


@pytest.mark.parametrize("events", [0, 2, 9])
async def test_a_run_cut_after_any_event_ends_server_lost_after_the_last_one_kept(
    tmp_path: Path, events: int
) -> None:
    log = await half_a_run(tmp_path, events)
    async with running_server(tmp_path) as server:
        response = (await get(server, f"/v1/responses/{RESP}")).json()
        stream = await follow(server, RESP)
        refused = None
        async with http(server) as client:
            refused = await client.post("/v1/responses", json=body(previous_response_id=RESP))
    assert [event.data.encode() for event in stream.events[:events]] == log[:events]
    assert len(stream.events) == max(events, 1) + 1 and stream.done, "a log begins with its response"
    assert (response["status"], response["error"]["code"]) == ("failed", "server_lost")
    assert response["completed_at"] is None
    assert check_run(stream.payloads).terminal == response
    epochs = [str(event.id).partition(".")[0] for event in stream.events]
    assert epochs[-1] not in epochs[:events]
    assert refused is not None and error_of(refused)["code"] == "response_not_continuable"


async def test_cursors_below_the_fork_go_on_and_those_past_it_are_told(tmp_path: Path) -> None:
    await half_a_run(tmp_path, 6)
    async with running_server(tmp_path) as server, ws_client(server.ws_url) as socket:
        stream = await follow(server, RESP)
        old, new = (str(event.id).partition(".")[0] for event in (stream.events[0], stream.events[-1]))
        await socket.hello()
        for cursor in ({"starting_after": 5}, {"starting_after": 5, "epoch": old}):
            rest = await follow(server, RESP, **cursor)
            assert [event.id for event in rest.events] == [f"{new}.6"] and rest.done
        for number in (6, 9, 500):
            for cursor in ({"starting_after": number}, {"starting_after": number, "epoch": old}):
                answer = await get(server, f"/v1/responses/{RESP}", stream="true", **cursor)
                error = error_of(answer)
                assert (answer.status_code, error["code"]) == (409, "epoch_changed")
                assert (error["epoch"], error["fork"]) == (new, 6)
                assert answer.headers["x-should-retry"] == "false"
        reply = await socket.command("antiphon:attach", response_id=RESP, after=8, epoch=old)
        assert (reply["type"], reply["code"], reply["fork"], reply["epoch"]) == (
            "antiphon:error",
            "epoch_changed",
            6,
            new,
        )
        assert (await follow(server, RESP, starting_after=6, epoch=new)).done
        attached = await socket.attach(RESP, after=5, epoch=old)
        assert attached["state"]["epoch"] == new and attached["state"]["state"] == "failed"
        assert attached["state"]["terminal"]["code"] == "server_lost"
        assert attached["state"]["revision"] > 100


async def test_strict_mode_keeps_its_epoch_because_nothing_was_shown_that_is_lost(tmp_path: Path) -> None:
    await half_a_run(tmp_path, 5)
    async with running_server(tmp_path, journal={"mode": "strict"}) as server:
        stream = await follow(server, RESP)
    assert len({str(event.id).partition(".")[0] for event in stream.events}) == 1
    assert stream.payloads[-1]["response"]["error"]["code"] == "server_lost"


async def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    await half_a_run(tmp_path, 5)
    async with running_server(tmp_path) as server:
        first = await follow(server, RESP)
        response = (await get(server, f"/v1/responses/{RESP}")).json()
    for _ in range(2):
        async with running_server(tmp_path) as server:
            assert (await follow(server, RESP)).events == first.events
            assert (await get(server, f"/v1/responses/{RESP}")).json() == response


async def test_a_start_that_was_cut_in_the_middle_of_recovery_is_made_up_for(tmp_path: Path) -> None:
    await half_a_run(tmp_path, 5)
    async with database(tmp_path) as db:
        fence = await db.writer.submit(records.take_over(RESP, '[["aaaaaaaaaaaaaaaa",0],["bbbbbbbbbbbbbbbb",5]]'))
    assert fence == 2
    async with running_server(tmp_path) as server:
        stream = await follow(server, RESP)
        stored = await server.app.backends.store.reader.find(RESP)
    assert stream.done and stream.payloads[-1]["sequence_number"] == 5
    assert stored is not None and stored.fence == 3 and len(stored.epochs.entries) == 3


async def test_a_decided_terminal_whose_event_is_missing_is_appended_as_it_was_decided(tmp_path: Path) -> None:
    log = await half_a_run(tmp_path, 5)
    terminal = log[-1]
    async with database(tmp_path) as db:
        number = 5
        event = json.dumps({**json.loads(terminal), "sequence_number": number}, separators=(",", ":")).encode()
        response = json.dumps(json.loads(terminal)["response"]).encode()
        decided = ending(RESP, number=number, terminal_event=event, response=response, ended_at=4_000_000_000.0)
        assert (await db.writer.submit(records.end(decided, []))).won
    for _ in range(2):
        async with running_server(tmp_path) as server:
            stream = await follow(server, RESP)
            assert stream.done and len(stream.events) == 6
            assert stream.events[-1].data.encode() == event
            assert (await get(server, f"/v1/responses/{RESP}")).json()["status"] == "completed"
            assert len({str(e.id).partition(".")[0] for e in stream.events}) == 1


async def test_a_queued_background_run_is_lost_like_any_other(tmp_path: Path) -> None:
    async with running_server(tmp_path):
        pass
    async with database(tmp_path) as db:
        row = new_response(RESP, status="queued", response=_template("queued"))
        await db.writer.submit(records.begin(row, None))
    async with running_server(tmp_path) as server:
        assert (await get(server, f"/v1/responses/{RESP}")).json()["status"] == "failed"


async def test_a_row_that_cannot_be_read_does_not_keep_the_server_from_starting(tmp_path: Path) -> None:
    async with running_server(tmp_path):
        pass
    async with database(tmp_path) as db:
        broken: list[NewResponse] = [
            new_response("resp_" + "b" * 32, response=b"{broken"),
            new_response("resp_" + "c" * 32, run_state=b""),
            new_response(RESP, response=_template("in_progress")),
        ]
        for row in broken:
            await db.writer.submit(records.begin(row, None))
    async with running_server(tmp_path) as server:
        assert (await get(server, f"/v1/responses/{RESP}")).json()["error"]["code"] == "server_lost"
        assert (await create(server))["status"] == "completed"


def _template(status: str) -> bytes:
    return json.dumps({"id": RESP, "object": "response", "status": status, "output": [], "error": None}).encode()


async def test_killed_in_mid_run_the_server_comes_back_and_says_so_with_what_was_kept(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "talk.toml").write_text("[[turns]]\n[[turns.steps]]\ntext='word{n} '\nrate=200\nrepeat=100000")
    seen: list[Any] = []
    async with ServerProcess(tmp_path) as server:
        sent = body(model="antiphon/script:talk", stream=True)
        try:
            async with open_sse("POST", f"{server.url}/v1/responses", json=sent) as stream:
                async for event in stream:
                    seen.append(event)
                    if len(seen) == 60:
                        await server.kill()
        except Exception:
            assert len(seen) >= 60
        response_id = seen[0].json()["response"]["id"]
        await server.start()
        async with asyncio.timeout(40):
            replay = await _follow(server.url, response_id)
    kept = replay.events[:-1]
    assert 20 <= len(kept)
    common = min(len(kept), len(seen))
    assert [event.data for event in kept[:common]] == [event.data for event in seen[:common]]
    terminal = check_run(replay.payloads).terminal
    assert terminal is not None and terminal["error"]["code"] == "server_lost"


async def _follow(url: str, response_id: str) -> Any:
    from tests.support.http_client import read_sse

    return await read_sse("GET", f"{url}/v1/responses/{response_id}?stream=true")
