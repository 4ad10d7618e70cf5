"""Several workers behind one port keep every promise that one process keeps."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from antiphon.errors import StartupError
from antiphon.workers import local_bus
from tests.support.redis import redis_server
from tests.workers.serving import LOOK, WAIT_S, Pinned, Serving, command_of, one_at_each, serving


async def until_ended(client: Pinned, response_id: str) -> dict[str, object]:
    for _ in range(round(WAIT_S / 0.05)):
        response = await client.response(response_id)
        if response["status"] not in ("queued", "in_progress"):
            return response
        await asyncio.sleep(0.05)
    raise AssertionError(f"{response_id} did not end")


async def held(client: Pinned) -> tuple[str, str]:
    """A run that waits for a client, and its call."""
    made = await client.post(
        "/v1/responses",
        model="antiphon/script:calling",
        input="x",
        background=True,
        tools=[LOOK],
        antiphon={"client_tools": "hold"},
    )
    for _ in range(round(WAIT_S / 0.05)):
        run = (await client.http.get(f"/v1/runs/{made['id']}")).json()
        if run.get("run", {}).get("pending_calls"):
            return made["id"], run["run"]["pending_calls"][0]["call_id"]
        await asyncio.sleep(0.05)
    raise AssertionError(f"{made['id']} waits for nobody")


async def answered(client: Pinned, response_id: str, call_id: str) -> dict[str, object]:
    item = {"type": "function_call_output", "call_id": call_id, "output": "seen"}
    await client.post(f"/v1/responses/{response_id}/inject", input=[item])
    return await until_ended(client, response_id)


async def test_a_run_of_one_worker_is_watched_answered_and_cancelled_from_another(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, one_at_each(server.url) as (here, there):
        response_id, call_id = await held(here)
        assert (await answered(there, response_id, call_id))["status"] == "completed"

        long = await here.post("/v1/responses", model="antiphon/script:slow", input="x", background=True)
        events: list[str] = []
        path = f"/v1/responses/{long['id']}?stream=true"
        async with there.http.stream("GET", path) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: "):
                    events.append(line)
                if len(events) == 20:
                    break
        assert events[0] == "event: response.created"
        async with one_at_each(server.url) as others:
            other = next(one for one in others if one.node != here.node)
            await other.http.post(f"/v1/responses/{long['id']}/cancel")
        assert (await until_ended(here, long["id"]))["status"] == "cancelled"


async def test_connections_are_spread_over_the_workers(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        clients = [Pinned(server.url) for _ in range(200)]
        for client in clients:
            await client.status()
        nodes = Counter(client.node for client in clients)
        for client in clients:
            await client.http.aclose()
    # Evenly, by a hash: chance gives one worker more than this twice in 100,000 times.
    assert len(nodes) == 2 and max(nodes.values()) <= 130, nodes


async def test_hundreds_of_turns_of_both_workers_are_all_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, one_at_each(server.url) as clients:

        async def talk(client: Pinned, turns: int) -> list[str]:
            made = [await client.post("/v1/responses", model="antiphon/echo", input=f"{n}") for n in range(turns)]
            return [one["id"] for one in made]

        ids = [one for made in await asyncio.gather(*(talk(c, 100) for c in clients)) for one in made]
        assert len(set(ids)) == 200
        for response_id in ids:
            assert (await clients[0].response(response_id))["status"] == "completed"
        assert "database is locked" not in server.said()


async def test_a_killed_worker_is_replaced_and_its_runs_go_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        before = set(server.workers())
        async with one_at_each(server.url) as clients:
            runs = [await held(client) for client in clients]
            victim = min(before)
            os.kill(victim, signal.SIGKILL)
        async with httpx2.AsyncClient(base_url=server.url, timeout=WAIT_S, trust_env=False) as http:
            for _ in range(round(WAIT_S / 0.2)):
                try:
                    nodes = (await http.get("/v1/admin/status")).json()["nodes"]
                    if sum(node["state"] == "ready" for node in nodes) == 2 and len(nodes) == 2:
                        break
                except httpx2.TransportError:
                    pass
                await asyncio.sleep(0.2)
        assert len(server.workers()) == 2 and victim not in server.workers()
        async with one_at_each(server.url) as (client, _):
            for response_id, call_id in runs:
                assert (await answered(client, response_id, call_id))["status"] == "completed"


async def test_a_killed_bus_is_replaced_with_all_it_knew(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, one_at_each(server.url) as (here, there):
        response_id, call_id = await held(here)
        # What is not a second old may be lost with the power, but not with the process.
        bus = next(pid for pid, command in server.children().items() if "-server" in command)
        os.kill(bus, signal.SIGKILL)
        for _ in range(round(WAIT_S / 0.1)):
            buses = [pid for pid, command in server.children().items() if "-server" in command]
            ready = [(await client.http.get("/ready")).status_code == 200 for client in (here, there)]
            if buses not in ([], [bus]) and all(ready):
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(server.said())
        assert (await answered(there, response_id, call_id))["status"] == "completed"


async def test_a_killed_supervisor_leaves_nothing_behind(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        children = server.children()
        assert sum(" worker " in command for command in children.values()) == 2
        server.process.kill()
        await server.ended()
        for _ in range(round(WAIT_S / 0.05)):
            if not any(command_of(pid) == command != "" for pid, command in children.items()):
                return
            await asyncio.sleep(0.05)
        raise AssertionError([command_of(pid) for pid in children])


async def test_a_stop_in_order_ends_everything_and_what_waited_goes_on_at_the_next_start(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        async with one_at_each(server.url) as (client, _):
            response_id, call_id = await held(client)
        children = server.children()
        server.process.send_signal(signal.SIGTERM)
        assert await server.ended() == 0, server.said()
        assert not any(command_of(pid) for pid in children)
    async with serving(tmp_path) as server, one_at_each(server.url) as (client, _):
        assert (await answered(client, response_id, call_id))["status"] == "completed"


async def test_a_second_signal_cuts_the_drain_short(tmp_path: Path) -> None:
    async with serving(tmp_path, ANTIPHON_TIMEOUTS__DRAIN_S="3600") as server:
        async with one_at_each(server.url) as clients:
            for client in clients:
                await client.post("/v1/responses", model="antiphon/script:endless", input="x", background=True)
        server.process.send_signal(signal.SIGTERM)
        for _ in range(round(WAIT_S / 0.05)):
            if server.said().count("draining") == 2:
                break
            await asyncio.sleep(0.05)
        server.process.send_signal(signal.SIGTERM)
        assert await server.ended() == 0, server.said()


async def test_a_server_that_bus_url_names_is_used_and_none_is_started(tmp_path: Path) -> None:
    with redis_server() as bus:
        async with serving(tmp_path, ANTIPHON_BUS_URL=bus.url) as server, one_at_each(server.url) as (here, there):
            assert not [command for command in server.children().values() if "-server" in command]
            response_id, call_id = await held(here)
            assert (await answered(there, response_id, call_id))["status"] == "completed"


async def test_a_compaction_of_one_process_is_read_by_several_and_back(tmp_path: Path) -> None:
    sealed: list[dict[str, object]] = []
    for workers in (1, 2, 1):
        async with serving(tmp_path, workers) as server, one_at_each(server.url, workers) as clients:
            for client in clients:
                said = [*sealed, {"role": "user", "content": "x"}]
                await client.post("/v1/responses", model="antiphon/echo", input=said)
            made = await clients[0].post("/v1/responses/compact", model="antiphon/echo", input="x")
            sealed += [item for item in made["output"] if item["type"] == "compaction"]
    assert len(sealed) == 3


async def test_one_process_and_several_keep_the_same_data(tmp_path: Path) -> None:
    ids: list[str] = []
    for workers in (1, 2, 1):
        async with serving(tmp_path, workers) as server, one_at_each(server.url, workers) as (client, *_):
            more = {"previous_response_id": ids[-1]} if ids else {}
            ids.append((await client.post("/v1/responses", model="antiphon/echo", input="x", **more))["id"])
            for response_id in ids:
                assert (await client.response(response_id))["status"] == "completed"


async def test_metrics_are_those_of_all_workers_whoever_is_asked(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, one_at_each(server.url) as clients:
        for client in clients:
            await client.post("/v1/responses", model="antiphon/echo", input="x")
        for client in clients:
            page = (await client.http.get("/metrics")).text
            started = [line for line in page.splitlines() if line.startswith("antiphon_runs_started_total{")]
            assert {line.partition('worker="')[2][0] for line in started} == {"1", "2"}, started
            assert sum(float(line.rsplit(" ", 1)[1]) for line in started) == 2


async def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = Serving(tmp_path, "--workers", "2", "--port", str(taken.getsockname()[1]))
        assert await server.ended() == 2
    assert "cannot listen on 127.0.0.1" in server.said() and "Traceback" not in server.said()


async def test_a_folder_in_use_is_one_clear_line(tmp_path: Path) -> None:
    async with serving(tmp_path):
        second = Serving(tmp_path / ".", "--workers", "2", "--port", "0")
        assert await second.ended() == 2
        assert "another antiphon server uses the data" in second.said()


def test_without_a_server_to_share_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(local_bus.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(StartupError, match=r"antiphon\[workers\]"):
        local_bus.find_program()
