"""Logs go after their time; the response stays, and who comes too late is told with it (PROTOCOL 9.1, 6.4.5)."""

from __future__ import annotations

from pathlib import Path

from antiphon.store import records
from tests.http.calling import begin, create, error_of, follow, get, http, slow, until
from tests.store.database import ending, new_response
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client


class TurnedClock:
    """The machine's clock, which a test can put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        import time

        return time.time() + self.ahead_s


def turn(server: RunningServer, seconds: float) -> None:
    """A day passes for the janitor."""
    clock = TurnedClock()
    clock.ahead_s = seconds
    server.app.engine.janitor._clock = clock  # type: ignore[assignment]


async def test_a_log_is_kept_for_its_retention_and_not_longer() -> None:
    async with running_server(journal={"retention_s": 86_400}) as server:
        response = await create(server, "one two")
        turn(server, 86_000)
        await server.app.engine.janitor.clean()
        assert check_run((await follow(server, response["id"])).payloads).text == "one two"
        turn(server, 86_500)
        await server.app.engine.janitor.clean()
        answer = await get(server, f"/v1/responses/{response['id']}", stream="true")
        assert answer.status_code == 410


async def test_after_expiry_http_answers_410_with_the_response_and_its_head() -> None:
    async with running_server(journal={"retention_s": 0}) as server:
        response = await create(server, "one two")
        head = len((await follow(server, response["id"])).events) - 1
        await server.app.engine.janitor.clean()
        for cursor in ({}, {"starting_after": 0}, {"starting_after": head - 1}):
            answer = await get(server, f"/v1/responses/{response['id']}", stream="true", **cursor)
            error = error_of(answer)
            assert (answer.status_code, error["code"], error["head"]) == (410, "cursor_expired", head)
            assert answer.json()["response"] == response
        assert (await follow(server, response["id"], starting_after=head)).done
        assert (await get(server, f"/v1/responses/{response['id']}")).json() == response
        child = await create(server, "more", previous_response_id=response["id"])
        assert child["status"] == "completed"


async def test_after_expiry_an_attach_gets_the_snapshot() -> None:
    async with running_server(journal={"retention_s": 0}) as server, ws_client(server.ws_url) as socket:
        response = await create(server, "one two")
        head = len((await follow(server, response["id"])).events) - 1
        await server.app.engine.janitor.clean()
        await socket.hello()
        for cursor in ({}, {"after": "start"}, {"after": 1}):
            attached = await socket.attach(response["id"], **cursor)
            assert (attached["mode"], attached["recovered"], attached["reason"]) == (
                "snapshot",
                False,
                "cursor_expired",
            )
            assert (attached["head"], attached["response"]) == (head, response)
            frames = await socket.collect_attachment(attached["stream_id"])
            assert not any("sequence_number" in frame for frame in frames)
        at_head = await socket.attach(response["id"], after=head)
        assert (at_head["mode"], at_head["recovered"]) == ("ended", True)
        await socket.collect_attachment(at_head["stream_id"])


async def test_running_logs_never_expire_and_neither_do_responses() -> None:
    async with running_server(journal={"retention_s": 0}) as server:
        running = await begin(server, model=slow(server))
        ended = await create(server)
        turn(server, 10 * 86_400)
        await server.app.engine.janitor.clean()
        assert (await get(server, f"/v1/responses/{running}")).json()["status"] == "in_progress"
        assert (await get(server, f"/v1/responses/{ended['id']}")).json() == ended
        async with http(server) as client:
            await client.post(f"/v1/responses/{running}/cancel")
        check_run((await follow(server, running)).payloads)


async def test_expiry_works_through_more_logs_than_fit_into_one_go() -> None:
    async with running_server(journal={"retention_s": 0}) as server:
        for n in range(250):
            end = ending(f"resp_{n}")
            server.app.backends.store.writer.submit(records.begin(new_response(end.id), None))
            done = server.app.backends.store.writer.submit(records.end(end, [(end.id, 0, 2, b"a\nb\nc")]))
        await done
        await server.app.engine.janitor.clean()
        assert {await server.app.backends.store.reader.head(f"resp_{n}") for n in range(250)} == {-1}


async def test_idempotency_records_go_with_their_day() -> None:
    async with running_server() as server, http(server, **{"idempotency-key": "k"}) as client:
        first = (await client.post("/v1/responses", json={"model": "antiphon/echo", "input": "x"})).json()
        turn(server, 86_500)
        server.app.engine.service._keys._clock = server.app.engine.janitor._clock
        await server.app.engine.janitor.clean()
        assert server.app.engine.service._keys._records == {} and server.app.engine.service._keys._locks == {}
        again = (await client.post("/v1/responses", json={"model": "antiphon/echo", "input": "y"})).json()
    assert again["id"] != first["id"]


async def test_ended_runs_leave_memory(tmp_path: Path) -> None:
    async with running_server(tmp_path, store={"grace_s": 0.1}) as server:
        for store in (True, False):
            for _ in range(5):
                await create(server, store=store)
        runs = server.app.engine.supervisor._directory._runs
        await until(lambda: not runs)
        assert server.app.backends.journal._sent == {} and server.app.backends.journal._dirty == {}
        assert server.app.backends.journal._begins == {} and server.app.registry._listeners == {}
