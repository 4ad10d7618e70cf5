"""Who is shown at a run: nobody who is gone without a word (field issue O-05), and nobody once it is over."""

from __future__ import annotations

from tests.feed.watching import watching
from tests.http.calling import get, http
from tests.session.held import calling, hold
from tests.session.test_half_open import PINGS, relay_to, through
from tests.support.server import running_server
from tests.support.ws_client import ws_client


async def test_a_client_that_fell_silent_leaves_the_row_of_its_run() -> None:
    async with running_server(timeouts=PINGS) as server, relay_to(server) as relay, watching(server) as watch:
        async with ws_client(server.ws_url) as owner, ws_client(through(relay)) as guest:
            await watch.subscribe()
            run = await hold(owner, calling(server.data_dir, 1))
            await guest.hello()
            await guest.attach(run.id)
            await watch.until(lambda seen: len(seen.rows[run.id]["participants"]) == 2)
            relay.blackhole()
            await watch.until(lambda seen: len(seen.rows[run.id]["participants"]) == 1)
            await guest.abort()


async def test_nobody_is_shown_at_a_run_that_is_over() -> None:
    async with running_server() as server, watching(server) as watch, ws_client(server.ws_url) as owner:
        await watch.subscribe()
        run = await hold(owner, calling(server.data_dir, 1))
        await watch.until(lambda seen: len(seen.rows[run.id]["participants"]) == 1)
        async with http(server) as client:
            await client.post(f"/v1/responses/{run.id}/cancel")
        await watch.until(lambda seen: seen.states.get(run.id) == "cancelled")
        assert watch.seen.rows[run.id]["participants"] == []
        assert (await get(server, f"/v1/runs/{run.id}")).json()["run"]["participants"] == []
        await owner.hello()
        assert (await owner.attach(run.id))["state"]["participants"] == []
