"""Lanes of attachments, and what hello'd clients are pushed (PROTOCOL 10.3, 10.5, 10.6, 10.7)."""

from __future__ import annotations

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
from tests.support.ws_client import WsClient

HELD = [words(3), {"delay_s": 30}]


async def end(client: WsClient, run_id: str) -> None:
    reply = await client.command("antiphon:cancel", response_id=run_id)
    assert reply["result"] == "accepted"


async def test_a_lane_is_picked_or_chosen_and_is_free_again_after_the_end() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        model = write_script(server.data_dir, "held", HELD)
        await client.create(model, stream_id="own")
        held = await started(client, "own")
        done = response_id(await client.run(input="x"))
        assert (await client.attach(done))["stream_id"] == "att.1"
        await client.collect_attachment("att.1")
        assert (await client.attach(held, stream_id="mine"))["stream_id"] == "mine"
        for lane in ("mine", "own"):
            refused = await client.command("antiphon:attach", response_id=done, stream_id=lane)
            assert (refused["code"], refused["param"]) == ("lane_in_use", "stream_id")
        await client.create(input="x", stream_id="mine")
        frames = await client.recv_until(lambda event: event["type"] == "error", stream_id="mine")
        assert (frames[-1]["status"], frames[-1]["error"]["code"]) == (400, "lane_in_use")
        await end(client, held)
        await client.collect_attachment("mine")
        assert (await client.attach(done, stream_id="mine"))["stream_id"] == "mine"
        await client.collect_attachment("mine")
        check_run(await client.run(stream_id="mine"), stream_id="mine")


async def test_picked_names_step_over_lanes_in_use() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        done = response_id(await client.run(stream_id="att.1"))
        attached = await client.attach(done)
        assert attached["stream_id"] == "att.2"


async def test_attaching_again_moves_the_cursor_and_keeps_the_lane() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as client:
        await client.hello()
        model = write_script(server.data_dir, "held", HELD)
        await owner.create(model)
        run_id = response_id(await owner.recv_until(lambda e: e.get("delta") == "w2 "))
        lane = (await client.attach(run_id))["stream_id"]
        await client.recv_until(lambda e: e["type"] == "antiphon:caught_up", stream_id=lane)
        again = await client.attach(run_id, after=2)
        assert again["stream_id"] == lane
        replay = numbered(await client.recv_until(lambda e: e["type"] == "antiphon:caught_up", stream_id=lane))
        assert [event["sequence_number"] for event in replay] == [3, 4, 5, 6]
        moved = await client.attach(run_id, after="now", stream_id="elsewhere")
        assert (moved["stream_id"], moved["mode"]) == ("elsewhere", "live")
        await end(client, run_id)
        rest = numbered(await client.collect_attachment("elsewhere"))
        assert rest[0]["sequence_number"] == moved["head"] + 1
        assert not [f for f in client.received[-len(rest) :] if f.get("stream_id") == lane]


async def test_nothing_of_an_attachment_comes_after_the_reply_to_detach() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as client:
        await client.hello()
        model = write_script(server.data_dir, "fast", [words(300, rate=300)])
        await owner.create(model)
        run_id = await started(owner)
        lane = (await client.attach(run_id))["stream_id"]
        await client.recv_until(lambda e: e.get("delta") == "w20 ", stream_id=lane)
        reply = await client.command("antiphon:detach", response_id=run_id)
        assert reply.keys() == {"type", "id"}
        await owner.recv_until(lambda e: e["type"] == "response.completed")
        assert (await client.command("antiphon:ping"))["type"] == "antiphon:pong"
        after = client.received[client.received.index(reply) + 1 :]
        assert {event["type"] for event in after} <= {"antiphon:pong", "antiphon:run"}
        assert len(after) <= 2
        assert (await client.command("antiphon:detach", response_id=run_id))["code"] == "not_attached"


async def test_attachments_have_a_limit_of_their_own_and_count_as_nothing_else() -> None:
    limits = {"attachments_per_connection": 3, "named_lanes": 1, "running_per_connection": 1}
    async with running_server(limits=limits) as server, connected(server.ws_url) as client:
        async with connected(server.ws_url) as owner:
            model = write_script(server.data_dir, "held", HELD)
            ids = []
            for _ in range(4):
                async with connected(server.ws_url) as short:
                    await short.create(model)
                    ids.append(await started(short))
            await client.hello()
            for run_id in ids[:3]:
                await client.attach(run_id)
            refused = await client.command("antiphon:attach", response_id=ids[3])
            assert refused["code"] == "too_many_attachments"
            assert (await client.attach(ids[0], after="now"))["mode"] == "live"
            check_run(await client.run(stream_id="named"), stream_id="named")
            await client.command("antiphon:detach", response_id=ids[1])
            assert (await client.attach(ids[3]))["type"] == "antiphon:attached"
            await owner.hello()
            for run_id in ids:
                await end(owner, run_id)


async def test_a_connection_may_attach_to_its_own_turn() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        model = write_script(server.data_dir, "paced", [words(20, rate=50)])
        await client.create(model, stream_id="own")
        created = await client.recv_on("own")
        copy = await attach_all(client, created["response"]["id"])
        live = [created, *await client.collect_run("own")]
        assert log_bytes(copy) == log_bytes(live)
        assert check_run(copy).text == check_run(live).text


async def test_pushed_states_rise_and_end_with_the_truth() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as client:
        await owner.hello()
        await client.hello()
        steps = [words(10, rate=50), {"call": {"name": "f"}}]
        model = write_script(server.data_dir, "calls", steps)
        tools = [{"type": "function", "name": "f", "parameters": {}}]
        await owner.create(model, tools=tools, antiphon={"labels": {"app": "shop"}}, stream_id="own")
        run_id = await started(owner, "own")
        attached = await client.attach(run_id)
        events = numbered(await client.collect_attachment(attached["stream_id"]))
        await owner.collect_run("own")
        for watcher in (owner, client):
            await watcher.command("antiphon:ping")
            states = [e["state"] for e in watcher.received if e["type"] == "antiphon:run"]
            revisions = [state["revision"] for state in states]
            assert revisions == sorted(set(revisions)), "revisions rise"
            assert {state["response_id"] for state in states} == {run_id}
            last = states[-1]
            assert (last["state"], last["terminal"]["status"]) == ("completed", "completed")
            assert last["open_calls"] == [events[-1]["response"]["output"][1]["call_id"]]
            assert (last["head"], last["labels"]) == (events[-1]["sequence_number"], {"app": "shop"})
            assert last["expires_at"] - last["updated_at"] > 86_000
        late = (await client.attach(run_id))["state"]
        assert late["revision"] >= last["revision"]
        changing = {"revision": 0, "updated_at": 0}
        assert late | changing == last | changing
