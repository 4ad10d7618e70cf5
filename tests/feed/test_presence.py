"""A client that is gone without a word is not shown for long (field issue O-05)."""

from __future__ import annotations

from tests.feed.watching import watching
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
