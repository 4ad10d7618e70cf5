"""A terminal that cannot be written: the run fails, nothing ever says it completed (DESIGN 3.5, issue G-01)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.http.calling import begin, body, create, error_of, follow, get, http, script, until
from tests.store.database import NO_EVENTS, NO_ROWS, NO_TERMINAL, execute, locked
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

TALK = "[[turns]]\n[[turns.steps]]\ntext='w{n} '\nrate=200\nrepeat=20"


def path_of(server: RunningServer) -> Path:
    return server.app.settings.database_path


async def test_a_terminal_the_store_refuses_ends_the_run_storage_unavailable_everywhere(tmp_path: Path) -> None:
    async with running_server(tmp_path, store={"retry_s": 0.4}) as server:
        execute(path_of(server), NO_TERMINAL)
        async with http(server) as client, ws_client(server.ws_url) as socket:
            statuses: set[str] = set()
            watching = asyncio.create_task(_watch(server, statuses))
            events = await socket.run(input="one two")
            await _stop(watching)
            terminal = check_run(events).terminal
            assert terminal is not None and terminal["error"]["code"] == "storage_unavailable"
            stored = (await get(server, f"/v1/responses/{terminal['id']}")).json()
            replay = await follow(server, terminal["id"])
            answer = await client.post("/v1/responses", json=body())
            refused = await client.post("/v1/responses", json=body(previous_response_id=terminal["id"]))
        assert stored == terminal and "completed" not in statuses
        assert check_run(replay.payloads).terminal == terminal
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "storage_unavailable")
        assert (refused.status_code, error_of(refused)["code"]) == (400, "response_not_continuable")
        execute(path_of(server), "DROP TRIGGER no_terminal")
    async with running_server(tmp_path) as server:
        lost = (await get(server, f"/v1/responses/{terminal['id']}")).json()
        again = await follow(server, terminal["id"])
    assert (lost["status"], lost["error"]["code"]) == ("failed", "server_lost")
    assert lost["output"][0]["content"][0]["text"] == "one two"
    assert check_run(again.payloads).terminal == lost
    epochs = [str(event.id).partition(".")[0] for event in again.events]
    assert len(set(epochs)) == 2 and epochs[-1] != epochs[0] and epochs[:-1] == [epochs[0]] * (len(epochs) - 1)


async def _watch(server: RunningServer, statuses: set[str]) -> None:
    """What GET says, all the time."""
    while True:
        for state in list(server.app.registry):
            answer = await get(server, f"/v1/responses/{state.response_id}")
            if answer.status_code == 200:
                statuses.add(answer.json()["status"])
        await asyncio.sleep(0.01)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_store_that_takes_no_event_at_all_ends_the_run_within_its_patience() -> None:
    async with running_server(store={"retry_s": 0.4}) as server:
        execute(path_of(server), NO_EVENTS)
        model = script(server, "talk", TALK)
        async with ws_client(server.ws_url) as socket, asyncio.timeout(8):
            events = await socket.run(model=model)
        terminal = check_run(events).terminal
        assert terminal is not None and terminal["error"]["code"] == "storage_unavailable"
        assert (await get(server, f"/v1/responses/{terminal['id']}")).json() == terminal
        assert (await get(server, "/ready")).status_code == 503
        execute(path_of(server), "DROP TRIGGER no_events")
        assert (await create(server))["status"] == "completed"
        assert (await get(server, "/ready")).status_code == 200


async def test_a_store_that_is_back_in_time_completes_the_run_and_keepalives_bridge_the_wait() -> None:
    async with running_server(store={"retry_s": 20}, timeouts={"keepalive_s": 0.1}) as server:
        execute(path_of(server), NO_TERMINAL)
        async with ws_client(server.ws_url) as socket:
            await socket.create(input="one two")
            seen = await socket.recv_until(lambda event: event["type"] == "keepalive")
            execute(path_of(server), "DROP TRIGGER no_terminal")
            events = [*seen, *await socket.collect_run()]
        run = check_run(events)
        assert run.terminal is not None and run.terminal["status"] == "completed" and run.text == "one two"
        replay = await follow(server, str(run.response_id))
        assert check_run(replay.payloads).terminal == run.terminal


async def test_while_its_terminal_waits_for_the_store_a_run_is_in_progress_and_cannot_be_cancelled_any_more() -> (
    None
):
    async with running_server(store={"retry_s": 20}) as server:
        execute(path_of(server), NO_TERMINAL)
        async with ws_client(server.ws_url) as socket:
            await socket.hello()
            await socket.create()
            seen = await socket.recv_until(lambda event: event["type"] == "response.created")
            response_id = seen[-1]["response"]["id"]
            run = server.app.engine.supervisor._directory._runs[response_id]
            await until(lambda: run.phase == "ending")
            reply = await socket.command("antiphon:cancel", response_id=response_id)
            status = (await get(server, f"/v1/responses/{response_id}")).json()["status"]
            execute(path_of(server), "DROP TRIGGER no_terminal")
            await socket.recv_until(lambda event: event["type"] == "response.completed")
        assert (reply["result"], status) == ("already_terminal", "in_progress")


async def test_a_durable_create_that_the_store_does_not_take_is_refused_and_leaves_nothing() -> None:
    async with running_server(store={"retry_s": 0.2}) as server, http(server) as client:
        execute(path_of(server), NO_ROWS)
        background = await client.post("/v1/responses", json=body(background=True))
        keyed = await client.post("/v1/responses", json=body(), headers={"idempotency-key": "k"})
        for answer in (background, keyed):
            assert (answer.status_code, error_of(answer)["code"]) == (503, "storage_unavailable")
        assert list(server.app.registry) == [] and server.app.engine.supervisor.running == 0
        execute(path_of(server), "DROP TRIGGER no_rows")
        again = await client.post("/v1/responses", json=body(), headers={"idempotency-key": "k"})
        assert again.status_code == 200 and again.json()["status"] == "completed"


async def test_a_run_that_is_not_stored_does_not_mind_the_store() -> None:
    async with running_server(store={"retry_s": 0.2}) as server:
        with locked(path_of(server)):
            assert (await create(server, store=False))["status"] == "completed"


async def test_a_commit_of_unknown_outcome_is_read_back_and_not_written_twice() -> None:
    async with running_server(store={"retry_s": 5}) as server:
        end, failed = server.app.backends.journal.end, []

        async def committed_but_unanswered(run_log: Any, ending: Any, within_s: float) -> Any:
            verdict = await end(run_log, ending, within_s)
            if not failed:
                from antiphon.errors import StorageError

                failed.append(verdict)
                server.app.backends.journal._sent[run_log] = run_log.head
                raise StorageError("nobody knows")
            return verdict

        server.app.backends.journal.end = committed_but_unanswered  # type: ignore[method-assign]
        response = await create(server, "one two")
        assert failed[0].won and response["status"] == "completed"
        replay = await follow(server, response["id"])
        assert check_run(replay.payloads).terminal == response


async def test_stopping_a_server_whose_store_is_away_does_not_wait_for_it() -> None:
    async with running_server(store={"retry_s": 60}) as server:
        execute(path_of(server), NO_EVENTS)
        await begin_unstoppable(server)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await server.server.abort()
        assert loop.time() - started < 10


async def begin_unstoppable(server: RunningServer) -> None:
    async with ws_client(server.ws_url) as socket:
        await socket.create(model=script(server, "talk", TALK.replace("repeat=20", "repeat=100000")))
        await socket.recv_on(None)


async def test_a_row_decided_by_another_owner_is_what_everybody_is_shown() -> None:
    async with running_server() as server:
        response_id = await begin(server, model=script(server, "talk", TALK))
        run = server.app.engine.supervisor._directory._runs[response_id]
        await until(lambda: run.log.head > 8)
        execute(path_of(server), f"UPDATE responses SET fence = 7 WHERE id = '{response_id}'")
        await asyncio.wait_for(run.done.wait(), 10)
        payload = (await follow(server, response_id)).payloads[-1]
        assert payload["type"] == "response.failed"
        assert payload["response"]["error"]["code"] == "storage_unavailable"
        assert (await get(server, f"/v1/responses/{response_id}")).json()["status"] == "failed"
