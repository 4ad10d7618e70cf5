"""Ends that are hard to tell: a node that dies with its terminal decided, or that is stopped without the bus; runs
whose log is lost."""

from __future__ import annotations

import json
import time

import pytest

from tests.cluster.answering import until_taken
from tests.session.held import calling, hold, output
from tests.session.play import response_id, words, write_script
from tests.support.cluster import cluster, process_cluster, waits_durably
from tests.support.postgres import execute
from tests.support.ws_client import ws_client

LEASE_S = 1.0
_DECIDE = """
UPDATE responses SET status = 'completed', ended_at = extract(epoch from now()), response = %s, run_state = %s,
    terminal_event = %s, terminal_number = %s, http_status = 200, open_calls = %s WHERE id = %s
"""


def decide(url: str, run_id: str, number: int) -> bytes:
    """What a node does last before it dies: the terminal is in the row and not in the log. Its bytes."""
    response = {"id": run_id, "object": "response", "status": "completed", "output": []}
    terminal = json.dumps({"type": "response.completed", "sequence_number": number, "response": response}).encode()
    ((state,),) = execute(url, "SELECT run_state FROM responses WHERE id = %s", run_id)
    row = json.loads(bytes(state))
    row |= {"state": "completed", "revision": row["revision"] + 5, "head": number}
    execute(
        url,
        _DECIDE,
        json.dumps(response).encode(),
        json.dumps(row).encode(),
        terminal,
        number,
        b"[]",
        run_id,
    )
    return terminal


async def test_a_terminal_that_was_decided_is_shown_to_who_follows_on_the_node_that_adopts(
    postgres_url: str,
) -> None:
    async with process_cluster(postgres_url, lease_s=LEASE_S) as c:
        model = write_script(c.folder, "endless", [words(3), {"delay_s": 600}])
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as far:
            await far.hello()
            await owner.create(model)
            seen = await owner.recv_until(lambda event: event.get("delta") == "w2 ")
            run_id, head = response_id(seen), seen[-1]["sequence_number"]
            lane = (await far.attach(run_id, after="start"))["stream_id"]
            await far.recv_until(lambda event: event.get("sequence_number") == head, stream_id=lane)
            await c.a.kill()
            decide(postgres_url, run_id, head + 1)
            events = await far.recv_until(lambda event: event["type"] == "antiphon:detached", stream_id=lane)
        logged = [event for event in events if "sequence_number" in event]
        assert (logged[-1]["type"], logged[-1]["sequence_number"]) == ("response.completed", head + 1)
        assert events[-1]["reason"] == "ended"


async def test_who_follows_a_run_is_told_of_its_new_epoch_before_the_end_that_is_in_it(postgres_url: str) -> None:
    async with process_cluster(postgres_url, lease_s=LEASE_S) as c:
        model = write_script(c.folder, "talking", [words(60, rate=50), {"delay_s": 600}])
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as far:
            await far.hello()
            await owner.create(model)
            run_id = response_id(await owner.recv_until(lambda event: event.get("delta") == "w9 "))
            attached = await far.attach(run_id, after="start")
            await c.a.kill()
            epoch = attached["epoch"]
            while (event := await far.recv(wait_s=40))["type"] != "response.failed":
                if event["type"] == "antiphon:run":
                    epoch = event["state"]["epoch"]
        assert epoch != attached["epoch"], "told before the event of the new epoch"


async def test_a_waiting_run_whose_key_is_lost_goes_on_at_the_other_node_within_two_leases(
    postgres_url: str,
) -> None:
    async with cluster(postgres_url, lease_s=LEASE_S) as c:
        model = calling(c.folder, 1)
        async with ws_client(c.a.ws_url) as owner, ws_client(c.b.ws_url) as far:
            await far.hello()
            run = await hold(owner, model)
            await waits_durably(c.redis, run.id)
            c.redis.command("DEL", f"antiphon:v1:run:{{{run.id}}}:meta")
            began = time.monotonic()
            await until_taken(far, run.id, output(run.call_ids[0]))
            assert time.monotonic() - began < 15 * LEASE_S
            events = run.events + await owner.collect_run()
        assert events[-1]["type"] == "response.completed"


@pytest.mark.parametrize("store", [True, False], ids=["stored", "unstored"])
async def test_a_node_that_is_stopped_while_redis_is_away_ends_soon(postgres_url: str, store: bool) -> None:
    async with process_cluster(postgres_url, lease_s=LEASE_S) as c:
        model = write_script(c.folder, "endless", [words(3), {"delay_s": 600}])
        async with ws_client(c.a.ws_url) as owner:
            await owner.create(model, store=store)
            await owner.recv_until(lambda event: event.get("delta") == "w2 ")
            c.redis.kill()
            began = time.monotonic()
            assert await c.a.stop() == 0
            assert time.monotonic() - began < 45
