"""A cursor older than what is kept: said aloud, with a snapshot (PROTOCOL 6.4, 10.4; field issue R-03)."""

from __future__ import annotations

import httpx2
import pytest

from tests.session.play import attach_all, connected, numbered, response_id, started, text_of, words, write_script
from tests.support.http_client import read_sse
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import Event, WsClient, ws_client

SMALL = {"memory_run_bytes": 20_000}
"""About a hundred deltas."""


async def long_unstored(server: RunningServer, owner: WsClient) -> tuple[str, list[Event]]:
    """Begin a run whose first events fall out of memory while it goes on; gives what its owner saw so far."""
    model = write_script(server.data_dir, "long", [words(300), {"delay_s": 1.5}, words(20, rate=50)])
    await owner.create(model, store=False)
    seen = await owner.recv_until(lambda event: event.get("delta") == "w299 ")
    return response_id(seen), seen


async def test_a_gap_is_announced_and_the_snapshot_makes_the_reader_whole() -> None:
    async with (
        running_server(journal=SMALL) as server,
        connected(server.ws_url) as owner,
        connected(server.ws_url) as late,
    ):
        run_id, seen = await long_unstored(server, owner)
        await late.hello()
        attached = await late.attach(run_id, after=10)
        assert (attached["mode"], attached["recovered"], attached["reason"]) == (
            "snapshot",
            False,
            "cursor_expired",
        )
        rest = numbered(await late.collect_attachment(attached["stream_id"]))
        seen += await owner.collect_run()
        numbers = [event["sequence_number"] for event in rest]
        assert numbers == list(range(attached["head"] + 1, seen[-1]["sequence_number"] + 1))
        (message,) = attached["response"]["output"]
        assert message["content"][0]["text"] + text_of(rest) == text_of(seen)
        assert message["id"] == seen[-1]["response"]["output"][0]["id"]
        for after in ("start", 0):
            assert (await late.attach(run_id, after=after))["mode"] == "snapshot"
        recent = seen[-20]["sequence_number"]
        attached = await late.attach(run_id, after=recent)
        assert (attached["mode"], attached["recovered"]) == ("replay", True)


async def test_http_says_410_with_the_response_as_it_stands() -> None:
    async with running_server(journal=SMALL) as server, connected(server.ws_url) as owner:
        run_id, seen = await long_unstored(server, owner)
        url = f"{server.url}/v1/responses/{run_id}"
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            gone = await http.get(url, params={"stream": "true", "starting_after": "10"})
            assert gone.status_code == 410
            error = gone.json()["error"]
            assert (error["code"], error["head"]) == ("cursor_expired", seen[-1]["sequence_number"])
            assert error["epoch"]
            assert gone.json()["response"]["output"][0]["content"][0]["text"] == text_of(seen)
            assert (await http.get(url)).status_code == 404
        body = await read_sse("GET", f"{url}?stream=true&starting_after={seen[-1]['sequence_number']}")
        assert body.done
        rest = await owner.collect_run()
        assert [event.json()["sequence_number"] for event in body.events] == [e["sequence_number"] for e in rest]


FLOOD = [words(200_000, text="x" * 100), {"delay_s": 30}]
BEHIND = 60_000
"""Events, about 16 MB: more than the kernel takes for a reader that has stopped."""


@pytest.mark.parametrize("hello", [False, True])
async def test_a_turn_whose_reader_fell_out_of_the_log_ends_its_connection_as_too_slow(hello: bool) -> None:
    async with running_server(journal=SMALL, limits={"outbox_bytes": 16_384}) as server:
        model = write_script(server.data_dir, "flood", FLOOD)
        async with ws_client(server.ws_url, max_queue=1) as slow, ws_client(server.ws_url) as other:
            if hello:
                await slow.hello()
            await slow.create(model, store=False)
            run_id = await started(slow)
            slow.stop_reading()
            await other.hello()
            attached = await other.attach(run_id, after="now")
            await other.recv_until(
                lambda e: e.get("sequence_number", 0) >= BEHIND, stream_id=attached["stream_id"], wait_s=30
            )
            await other.command("antiphon:cancel", response_id=run_id)
            slow.resume_reading()
            assert (await slow.wait_closed(20))[0] == (4001 if hello else 1013)
            numbers = [event["sequence_number"] for event in numbered(slow.received)]
            assert numbers == list(range(len(numbers)))


async def test_an_attachment_that_fell_out_of_the_log_is_told_and_the_socket_stays() -> None:
    async with running_server(journal=SMALL, limits={"outbox_bytes": 16_384}) as server:
        model = write_script(server.data_dir, "flood", FLOOD)
        async with ws_client(server.ws_url) as owner, ws_client(server.ws_url, max_queue=1) as slow:
            await slow.hello()
            await owner.create(model, store=False)
            run_id = await started(owner)
            attached = await slow.attach(run_id, after="now")
            slow.stop_reading()
            await owner.recv_until(lambda event: event["sequence_number"] >= BEHIND, wait_s=30)
            slow.resume_reading()
            frames = await slow.collect_attachment(attached["stream_id"], 30)
            assert frames[-1]["reason"] == "cursor_expired"
            numbers = [event["sequence_number"] for event in numbered(frames)]
            assert numbers == list(range(attached["head"] + 1, attached["head"] + 1 + len(numbers)))
            again = await slow.attach(run_id, after=numbers[-1])
            assert again["mode"] == "snapshot"
            await slow.command("antiphon:cancel", response_id=run_id)


async def test_a_stored_log_past_its_retention_gives_the_ended_response() -> None:
    async with running_server(journal={"retention_s": 0}) as server, connected(server.ws_url) as client:
        await client.hello()
        events = await client.run(input="old", idempotency_key="k")
        await server.app.engine.janitor.clean()
        attached = await client.attach(response_id(events))
        assert (attached["mode"], attached["response"]) == ("snapshot", events[-1]["response"])
        assert numbered(await client.collect_attachment(attached["stream_id"])) == []
        at_head = await client.attach(response_id(events), after=events[-1]["sequence_number"])
        assert (at_head["mode"], at_head["recovered"]) == ("ended", True)
        fresh = await client.run(input="old", idempotency_key="k")
        assert response_id(fresh) != response_id(events)
        assert (await attach_all(client, response_id(fresh)))[-1]["type"] == "response.completed"
