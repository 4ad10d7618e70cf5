"""Shutdown in order: readiness first, refusals aloud, running turns finish, then the close (PROTOCOL 3.6.2; J)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from pathlib import Path

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.session.play import connected, reference, response_id, started, words, write_script
from tests.support.gap_checker import check_run
from tests.support.server import ServerProcess, running_server
from tests.support.ws_client import ws_client


async def ready(http: httpx2.AsyncClient, url: str) -> int:
    return (await http.get(f"{url}/ready")).status_code


async def until_not_ready(http: httpx2.AsyncClient, url: str) -> None:
    deadline = time.monotonic() + 10
    while await ready(http, url) == 200:
        assert time.monotonic() < deadline, "still ready"


async def test_sigterm_refuses_aloud_lets_turns_finish_and_closes_with_the_code(tmp_path: Path) -> None:
    model = write_script(tmp_path, "turn", [words(60, rate=30)])
    env = {"ANTIPHON_TIMEOUTS__DRAIN_S": "20"}
    async with (
        ServerProcess(tmp_path, env) as server,
        httpx2.AsyncClient(timeout=10, trust_env=False) as http,
        connected(server.ws_url) as idle,
        connected(server.ws_url) as idle_hello,
        connected(server.ws_url) as busy,
        connected(server.ws_url) as busy_hello,
    ):
        await idle_hello.hello()
        await busy_hello.hello()
        assert await ready(http, server.url) == 200
        runs = []
        for client in (busy, busy_hello):
            await client.create(model, stream_id="a")
            await client.create(input="waits", stream_id="a")
            runs.append(await started(client, "a"))
        server.signal(signal.SIGTERM)
        await until_not_ready(http, server.url)
        for client in (busy, busy_hello):
            frames = await client.recv_until(lambda event: event["type"] == "error", stream_id="a")
            refused = frames[-1]
            assert (refused["status"], refused["error"]["code"]) == (503, "server_draining")
            assert int(refused["headers"]["retry-after"]) >= 1
            await client.create(input="new", stream_id="b")
            assert (await client.recv_error("b"))["error"]["code"] == "server_draining"
        with pytest.raises(InvalidStatus) as upgrade:
            async with ws_client(server.ws_url):
                pass
        assert upgrade.value.response.status_code == 503
        post = await http.post(f"{server.url}/v1/responses", json={"model": "antiphon/echo", "input": "x"})
        assert (post.status_code, post.json()["error"]["code"]) == (503, "server_draining")
        assert post.headers["retry-after"]
        for client in (busy, busy_hello):
            await client.recv_until(lambda event: event["type"] == "response.completed", stream_id="a")
            check_run(e for e in client.received if e.get("stream_id") == "a" and e["type"] != "error")
        assert await idle.wait_closed() == (1012, "server restart")
        assert await busy.wait_closed() == (1012, "server restart")
        assert await idle_hello.wait_closed() == (4000, "server restart")
        assert await busy_hello.wait_closed() == (4000, "server restart")
        goaways = [event for event in idle_hello.received if event["type"] == "antiphon:goaway"]
        assert [(e["reason"], e["deadline_ms"]) for e in goaways] == [("draining", 20_000)]
        assert idle.received == []
        assert await server.wait() == 0
        assert "Traceback" not in server.log.read_text()
        await server.start()
        for run_id in runs:
            assert check_run(await reference(server.ws_url, run_id)).text.endswith("w59 ")


async def test_readiness_fails_before_work_is_refused(tmp_path: Path) -> None:
    env = {"ANTIPHON_TIMEOUTS__DRAIN_PAUSE_S": "1.5", "ANTIPHON_TIMEOUTS__DRAIN_S": "5"}
    async with (
        ServerProcess(tmp_path, env) as server,
        httpx2.AsyncClient(timeout=10, trust_env=False) as http,
        connected(server.ws_url) as client,
    ):
        server.signal(signal.SIGTERM)
        await until_not_ready(http, server.url)
        assert (await http.get(f"{server.url}/health")).status_code == 200
        assert check_run(await client.run(input="still taken")).text == "still taken"
        async with connected(server.ws_url) as late:
            await late.run(input="also taken")
        assert (await client.wait_closed())[0] == 1012
        assert await server.wait() == 0


async def test_a_run_longer_than_the_budget_ends_as_server_lost_and_its_client_is_told(tmp_path: Path) -> None:
    model = write_script(tmp_path, "long", [words(3), {"delay_s": 60}])
    async with ServerProcess(tmp_path, {"ANTIPHON_TIMEOUTS__DRAIN_S": "0.5"}) as server:
        async with connected(server.ws_url) as client:
            await client.create(model)
            seen = await client.recv_until(lambda event: event.get("delta") == "w2 ")
            server.signal(signal.SIGTERM)
            events = seen + await client.collect_run()
            assert check_run(events).terminal["error"]["code"] == "server_lost"  # type: ignore[index]
            assert (await client.wait_closed())[0] == 1012
        assert await server.wait() == 0
        await server.start()
        ended = await reference(server.ws_url, response_id(events))
        assert [event.raw.replace(',"stream_id":"att.1"', "") for event in ended] == [e.raw for e in events]


async def test_sockets_that_do_not_read_and_do_not_answer_hold_up_no_shutdown(tmp_path: Path) -> None:
    model = write_script(tmp_path, "flood", [words(100_000, text="x" * 200)])
    async with ServerProcess(tmp_path, {"ANTIPHON_TIMEOUTS__DRAIN_S": "1"}) as server:
        async with (
            ws_client(server.ws_url, max_queue=1) as deaf,
            ws_client(server.ws_url, max_queue=1) as deaf_too,
            ws_client(server.ws_url) as reader,
        ):
            for client in (deaf, deaf_too):
                await client.create(model)
                await started(client)
                client.stop_reading()
            idle = [
                await asyncio.open_connection("127.0.0.1", int(server.url.rsplit(":", 1)[1])) for _ in range(5)
            ]
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            assert (await reader.wait_closed())[0] == 1012
            assert await server.wait() == 0
            assert time.monotonic() - begun < 1 + 6
            for _, writer in idle:
                writer.close()
        assert "Traceback" not in server.log.read_text()


async def test_a_client_that_talks_all_the_time_still_sees_the_close_code(tmp_path: Path) -> None:
    """D-01: unread bytes at the server must not turn the close into a reset (1006)."""
    async with ServerProcess(tmp_path, {"ANTIPHON_TIMEOUTS__DRAIN_S": "1"}) as server:
        clients = 8

        async def talk(n: int) -> int | None:
            async with ws_client(server.ws_url) as client:
                frame = '{"type":"response.processed","pad":"' + "x" * 60_000 + '"}'
                talking.release()
                while client.socket.close_code is None:
                    with contextlib.suppress(ConnectionClosed):
                        await client.send_raw(frame)
                    await asyncio.sleep(0)  # sending alone would never let go of the loop
                return (await client.wait_closed())[0]

        talking = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(talk(n)) for n in range(clients)]
        for _ in range(clients):
            await asyncio.wait_for(talking.acquire(), 10)
        server.signal(signal.SIGTERM)
        assert await asyncio.gather(*tasks) == [1012] * clients
        assert await server.wait() == 0


async def test_a_drain_in_process_ends_what_runs_and_refuses_what_waits() -> None:
    async with running_server(timeouts={"drain_s": 10.0}) as server, connected(server.ws_url) as client:
        model = write_script(server.data_dir, "turn", [words(30, rate=30)])
        await client.create(model)
        await client.create(input="waits")
        await started(client)
        draining = asyncio.create_task(server.app.drain())
        frames = await client.recv_until(lambda event: event["type"] == "response.completed")
        assert [f["error"]["code"] for f in frames if f["type"] == "error"] == ["server_draining"]
        assert (await client.wait_closed())[0] == 1012
        await asyncio.wait_for(draining, 10)
