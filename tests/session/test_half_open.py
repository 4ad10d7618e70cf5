"""Sockets that are dead and do not say so (R-11, B-07; PROTOCOL 3.5, 8.5)."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.session.play import (
    connected,
    log_bytes,
    numbered,
    reference,
    response_id,
    started,
    until,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.relay import UP, Relay
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

PINGS = {"ping_interval_s": 0.4, "ping_timeout_s": 0.4}


def relay_to(server: RunningServer) -> Relay:
    return Relay("127.0.0.1", urlsplit(server.url).port or 0)


def through(relay: Relay) -> str:
    return f"ws://127.0.0.1:{relay.port}/v1/responses"


async def test_a_blackholed_socket_and_its_successor_do_not_disturb_each_other() -> None:
    async with running_server(timeouts=PINGS) as server, relay_to(server) as relay:
        model = write_script(server.data_dir, "paced", [words(150, rate=50)])
        async with ws_client(through(relay)) as first, connected(server.ws_url) as second:
            await first.create(model, antiphon={"on_disconnect": 0.2})
            seen = await first.recv_until(lambda event: event.get("delta") == "w10 ")
            relay.blackhole()
            await second.hello()
            run_id, last = response_id(seen), first.received[-1]["sequence_number"]
            attached = await second.attach(run_id, after=last)
            assert attached["mode"] in ("replay", "live")
            assert len(server.app.hub) == 2
            await until(lambda: len(server.app.hub) == 1, "the end of the dead socket", 5)
            frames = numbered(await second.collect_attachment(attached["stream_id"]))
            whole = log_bytes(await reference(server.ws_url, run_id))
            assert log_bytes(first.received[: last + 1]) + log_bytes(frames) == whole
            assert frames[-1]["response"]["status"] == "completed"
            relay.restore()


async def test_a_reset_and_a_fin_are_noticed_at_once() -> None:
    async with running_server() as server, relay_to(server) as relay:
        model = write_script(server.data_dir, "held", [words(1), {"delay_s": 30}])
        for leave in (relay.reset, lambda: relay.half_close(UP)):
            async with ws_client(through(relay)) as client, connected(server.ws_url) as other:
                await client.create(model, antiphon={"on_disconnect": 0})
                run_id = await started(client)
                await other.hello()
                await until(lambda: len(server.app.hub) == 2, "both connections")
                leave()
                await until(lambda: len(server.app.hub) == 1, "the end of the lost socket", 2)
                attached = await other.attach(run_id)
                frames = numbered(await other.collect_attachment(attached["stream_id"]))
                assert check_run(frames).terminal["status"] == "cancelled"  # type: ignore[index]


async def test_a_blackhole_with_unsent_bytes_is_noticed_after_the_ping_timeout_not_by_tcp() -> None:
    timeouts = {**PINGS, "stalled_socket_s": 30}
    async with (
        running_server(timeouts=timeouts, limits={"outbox_bytes": 65_536}) as server,
        relay_to(server) as relay,
    ):
        model = write_script(server.data_dir, "flood", [words(60_000, text="x" * 300), {"delay_s": 60}])
        # Nobody else listens here: a client that has to take 18 MB in this loop may miss a ping itself.
        async with ws_client(through(relay)) as client:
            await client.create(model, antiphon={"on_disconnect": 0})
            run_id = await started(client)
            relay.blackhole()
            await until(lambda: len(server.app.hub) == 0, "the end of the dead socket", 5)
            await until(lambda: server.app.registry.get(run_id).state == "cancelled", "the end of its run")
            relay.restore()


async def test_a_client_that_only_answers_pings_is_never_dropped() -> None:
    async with running_server(timeouts={"ping_interval_s": 0.1, "ping_timeout_s": 2.0}) as server:
        model = write_script(server.data_dir, "quiet", [words(1), {"delay_s": 2.0}, words(1)])
        async with connected(server.ws_url) as idle, connected(server.ws_url) as busy:
            check_run(await busy.run(model))
            check_run(await idle.run())
            assert len(server.app.hub) == 2


async def test_a_client_that_answers_no_ping_is_closed_with_1011() -> None:
    async with running_server(timeouts=PINGS) as server, relay_to(server) as relay:
        async with ws_client(through(relay)) as client:
            await client.run()
            relay.blackhole([UP])
            assert (await client.wait_closed())[0] == 1011
            relay.restore()
