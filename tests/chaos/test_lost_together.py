"""Redis comes back empty and the owner is dead: nobody has the log any more, and every run ends for everybody."""

from __future__ import annotations

import pytest

from tests.session.held import calling, hold
from tests.session.play import response_id, words, write_script
from tests.support.cluster import process_cluster, waits_durably
from tests.support.ws_client import ws_client

pytestmark = pytest.mark.chaos

WITHIN_S = 60.0


async def test_the_followers_of_runs_that_nobody_has_are_told_the_end(postgres_url: str) -> None:
    async with process_cluster(postgres_url, lease_s=1.0) as c:
        talking = write_script(c.folder, "talking", [words(2000, rate=20)])
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as far:
            await far.hello()
            held = await hold(owner, calling(c.folder, 1), stream_id="held")
            await waits_durably(c.redis, held.id)
            ids = [held.id]
            for lane, store in (("stored", True), ("unstored", False)):
                await owner.create(talking, stream_id=lane, store=store)
                seen = await owner.recv_until(lambda event: event.get("delta") == "w9 ", stream_id=lane)
                ids.append(response_id(seen))
            lanes = {run_id: (await far.attach(run_id, after="now"))["stream_id"] for run_id in ids}
            c.redis.command("FLUSHALL")
            await c.a.kill()
            for run_id, lane in lanes.items():
                events = await far.recv_until(
                    lambda event: event["type"] == "antiphon:detached", stream_id=lane, wait_s=WITHIN_S
                )
                assert events[-1]["response_id"] == run_id
            for run_id in ids[:2]:
                stored = await far.attach(run_id, after="start")
                assert stored["state"]["state"] in ("failed", "completed")
