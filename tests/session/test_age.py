"""A connection gets too old: announced, refused with its code, never in mid-turn (PROTOCOL 3.6.1; P-09)."""

from __future__ import annotations

import time

import pytest

from tests.session.play import (
    attach_all,
    connected,
    log_bytes,
    numbered,
    response_id,
    started,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.ws_client import Event, WsClient

AGE_S = 1.5
LONG = [words(30, rate=10)]
"""Three seconds: it outlives the age."""


async def until_refused(client: WsClient) -> None:
    """Send creates until one is refused for age; none before it may fail."""
    give_up_at = time.monotonic() + 60
    while True:
        assert time.monotonic() < give_up_at, "the connection never grows too old"
        await client.create(stream_id="probe")
        event = await client.recv_on("probe")
        if event["type"] == "error":
            assert (event["status"], event["error"]["code"]) == (400, "websocket_connection_limit_reached")
            return
        await client.recv_until(lambda e: e["type"] == "response.completed", stream_id="probe")


@pytest.mark.parametrize("hello", [False, True])
async def test_a_turn_that_runs_at_the_limit_is_finished_and_new_ones_are_refused(hello: bool) -> None:
    async with running_server(timeouts={"connection_age_s": AGE_S, "connection_grace_s": 20}) as server:
        model = write_script(server.data_dir, "long", LONG)
        async with connected(server.ws_url) as client:
            if hello:
                welcome = await client.hello()
                assert welcome["connection_expires_at"] > 0
            await client.create(model, stream_id="long")
            await client.create(input="waits", stream_id="long")
            await until_refused(client)
            before = len(server.app.registry)
            await client.create(input="late", stream_id="other")
            assert (await client.recv_error("other"))["error"]["code"] == "websocket_connection_limit_reached"
            waiting = await client.recv_until(lambda event: event["type"] == "error", stream_id="long")
            assert waiting[-1]["error"]["code"] == "websocket_connection_limit_reached"
            events = waiting[:-1] + await client.collect_run("long")
            assert await client.wait_closed() == (4004 if hello else 1012, "connection age")
            assert len(server.app.registry) == before
            goaways = [e for e in client.received if e["type"] == "antiphon:goaway"]
            assert [(e["reason"], e["deadline_ms"]) for e in goaways] == (
                [("connection_age", 20_000)] if hello else []
            )
        async with connected(server.ws_url) as fresh:
            await fresh.hello()
            assert log_bytes(await attach_all(fresh, response_id(events))) == log_bytes(events)
            check_run(events)


async def test_after_the_grace_the_socket_closes_and_the_run_goes_on() -> None:
    async with running_server(timeouts={"connection_age_s": 0.5, "connection_grace_s": 0.3}) as server:
        model = write_script(server.data_dir, "long", LONG)
        async with connected(server.ws_url) as client:
            await client.create(model)
            run_id = await started(client)
            assert (await client.wait_closed())[0] == 1012
            seen = list(client.received)
        rest = await attach_all_patiently(server.ws_url, run_id, len(seen))
        assert [event["sequence_number"] for event in [*seen, *rest]] == list(range(len(seen) + len(rest)))


async def attach_all_patiently(url: str, run_id: str, seen: int) -> list[Event]:
    """The rest of a run, over as many short-lived connections as it takes."""
    events: list[Event] = []
    while not events or events[-1]["type"] != "response.completed":
        async with connected(url) as client:
            await client.hello()
            attached = await client.attach(run_id, after=seen + len(events) - 1)
            lane = attached["stream_id"]
            await client.wait_closed()
            events += numbered(event for event in client.received if event.get("stream_id") == lane)
    return events


async def test_an_idle_connection_is_told_and_closed_with_a_frame() -> None:
    async with running_server(timeouts={"connection_age_s": 0.5}) as server:
        async with connected(server.ws_url) as plain, connected(server.ws_url) as extended:
            await extended.hello()
            assert await plain.wait_closed() == (1012, "connection age")
            assert await extended.wait_closed() == (4004, "connection age")
            assert [event["type"] for event in extended.received] == ["antiphon:welcome", "antiphon:goaway"]
            assert plain.received == []
