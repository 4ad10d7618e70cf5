"""Lanes: who waits for whom, and what a name may be (PROTOCOL 4, 5.9; field issue P-12)."""

from __future__ import annotations

import asyncio

import pytest

from tests.session.held import calling, hold, output, taken, waits
from tests.session.play import connected, response_id, started, stub_settings, words, write_script
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream, events_of_text
from tests.support.ws_client import Refused


class Held:
    """A STUB that begins each answer at once and ends one whenever it is told to."""

    def __init__(self) -> None:
        self._permits = asyncio.Semaphore(0)

    def release(self, count: int = 1) -> None:
        for _ in range(count):
            self._permits.release()

    async def __call__(self, request: StubRequest, conn: StubConn) -> None:
        events = events_of_text([request.body["input"][-1]["content"]])
        conn.head()
        for event in events[:4]:
            conn.sse(event)
        await self._permits.acquire()
        for event in events[4:]:
            conn.sse(event)
        conn.end()


@pytest.mark.parametrize("name", ["", "x" * 257, "a b", "ä", "a/b", "a\n", 7, None, ["a"], {"a": 1}])
async def test_an_illegal_name_is_refused_at_once_without_a_lane_and_without_using_one(name: object) -> None:
    async with running_server(limits={"named_lanes": 1}) as server, connected(server.ws_url) as client:
        slow = write_script(server.data_dir, "slow", [words(1), {"delay_s": 30}])
        await client.create(slow)
        running = await started(client)
        await client.create(stream_id=name)
        seen = await client.recv_until(lambda event: event["type"] == "error")
        assert "stream_id" not in seen[-1]
        assert (seen[-1]["error"]["code"], seen[-1]["error"]["param"]) == ("invalid_stream_id", "stream_id")
        await client.send({"type": "response.cancel", "response_id": running})
        await client.collect_run()
        assert check_run(await client.run(stream_id="x" * 256), stream_id="x" * 256)


async def test_the_33rd_name_is_refused_and_the_known_ones_go_on() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        names = [f"lane.{n}_-A" for n in range(32)]
        for name in names:
            check_run(await client.run(input=name, stream_id=name), stream_id=name)
        for _ in range(2):
            await client.create(stream_id="one-too-many")
            refused = await client.recv_error("one-too-many")
            assert (refused["status"], refused["error"]["code"]) == (400, "websocket_stream_limit_reached")
            assert refused["error"]["param"] == "stream_id"
        check_run(await client.run(), stream_id=None)
        check_run(await client.run(stream_id=names[0]), stream_id=names[0])


async def test_sixteen_turns_run_at_once_and_the_17th_begins_when_one_ends() -> None:
    held = Held()
    async with (
        StubUpstream(held) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        lanes = [f"l{n}" for n in range(17)]
        for lane in lanes:
            await client.create("stub-model", lane, stream_id=lane)
        await stub.request(15)
        for lane in lanes[:16]:
            await started(client, lane)
        assert (await client.command("antiphon:ping"))["type"] == "antiphon:pong"
        assert len(stub.requests) == 16
        assert "l16" not in {event.get("stream_id") for event in client.received}
        held.release()
        await started(client, "l16")
        await stub.request(16)
        held.release(16)
        for lane in lanes:
            end = await client.recv_until(lambda e: e["type"] == "response.completed", stream_id=lane)
            assert end[-1]["response"]["output"][0]["content"][0]["text"] == lane


async def test_a_lane_is_first_come_first_served_and_refusals_keep_their_place() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        slow = write_script(server.data_dir, "slow", [words(20, rate=100)])
        await client.create(slow, stream_id="a")
        await client.create(input="second", stream_id="a")
        await client.create("gpt-9", stream_id="a")
        await client.create(temperature=9, stream_id="a")
        await client.create(input="last", stream_id="a")
        check_run(await client.collect_run("a"))
        assert check_run(await client.collect_run("a")).text == "second"
        assert (await client.recv_error("a"))["error"]["code"] == "model_not_found"
        assert (await client.recv_error("a"))["error"]["param"] == "temperature"
        assert check_run(await client.collect_run("a")).text == "last"


async def test_a_thousand_refusals_behind_a_long_turn_hurt_nobody() -> None:
    held = Held()
    async with (
        StubUpstream(held) as stub,
        running_server(limits={"queued_per_connection": 1000}, **stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        await client.create("stub-model", "long")
        run_id = await started(client)
        for _ in range(1000):
            await client.create(5)  # type: ignore[arg-type]
        await client.create(input="one too many")
        overflow = await client.recv_until(lambda event: event["type"] == "error")
        assert (overflow[-1]["status"], overflow[-1]["error"]["code"]) == (429, "too_many_queued")
        held.release()
        await client.collect_run()
        errors = [(await client.recv_error())["error"]["code"] for _ in range(1000)]
        assert errors == ["invalid_request"] * 1000
        events = [event for event in client.received if event["type"] != "error"]
        assert check_run(events).response_id == run_id
        assert server.app.registry.get(run_id).state == "completed"
        assert (await client.run(input="on"))[-1]["type"] == "response.completed"


async def test_a_full_queue_refuses_the_next_create_at_once_and_loses_none() -> None:
    held = Held()
    async with (
        StubUpstream(held) as stub,
        running_server(limits={"queued_per_connection": 3}, **stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        await client.create("stub-model", "first", stream_id="a")
        await started(client, "a")
        for n in range(3):
            await client.create("stub-model", f"waits {n}", stream_id="a")
        await client.create("stub-model", "too many", stream_id="b")
        refused = await client.recv_error("b")
        assert (refused["status"], refused["error"]["code"]) == (429, "too_many_queued")
        held.release(4)
        await client.recv_until(lambda event: event["type"] == "response.completed", stream_id="a")
        texts = [check_run(await client.collect_run("a")).text for _ in range(3)]
        assert texts == ["waits 0", "waits 1", "waits 2"]


async def test_any_lane_continues_any_response() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        first = response_id(await client.run(stream_id="a", store=False))
        second = await client.run(stream_id="b", previous_response_id=first, store=False)
        check_run(await client.run(previous_response_id=response_id(second)), stream_id=None)


async def test_what_waits_is_gone_with_its_connection_and_what_runs_is_not() -> None:
    held = Held()
    async with StubUpstream(held) as stub, running_server(**stub_settings(stub)) as server:
        async with connected(server.ws_url) as client:
            await client.create("stub-model", "runs", stream_id="a")
            await client.create("stub-model", "waits", stream_id="a")
            running = await started(client, "a")
            await client.abort()
        async with connected(server.ws_url) as later:
            await later.hello()
            attached = await later.attach(running)
            held.release(2)
            frames = await later.collect_attachment(attached["stream_id"])
            assert check_run(e for e in frames if not e["type"].startswith("antiphon:")).text == "runs"
            try:
                await later.run("stub-model", "next")
            except Refused as refused:
                raise AssertionError("the next turn was refused") from refused
        assert [request.body["input"][-1]["content"] for request in stub.requests] == ["runs", "next"]


async def test_runs_that_wait_for_a_tool_do_not_count_as_running() -> None:
    async with running_server(limits={"running_per_connection": 1}) as server, connected(server.ws_url) as client:
        waiting = await hold(client, calling(server.data_dir, 1), stream_id="waits")
        await waits(server, waiting)
        check_run(await client.run(input="others run meanwhile", stream_id="other"), stream_id="other")
        await client.create("antiphon/script:slow", stream_id="third")
        await taken(client, waiting.id, output(waiting.call_ids[0]), stream_id="waits")
        assert (await client.collect_run(stream_id="waits"))[-1]["type"] == "response.completed"
        check_run(await client.collect_run(stream_id="third"), stream_id="third")
