"""Silence: a client's watchdog is fed by text frames, and by nothing else (PROTOCOL 7.1; field issue P-01)."""

from __future__ import annotations

from tests.session.play import attach_all, connected, log_bytes, numbered, stub_settings, words, write_script
from tests.support.gap_checker import check_run
from tests.support.http_client import read_sse
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, events_of_text
from tests.support.ws_client import TERMINALS, Event, WsClient

KEEPALIVE_S = 0.3
QUICK = {"keepalive_s": KEEPALIVE_S}
SILENCE = [words(1), {"delay_s": KEEPALIVE_S * 6}, words(1)]


async def with_watchdog(client: WsClient, lane: str | None, patience_s: float) -> list[Event]:
    """Read a run as clients do that drop a socket which says nothing for so long."""
    events = [await client.recv_on(lane, patience_s)]
    while events[-1]["type"] not in TERMINALS:
        events.append(await client.recv_on(lane, patience_s))
    return events


async def test_a_client_that_gives_up_after_three_silences_survives_six() -> None:
    async with running_server(timeouts=QUICK) as server:
        model = write_script(server.data_dir, "silent", SILENCE)
        async with connected(server.ws_url) as plain, connected(server.ws_url) as late:
            await plain.create(model)
            events = await with_watchdog(plain, None, KEEPALIVE_S * 3)
            checked = check_run(events)
            kept_alive = [event for event in events if event["type"] == "keepalive"]
            assert len(kept_alive) >= 3
            assert all(event.keys() == {"type", "sequence_number"} for event in kept_alive)
            assert checked.response_id
            await late.hello()
            assert log_bytes(await attach_all(late, checked.response_id)) == log_bytes(events)


async def test_a_keepalive_names_its_lane_and_comes_to_attachments_too() -> None:
    async with running_server(timeouts=QUICK) as server:
        model = write_script(server.data_dir, "silent", SILENCE)
        async with connected(server.ws_url) as owner, connected(server.ws_url) as watcher:
            await owner.create(model, stream_id="think")
            created = await owner.recv_on("think")
            await watcher.hello()
            attached = await watcher.attach(created["response"]["id"], stream_id="watch")
            own = [created, *await with_watchdog(owner, "think", KEEPALIVE_S * 3)]
            theirs = await watcher.collect_attachment("watch")
            assert attached["stream_id"] == "watch"
            for frames, lane in ((own, "think"), (theirs, "watch")):
                check_run(frames, stream_id=lane)
                assert [f["stream_id"] for f in frames if f["type"] == "keepalive"]
            assert log_bytes(own) == log_bytes(theirs)


async def test_a_lane_that_speaks_gets_no_keepalive_while_a_silent_one_does() -> None:
    async with running_server(timeouts={"keepalive_s": 0.6}) as server:
        chatty = write_script(server.data_dir, "chatty", [words(80, rate=40)])
        silent = write_script(server.data_dir, "silent", [words(1), {"delay_s": 2.0}, words(1)])
        async with connected(server.ws_url) as client:
            await client.create(chatty, stream_id="chatty")
            await client.create(silent, stream_id="silent")
            loud = await client.collect_run("chatty")
            quiet = await client.collect_run("silent")
            assert "keepalive" not in {event["type"] for event in loud}
            assert "keepalive" in {event["type"] for event in quiet}


async def test_an_idle_socket_is_not_spoken_to() -> None:
    async with running_server(timeouts=QUICK) as server:
        silent = write_script(server.data_dir, "silent", SILENCE)
        async with connected(server.ws_url) as idle, connected(server.ws_url) as busy:
            before = await idle.run(input="hello")
            await busy.run(silent)
            assert idle.received == before


async def test_a_silent_upstream_is_bridged_on_the_socket_and_in_sse() -> None:
    events = events_of_text(["one ", "two"])

    async def handler(request, conn):  # type: ignore[no-untyped-def]
        conn.head()
        for event in events[:4]:
            conn.sse(event)
        await release.request(0)
        for event in events[4:]:
            conn.sse(event)
        conn.end()

    async with (
        StubUpstream(handler) as stub,
        StubUpstream() as release,
        running_server(timeouts=QUICK, **stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        await client.create("stub-model")
        seen = await client.recv_until(lambda event: event["type"] == "keepalive")
        url = f"{server.url}/v1/responses/{seen[0]['response']['id']}?stream=true"
        again = await client.recv_until(lambda event: event["type"] == "keepalive")
        assert again[-1]["sequence_number"] == seen[-1]["sequence_number"] == numbered(seen)[-1]["sequence_number"]
        await read_sse("POST", f"{release.url}/responses", json={})
        rest = await client.collect_run()
        body = await read_sse("GET", url)
        assert [event.data for event in body.events] == log_bytes(seen + again + rest)
