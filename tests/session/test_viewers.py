"""Several clients on one run: everybody the same story, nobody in the way (M-01, M-03, M-04, M-06)."""

from __future__ import annotations

import asyncio
import time

from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    reference,
    response_id,
    started,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.http_client import read_sse
from tests.support.server import running_server
from tests.support.ws_client import Event, WsClient, ws_client


async def until_word(client: WsClient, n: int) -> list[Event]:
    return await client.recv_until(lambda event: event.get("delta") == f"w{n} ")


async def test_viewers_that_come_early_late_and_after_the_end_get_equal_bytes() -> None:
    async with (
        running_server() as server,
        connected(server.ws_url) as owner,
        connected(server.ws_url) as early,
        connected(server.ws_url) as late,
        connected(server.ws_url) as after,
    ):
        model = write_script(server.data_dir, "paced", [words(100, rate=80)])
        await owner.create(model)
        seen = await until_word(owner, 25)
        run_id = response_id(seen)
        await early.hello()
        first = asyncio.create_task(attach_all(early, run_id))
        seen += await until_word(owner, 75)
        await late.hello()
        second = asyncio.create_task(attach_all(late, run_id))
        seen += await owner.collect_run()
        await after.hello()
        third = await attach_all(after, run_id)
        over_http = await read_sse("GET", f"{server.url}/v1/responses/{run_id}?stream=true")
        check_run(seen)
        assert log_bytes(await first) == log_bytes(seen)
        assert log_bytes(await second) == log_bytes(seen)
        assert log_bytes(third) == log_bytes(seen)
        assert [event.data for event in over_http.events] == log_bytes(seen)


async def test_a_client_attached_to_one_of_two_runs_gets_no_frame_of_the_other() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as viewer:
        model = write_script(server.data_dir, "paced", [words(40, rate=100)])
        await viewer.hello()
        await owner.create(model, stream_id="mine")
        await owner.create(model, stream_id="theirs")
        mine, theirs = await started(owner, "mine"), await started(owner, "theirs")
        attached = await viewer.attach(mine)
        await viewer.collect_attachment(attached["stream_id"])
        await owner.recv_until(lambda e: e["type"] == "response.completed", stream_id="mine")
        await owner.recv_until(lambda e: e["type"] == "response.completed", stream_id="theirs")
        await viewer.command("antiphon:ping")
        assert theirs not in "".join(event.raw for event in viewer.received)
        after_hello = viewer.received[1:]
        assert after_hello[0]["type"] == "antiphon:attached"
        assert {event.get("stream_id", "att.1") for event in after_hello} == {"att.1"}


async def test_fifty_observers_that_come_and_go_take_nothing_from_the_owner() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, ws_client(server.ws_url) as other:
        model = write_script(server.data_dir, "paced", [words(300, rate=150)])
        await other.hello()
        await owner.create(model)
        run_id = await started(owner)

        async def observe(n: int) -> None:
            async with ws_client(server.ws_url) as short:
                await short.hello()
                lane = (await short.attach(run_id, after="now" if n % 3 else "start"))["stream_id"]
                await short.recv_on(lane)
                if n % 2:
                    await short.command("antiphon:detach", response_id=run_id)

        for start in range(0, 50, 10):
            await asyncio.gather(*(observe(n) for n in range(start, start + 10)))
        live = await owner.collect_run()
        everything = [event for event in owner.received if event["type"] != "keepalive"]
        assert log_bytes(await reference(server.ws_url, run_id)) == log_bytes(everything)
        assert live[-1]["response"]["status"] == "completed"
        assert len(server.app.hub) <= 3


async def test_the_owner_resets_its_connection_and_the_viewer_sees_the_run_to_its_end() -> None:
    async with running_server() as server, connected(server.ws_url) as viewer:
        model = write_script(server.data_dir, "paced", [words(60, rate=60)])
        await viewer.hello()
        async with connected(server.ws_url) as owner:
            await owner.create(model)
            run_id = response_id(await until_word(owner, 5))
            attached = await viewer.attach(run_id)
            await owner.abort()
        frames = numbered(await viewer.collect_attachment(attached["stream_id"]))
        assert check_run(frames).text.endswith("w59 ")
        assert log_bytes(await reference(server.ws_url, run_id)) == log_bytes(frames)


async def test_a_run_nobody_reads_takes_no_longer_than_one_that_is_read() -> None:
    """M-06: the producer never waits for a reader, and a lost reader does not stop it."""
    async with running_server() as server:
        model = write_script(server.data_dir, "fast", [words(2000, rate=1000)])
        took = []
        for stay in (True, False):
            async with connected(server.ws_url) as owner:
                begun = time.monotonic()
                await owner.create(model)
                run_id = await started(owner)
                if stay:
                    await owner.recv_until(lambda event: event["type"] == "response.completed", wait_s=30)
                else:
                    await owner.abort()
            async with connected(server.ws_url) as watcher:
                await watcher.hello()
                attached = await watcher.attach(run_id, after="now")
                await watcher.collect_attachment(attached["stream_id"], 30)
            took.append(time.monotonic() - begun)
            check_run(await reference(server.ws_url, run_id, 30))
        assert took[1] < took[0] * 1.5 + 1


async def test_seconds_after_the_last_listener_left_a_run_is_cancelled_unless_one_comes_back() -> None:
    async with running_server() as server, connected(server.ws_url) as watcher:
        model = write_script(server.data_dir, "slow", [words(100, rate=20)])
        await watcher.hello()
        async with connected(server.ws_url) as owner:
            await owner.create(model, antiphon={"on_disconnect": 1.0}, stream_id="back")
            back = await started(owner, "back")
            await owner.create(model, antiphon={"on_disconnect": 0}, stream_id="gone")
            gone = await started(owner, "gone")
            await owner.create(model, antiphon={"on_disconnect": "continue"}, stream_id="kept")
            kept = await started(owner, "kept")
            await owner.abort()
        lane = (await watcher.attach(back))["stream_id"]
        end = await attach_all(watcher, gone)
        assert (end[-1]["response"]["status"], end[-1]["response"]["incomplete_details"]) == (
            "cancelled",
            {"reason": "cancelled"},
        )
        for run_id in (back, kept):
            if run_id != back:
                lane = (await watcher.attach(run_id))["stream_id"]
            frames = numbered(await watcher.collect_attachment(lane, 20))
            assert check_run(frames).terminal["status"] == "completed"  # type: ignore[index]
