"""Readers that are too slow: bounded, told, and complete after they come back (B-01, B-03, B-05; PROTOCOL 3.5)."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import httpx2
import pytest

from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    response_id,
    started,
    until,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.server import ServerProcess, running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, events_of_text
from tests.support.ws_client import WsClient, ws_client

PIECE_BYTES = 100_000
PIECES = 560
"""56 MB in events that nothing accumulates."""


async def big_stream(request: StubRequest, conn: StubConn) -> None:
    """56 MB of audio, which is passed on and in no item."""
    begin, *rest = events_of_text(["begin"])
    conn.head()
    conn.sse(begin)
    piece = json.dumps({"type": "response.audio.delta", "delta": "A" * PIECE_BYTES}).encode()
    for _ in range(PIECES // 10):
        for _ in range(10):
            conn.sse(piece)
        await conn.flushed()
        await asyncio.sleep(0.1)  # 10 MB a second: also a busy disk keeps up, so that its queue does not grow
    for event in rest:
        conn.sse(event)
    conn.end()


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def highest_rss(pid: int, done: asyncio.Event) -> int:
    highest = 0
    while not done.is_set():
        highest = max(highest, rss_bytes(pid))
        await asyncio.sleep(0.02)
    return highest


@pytest.mark.parametrize("hello", [False, True])
async def test_a_client_that_never_reads_costs_little_is_closed_in_time_and_misses_nothing(
    tmp_path: Path, hello: bool
) -> None:
    async with StubUpstream(big_stream) as stub:
        config = tmp_path / "antiphon.toml"
        config.write_text(
            f'[[upstream]]\nname = "stub"\nurl = "{stub.url}"\nmodels = ["stub-model"]\n'
            "[journal]\ntail_bytes = 1000000\n[timeouts]\nstalled_socket_s = 1.5\n"
        )
        async with ServerProcess(tmp_path) as server:
            async with ws_client(server.ws_url) as warm_up:
                await warm_up.run()
                await warm_up.run("stub-model", wait_s=30)
            before, done = rss_bytes(server.pid), asyncio.Event()
            measuring = asyncio.create_task(highest_rss(server.pid, done))
            async with ws_client(server.ws_url, max_queue=1) as deaf, ws_client(server.ws_url) as watcher:
                if hello:
                    await deaf.hello()
                await deaf.create("stub-model")
                run_id = await started(deaf)
                deaf.stop_reading()
                stopped = time.monotonic()

                async def closed() -> int:
                    # Its own turn is delivered nowhere else, so the log of the server tells when it was closed.
                    await until(lambda: "socket_stalled" in server.log.read_text(), "the close of the deaf", 30)
                    assert time.monotonic() - stopped < 20
                    done.set()
                    deaf.resume_reading()  # before the server gives up saying why
                    return (await deaf.wait_closed())[0]

                closing = asyncio.create_task(closed())
                await watcher.hello()
                whole = await attach_all(watcher, run_id, wait_s=60)
                check_run(whole)
                assert await closing in ((4001,) if hello else (1013,))
            growth = await measuring - before
            assert growth < 40_000_000, f"{growth / 1e6:.0f} MB more than for the same run with a reader"
            had = numbered(deaf.received)
            async with connected(server.ws_url) as again:
                await again.hello()
                rest = await attach_all(again, run_id, wait_s=30, after=had[-1]["sequence_number"])
            assert log_bytes(had) + log_bytes(rest) == log_bytes(whole)


async def test_a_burst_for_a_client_that_pauses_is_delivered_whole() -> None:
    async with running_server(limits={"outbox_bytes": 65_536}) as server:
        model = write_script(server.data_dir, "burst", [words(10_000, text="x" * 300)])
        async with ws_client(server.ws_url, max_queue=1) as paused, ws_client(server.ws_url) as watcher:
            await paused.create(model)
            run_id = await started(paused)
            paused.stop_reading()
            await watcher.hello()
            whole = await attach_all(watcher, run_id, wait_s=30)
            paused.resume_reading()
            await paused.collect_run(wait_s=30)
            assert log_bytes(paused.received) == log_bytes(whole)
            check_run(whole)


async def test_a_slow_reader_slows_neither_the_run_nor_the_lanes_of_others() -> None:
    async with running_server(limits={"outbox_bytes": 65_536}) as server:
        flood = write_script(server.data_dir, "flood", [words(15_000, text="x" * 300)])
        paced = write_script(server.data_dir, "paced", [words(50, rate=100)])
        async with ws_client(server.ws_url, max_queue=1) as deaf, connected(server.ws_url) as other:
            await deaf.create(flood)
            run_id = await started(deaf)
            deaf.stop_reading()
            begun = time.monotonic()
            check_run(await other.run(paced))
            assert time.monotonic() - begun < 10
            await other.hello()
            attached = await other.attach(run_id, after="now")
            await other.collect_attachment(attached["stream_id"], 30)
            deaf.resume_reading()
            await deaf.collect_run(wait_s=30)
            assert [e["sequence_number"] for e in deaf.received] == list(range(len(deaf.received)))


async def test_a_slow_but_steady_reader_is_not_called_stalled() -> None:
    async with running_server(limits={"outbox_bytes": 65_536}, timeouts={"stalled_socket_s": 3}) as server:
        model = write_script(server.data_dir, "burst", [words(30_000, text="x" * 300)])
        async with ws_client(server.ws_url, max_queue=1) as slow:
            await slow.create(model)
            await started(slow)
            while slow.received[-1]["type"] != "response.completed":
                slow.stop_reading()
                await asyncio.sleep(0.25)  # the pace of this reader, 15 times: longer in all than it may stall
                slow.resume_reading()
                target = len(slow.received) + 2_000
                while len(slow.received) < target and slow.received[-1]["type"] != "response.completed":
                    await slow.recv_on()
            assert [e["sequence_number"] for e in slow.received] == list(range(len(slow.received)))


async def test_answers_to_a_client_that_asks_and_does_not_read_are_bounded(tmp_path: Path) -> None:
    write_script(tmp_path, "fat", [{"text": "x" * 1_000_000, "chunk": "all"}])
    async with ServerProcess(tmp_path, {"ANTIPHON_TIMEOUTS__STALLED_SOCKET_S": "3"}) as server:
        async with ws_client(server.ws_url, max_queue=1) as client:
            run_id = response_id(await client.run("antiphon/script:fat"))
            await client.hello()
            before, done = rss_bytes(server.pid), asyncio.Event()
            measuring = asyncio.create_task(highest_rss(server.pid, done))
            client.stop_reading()
            for n in range(300):
                await client.send(
                    {"type": "antiphon:attach", "id": f"a{n}", "response_id": run_id, "after": "now"}
                )
            await until(lambda: "socket_stalled" in server.log.read_text(), "the close of the deaf socket", 15)
            client.resume_reading()
            assert (await client.wait_closed())[0] == 4001
            async with httpx2.AsyncClient(trust_env=False) as web:
                metrics = (await web.get(f"{server.url}/metrics")).text
            assert 'antiphon_evictions_total{transport="websocket"} 1.0' in metrics
            assert 'antiphon_socket_closes_total{code="4001"} 1.0' in metrics
            done.set()
            growth = await measuring - before
            assert growth < 60_000_000, f"300 answers of 1 MB nobody read cost {growth / 1e6:.0f} MB"


async def test_big_frames_and_long_replays_of_some_do_not_stall_the_others(tmp_path: Path) -> None:
    write_script(tmp_path, "long", [words(20_000)])
    async with ServerProcess(tmp_path) as server:
        async with (
            ws_client(server.ws_url) as loud,
            ws_client(server.ws_url) as probe,
            ws_client(server.ws_url) as late,
        ):
            run_id = response_id(await loud.run("antiphon/script:long", wait_s=60))
            fields = ",".join(f'"key{n}":"{"v" * 80}"' for n in range(100_000))
            big = '{"type":"response.create","model":"antiphon/echo","input":"big","pad":{' + fields + "}}"
            assert len(big) > 9_000_000
            waits: list[float] = []
            done = asyncio.Event()

            async def ask() -> None:
                while not done.is_set():
                    begun = time.monotonic()
                    assert (await probe.command("antiphon:ping"))["type"] == "antiphon:pong"
                    waits.append(time.monotonic() - begun)

            probing = asyncio.create_task(ask())
            await loud.send_raw(big)
            check_run(await loud.collect_run(wait_s=30))
            await late.hello()
            await replay(late, run_id)
            done.set()
            await probing
            waits.sort()
            assert len(waits) > 20
            assert waits[len(waits) * 95 // 100] < 1.0
            assert waits[-1] < 4.0


async def replay(client: WsClient, run_id: str) -> None:
    events = await attach_all(client, run_id, wait_s=60)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
