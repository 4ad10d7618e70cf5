"""What was acknowledged about a held call or a steer survives kill -9 right after (PROTOCOL 6.5.3, 7.3.9)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.writer import SqliteWriter
from tests.http.calling import body, get, http
from tests.session.held import TOOLS, Waiting, calling, hold, output, outputs, refused, taken, waits
from tests.session.play import attach_all, connected, reference, until, write_script
from tests.session.test_held_restart import pending
from tests.session.test_steer import code_of, reason_of, steer
from tests.support.server import ServerProcess, running_server
from tests.support.ws_client import Event, WsClient, ws_client

SLOW_STORE = {"ANTIPHON_JOURNAL__FLUSH_MS": "1000"}
"""Nothing is durable by itself as fast as these tests kill."""

TAB = {"client": {"name": "t", "instance_id": "tab"}}


@contextlib.asynccontextmanager
async def killed_after(
    folder: Path, model: str, calls: int, act: Callable[[WsClient, Waiting], Awaitable[Any]], *, waits: bool = True
) -> AsyncIterator[tuple[ServerProcess, Waiting]]:
    """A server that died as soon as it had acknowledged what `act` asked of a run with held calls, and is back."""
    async with ServerProcess(folder, SLOW_STORE) as server:
        async with ws_client(server.ws_url) as owner:
            await owner.hello(**TAB)
            run = await hold(owner, model, calls=calls)
            if waits:
                await owner.recv_until(
                    lambda e: e["type"] == "antiphon:run" and e["state"]["state"] == "waiting_for_tool"
                )
            await act(owner, run)
            await server.kill()
            await owner.wait_closed()
        await server.start()
        yield server, run


async def of_call(client: WsClient, verb: str, run: Waiting, n: int = 0, **fields: Any) -> Event:
    reply = await client.command(f"antiphon:{verb}", response_id=run.id, call_id=run.call_ids[n], **fields)
    assert reply["type"] == "antiphon:ok", reply.raw
    return reply


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "before the model is done"])
async def test_a_claim_and_its_run_are_there_after_a_kill(tmp_path: Path, waits: bool) -> None:
    tail = [] if waits else [{"delay_s": 600}]
    model = write_script(tmp_path, "m", [{"call": {"name": "look", "arguments": {}}}, *tail], [{"text": "done"}])

    async def claims(owner: WsClient, run: Waiting) -> None:
        await of_call(owner, "claim", run)

    async with killed_after(tmp_path, model, 1, claims, waits=waits) as (server, run):
        async with connected(server.ws_url) as other, connected(server.ws_url) as back:
            await other.hello()
            assert await pending(other, run.id) == run.call_ids
            assert (await refused(other, run.id, output(run.call_ids[0])))["code"] == "claim_held"
            await back.hello(**TAB)
            await of_call(back, "renew", run, fence=1)
            await taken(back, run.id, output(run.call_ids[0], fence=1))
        assert outputs(events := await reference(server.ws_url, run.id)) == [(run.call_ids[0], "seen")]
        assert reason_of(events[-1]) == ("completed", None)


async def test_a_renewed_lease_and_a_released_call_are_there_after_a_kill(tmp_path: Path) -> None:
    ends: list[float] = []

    async def renews_and_releases(owner: WsClient, run: Waiting) -> None:
        for n in (0, 1):
            await of_call(owner, "claim", run, n, lease_ms=1000)
        renewed = await of_call(owner, "renew", run, 0, fence=1, lease_ms=600_000)
        ends.append(renewed["expires_at"])
        await of_call(owner, "release", run, 1, fence=1)

    async with killed_after(tmp_path, calling(tmp_path, 2), 2, renews_and_releases) as (server, run):
        async with connected(server.ws_url) as other:
            await other.hello(tools=[{"name": "look"}])
            first, second = (await other.attach(run.id, after="now"))["state"]["pending_calls"]
            assert first["claim"]["expires_at"] == ends[0]
            assert second["claim"] is None
            assert (await of_call(other, "claim", run, 1))["fence"] == 2


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "before the model is done"])
async def test_an_answer_and_its_run_are_there_after_a_kill(tmp_path: Path, waits: bool) -> None:
    tail = [] if waits else [{"delay_s": 600}]
    calls = [{"call": {"name": "look", "arguments": {"n": n}}} for n in range(2)]
    model = write_script(tmp_path, "m", [*calls, *tail], [{"text": "done"}])

    async def answers(owner: WsClient, run: Waiting) -> None:
        await taken(owner, run.id, output(run.call_ids[0], "before"))

    async with killed_after(tmp_path, model, 2, answers, waits=waits) as (server, run):
        async with connected(server.ws_url) as other:
            await other.hello()
            assert await pending(other, run.id) == [run.call_ids[1]]
            assert (await refused(other, run.id, output(run.call_ids[0])))["code"] == "already_resolved"
            await taken(other, run.id, output(run.call_ids[1], "after"))
        events = await reference(server.ws_url, run.id)
        assert outputs(events) == list(zip(run.call_ids, ["before", "after"], strict=True))


async def test_the_last_answer_of_a_model_that_was_not_done_leads_on_after_a_kill(tmp_path: Path) -> None:
    steps = [{"call": {"name": "look", "arguments": {}}}, {"delay_s": 600}]
    model = write_script(tmp_path, "m", steps, [{"text": "done"}])

    async def answers(owner: WsClient, run: Waiting) -> None:
        await taken(owner, run.id, output(run.call_ids[0]))

    async with killed_after(tmp_path, model, 1, answers, waits=False) as (server, run):
        events = await reference(server.ws_url, run.id)
        assert outputs(events) == [(run.call_ids[0], "seen")]
        assert reason_of(events[-1]) == ("completed", None)


async def test_a_run_that_showed_more_after_its_calls_is_known_and_lost_after_a_kill(tmp_path: Path) -> None:
    steps = [{"call": {"name": "look", "arguments": {}}}, {"text": "and "}, {"delay_s": 600}]
    model = write_script(tmp_path, "m", steps, [{"text": "done"}])

    async def claims(owner: WsClient, run: Waiting) -> None:
        await owner.recv_until(lambda e: e["type"] == "response.output_text.delta")
        await of_call(owner, "claim", run)

    async with killed_after(tmp_path, model, 1, claims, waits=False) as (server, run):
        end = (await reference(server.ws_url, run.id))[-1]
        assert end["response"]["error"]["code"] == "server_lost"


async def test_an_accepted_steer_of_a_waiting_run_is_there_after_a_kill(tmp_path: Path) -> None:
    accepted: list[Event] = []

    async def steers(owner: WsClient, run: Waiting) -> None:
        accepted.append(await steer(owner, run.id, "second"))

    async with killed_after(tmp_path, calling(tmp_path, 1), 1, steers) as (server, run):
        async with connected(server.ws_url) as client:
            await client.hello()
            attached = await client.attach(run.id, after="now")
            row = {"id": accepted[0]["steer"]["id"], "stage": "accepted", "principal": "user:local"}
            assert attached["state"]["steers"] == [row]
            await taken(client, run.id, output(run.call_ids[0]), stream_id=attached["stream_id"])
            end = (await attach_all(client, run.id, after="start"))[-1]
            assert reason_of(end) == ("incomplete", "steered")


async def test_an_instance_that_created_a_run_is_its_creator_after_a_kill(tmp_path: Path) -> None:
    model = write_script(tmp_path, "m", [{"delay_s": 0.2}, {"call": {"name": "look", "arguments": {}}}])
    fields = {"background": True, "tools": TOOLS, "antiphon": {"client_tools": "hold"}}
    async with ServerProcess(tmp_path, SLOW_STORE) as server:
        async with http(server, **{"X-Antiphon-Instance": "cli"}) as client:  # type: ignore[arg-type]
            created = (await client.post("/v1/responses", json=body(model=model, **fields))).json()
        await server.kill()
        await server.start()
        async with connected(server.ws_url) as back:
            welcome = await back.hello(client={"name": "t", "instance_id": "cli"})
            await back.attach(created["id"], after="start")
            states = await back.recv_until(lambda e: e["type"] == "antiphon:run" and e["state"]["pending_calls"])
            [call] = states[-1]["state"]["pending_calls"]
            assert call["eligible"] == [welcome["connection_id"]]
            await of_call(back, "claim", Waiting(created["id"], [call["call_id"]]))
        assert (await get(server, f"/v1/responses/{created['id']}")).json()["status"] == "in_progress"  # type: ignore[arg-type]


async def test_a_steer_that_cannot_be_stored_is_handed_back_and_the_run_goes_on_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        run = await hold(client, calling(server.data_dir, 1))
        await waits(server, run)
        real, broken = SqliteWriter.submit, [True]

        def submit(self: SqliteWriter, work: Any) -> Any:
            def fail(connection: sqlite3.Connection) -> None:
                raise sqlite3.OperationalError("disk I/O error")

            return real(self, fail if broken else work)

        monkeypatch.setattr(SqliteWriter, "submit", submit)
        failed = await steer(client, run.id, "second")
        assert (code_of(failed), failed["steer"]["input"]) == ("storage_unavailable", "second")
        assert "id" not in failed["steer"]
        assert server.app.registry.get(run.id).steers == []
        broken.clear()
        await until(lambda: server.app.engine.journal.healthy, "the store being back")
        await taken(client, run.id, output(run.call_ids[0]))
        assert reason_of((await client.collect_run())[-1]) == ("completed", None)


async def test_a_run_that_is_cancelled_while_its_steer_is_written_says_accepted_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        run = await hold(client, calling(server.data_dir, 1))
        await waits(server, run)
        live = server.app.engine.directory.live_runs()[0]
        flush = server.app.engine.journal.flush

        async def flush_and_see_the_end(run_log: Any) -> None:
            await flush(run_log)
            server.app.engine.service.cancel(live, live.principal)
            await live.done.wait()
            for _ in range(20):  # whoever has something to tell about the end has had its turn
                await asyncio.sleep(0)

        monkeypatch.setattr(server.app.engine.journal, "flush", flush_and_see_the_end)
        assert (await steer(client, run.id, "second"))["type"] == "response.steer.accepted"
        failed = (await client.recv_until(lambda e: e["type"] == "response.steer.failed"))[-1]
        assert (code_of(failed), failed["steer"]["input"]) == ("response_not_active", "second")
