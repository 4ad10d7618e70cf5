"""Sockets that die, stall or ask for what is not theirs, on a node that does not have the run.

Field issues R-11, M-06, B-01, C-05, A-07; PROTOCOL 3.5, 8.4, 8.5, 10.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cluster.links import in_front_of, through
from tests.elsewhere.two_nodes import AUTH, participants, two_nodes
from tests.http.calling import UNKNOWN_ID, http
from tests.session.held import calling, hold, output, refused, taken
from tests.session.play import (
    connected,
    log_bytes,
    numbered,
    response_id,
    started,
    stub_settings,
    until,
    words,
    write_script,
)
from tests.session.speaking import INSIDE, Speaker
from tests.support.cluster import cluster
from tests.support.follower import read_whole
from tests.support.relay import BOTH
from tests.support.stub_upstream import StubUpstream
from tests.support.ws_client import WsClient, ws_client

PINGS = {"ping_interval_s": 0.5, "ping_timeout_s": 0.5}


@pytest.mark.parametrize("first_on", ["owner", "other"])
async def test_a_half_open_socket_on_one_node_and_its_successor_on_the_other_do_not_disturb_each_other(
    postgres_url: str, first_on: str
) -> None:
    """R-11: both live for a moment; the late cleanup removes only the old one, and the call is still owned."""
    async with two_nodes(postgres_url, timeouts=PINGS) as nodes, connected(nodes.here.ws_url) as creator:
        run = await hold(creator, calling(nodes.folder, 1, 1))
        near, far = nodes.cluster.nodes if first_on == "owner" else reversed(nodes.cluster.nodes)
        async with in_front_of(near) as relay, ws_client(through(relay)) as old, connected(far.ws_url) as new:
            await _attached(old, run.id)
            fence = (await old.command("antiphon:claim", response_id=run.id, call_id=run.call_ids[0])).get("fence")
            relay.blackhole(BOTH)
            lane = await _attached(new, run.id)
            await until(lambda: len(participants(nodes.here, run.id)) == 3, "both sockets being there")
            await until(lambda: len(participants(nodes.here, run.id)) == 2, "the end of the old one")
            if fence is not None:
                again = await new.command("antiphon:claim", response_id=run.id, call_id=run.call_ids[0])
                assert again["fence"] == fence, "the claim is its instance's"
            await taken(new, run.id, output(run.call_ids[0]), stream_id=lane)
            frames = await new.recv_until(
                lambda e: e["type"] == "response.output_item.done" and e["item"]["type"] == "function_call",
                stream_id=lane,
            )
            await taken(new, run.id, output(frames[-1]["item"]["call_id"]), stream_id=lane)
            await new.collect_run(lane)
            relay.restore()


async def _attached(client: WsClient, run_id: str) -> str:
    await client.hello(client={"name": "test", "instance_id": "tab"}, tools=[{"name": "look"}])
    return str((await client.attach(run_id, after="now"))["stream_id"])


async def test_a_creator_that_is_reset_neither_stops_nor_stalls_the_run_for_who_follows_elsewhere(
    postgres_url: str,
) -> None:
    """M-06: the run is the server's; nobody has to read it."""
    async with cluster(postgres_url) as c, in_front_of(c.a) as relay, connected(c.b.ws_url) as other:
        model = write_script(c.folder, "paced", [words(100, rate=100)])
        await other.hello()
        async with ws_client(through(relay)) as owner:
            await owner.create(model)
            run_id = await started(owner)
            lane = (await other.attach(run_id))["stream_id"]
            await other.recv_until(lambda e: e.get("delta") == "w10 ", stream_id=lane)
            relay.reset()
            frames = await other.collect_attachment(lane)
        assert frames[-2]["response"]["status"] == "completed"
        assert len(numbered(other.received)) == len(await read_whole(c.a.ws_url, run_id))


async def test_a_reader_on_another_node_that_stalls_is_closed_in_time_and_misses_nothing(
    postgres_url: str,
) -> None:
    """B-01: what it does not take costs its node no memory, and costs the run and its other readers nothing."""
    limits = {"outbox_bytes": 65_536}
    settings: dict[str, Any] = {"timeouts": {"stalled_socket_s": 2.0}, "journal": {"tail_bytes": 100_000}}
    async with cluster(postgres_url, limits=limits, lease_s=10.0, **settings) as c:
        model = write_script(c.folder, "flood", [words(300, text="x" * 30_000)])
        async with (
            ws_client(c.a.ws_url) as owner,
            ws_client(c.b.ws_url, max_queue=1) as stalled,
            ws_client(c.b.ws_url) as reader,
        ):
            await owner.create(model)
            run_id = await started(owner)
            for client in (stalled, reader):
                await client.hello()
            await stalled.attach(run_id)
            stalled.stop_reading()
            lane = (await reader.attach(run_id))["stream_id"]
            live = numbered(await reader.collect_attachment(lane, 30))
            await until(lambda: len(c.b.app.hub) == 1, "the end of the stalled socket")
            stalled.resume_reading()
            assert (await stalled.wait_closed())[0] in (4001, 1006)
            assert log_bytes(stalled.received) == log_bytes(live)[: len(log_bytes(stalled.received))]
        assert await read_whole(c.b.ws_url, run_id) == log_bytes(live)


@pytest.mark.parametrize("way", ["socket", "http"])
async def test_a_cancel_from_another_node_closes_the_connection_to_the_model(postgres_url: str, way: str) -> None:
    """C-05: within a second, though the owner is another node."""
    async with (
        StubUpstream(Speaker(INSIDE)) as stub,
        two_nodes(postgres_url, **stub_settings(stub)) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        await owner.create("stub-model", "talk")
        seen = await owner.recv_until(lambda e: e["type"] == "response.output_text.delta")
        request = await stub.request(0)
        began = time.monotonic()
        if way == "socket":
            await other.hello()
            await other.command("antiphon:cancel", response_id=response_id(seen))
        else:
            async with http(nodes.there) as client:
                await client.post(f"/v1/responses/{response_id(seen)}/cancel")
        assert await request.closed - began < 1.0 + 4.0  # the machine may be busy
        assert (await owner.collect_run())[-1]["response"]["status"] == "cancelled"


async def test_ids_of_another_tenant_are_as_good_as_none_on_every_node_for_every_verb(postgres_url: str) -> None:
    """A-07: the same answer as for an id that nobody has."""
    async with two_nodes(postgres_url, **AUTH) as nodes, connected(nodes.here.ws_url, api_key="anna") as anna:
        run = await hold(anna, calling(nodes.folder, 1))
        for server in (nodes.here, nodes.there):
            async with connected(server.ws_url, api_key="foreign") as thief, http(server, "foreign") as client:
                await thief.hello(tools=[{"name": "look"}])
                for true, unknown in zip(
                    await _everything(thief, client, run.id, run.call_ids[0]),
                    await _everything(thief, client, UNKNOWN_ID, "call_" + "0" * 32),
                    strict=True,
                ):
                    assert true == unknown
        await taken(anna, run.id, output(run.call_ids[0]))
        assert (await anna.collect_run())[-1]["response"]["status"] == "completed"


async def _everything(thief: WsClient, client: Any, run_id: str, call_id: str) -> list[tuple[str, Any]]:
    """What each verb answers to this id."""
    said: list[tuple[str, Any]] = []
    verbs: dict[str, dict[str, Any]] = {
        "attach": {},
        "cancel": {},
        "claim": {"call_id": call_id},
        "presence": {"state": "typing"},
    }
    for kind, fields in verbs.items():
        reply = await thief.command(f"antiphon:{kind}", response_id=run_id, **fields)
        said.append((kind, reply["code"]))
    said.append(("inject", (await refused(thief, run_id, output(call_id)))["code"]))
    await thief.create(previous_response_id=run_id)
    said.append(("create", (await thief.recv_error())["error"]["code"]))
    for method, path in (
        ("GET", ""),
        ("GET", "?stream=true"),
        ("DELETE", ""),
        ("POST", "/cancel"),
        ("GET", "/input_items"),
    ):
        answer = await client.request(method, f"/v1/responses/{run_id}{path}")
        said.append((f"{method} {path}", (answer.status_code, answer.json()["error"]["code"])))
    return said
