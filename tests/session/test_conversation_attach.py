"""Attaching to a conversation: its runs come as they go on and begin, on lanes of their own (PROTOCOL 10.8)."""

from __future__ import annotations

import pytest

from tests.http.calling import create as create_over_http
from tests.http.calling import key_of
from tests.session.play import connected, log_bytes, numbered, response_id, started, until
from tests.session.speaking import BEFORE, INSIDE, WHOLE, Speaker
from tests.session.test_steer import speaking, steer
from tests.support.gap_checker import check_run
from tests.support.server import RunningServer, ServerProcess, running_server
from tests.support.ws_client import Event, WsClient


async def attach(client: WsClient, conversation_id: str) -> Event:
    """Attach to a conversation that has to be there; the reply."""
    reply = await client.command("antiphon:attach", conversation_id=conversation_id)
    assert reply["type"] == "antiphon:attached", reply.raw
    assert (reply["conversation_id"], "stream_id" in reply) == (conversation_id, False)
    return reply


class Pushes:
    """The `antiphon:run_attached` frames of a client, one after the other; what is on the lanes stays there."""

    def __init__(self, client: WsClient) -> None:
        self._client = client
        self._seen = 0

    async def next(self) -> Event:
        await until(lambda: len(self._all()) > self._seen, "the push of a run")
        self._seen += 1
        return self._all()[self._seen - 1]

    def _all(self) -> list[Event]:
        return [frame for frame in self._client.received if frame["type"] == "antiphon:run_attached"]


def conversation_of(server: RunningServer, run_id: str) -> str:
    return server.app.registry.get(run_id).conversation_id


async def test_live_runs_and_those_that_begin_later_come_whole_on_lanes_of_their_own() -> None:
    speaker = Speaker(INSIDE)
    async with speaking(speaker) as (server, owner), connected(server.ws_url) as other:
        await other.hello()
        await owner.create("stub-model", "first", stream_id="a")
        first = await started(owner, "a")
        conversation = conversation_of(server, first)
        pushes = Pushes(other)
        reply = await attach(other, conversation)
        assert [(state["response_id"], state["state"]) for state in reply["runs"]] == [(first, "running")]
        one = await pushes.next()
        assert (one["response_id"], one["mode"]) == (first, "replay")
        assert one["epoch"] == server.app.registry.get(first).epoch
        speaker.release()
        live = await owner.collect_run("a")
        frames = await other.collect_attachment(one["stream_id"])
        assert log_bytes(frames)[1:] == log_bytes(live)

        for lane in ("a", "fork"):
            await owner.create("stub-model", "next", stream_id=lane, previous_response_id=first)
        await owner.create("stub-model", "elsewhere", stream_id="b")
        runs = {await started(owner, "a"), await started(owner, "fork")}
        elsewhere = await started(owner, "b")
        come = [await pushes.next() for _ in range(2)]
        assert {event["response_id"] for event in come} == runs
        assert len({one["stream_id"], *(event["stream_id"] for event in come)}) == 3
        speaker.release(3)
        for event in come:
            check_run(numbered(await other.collect_attachment(event["stream_id"])))
        assert elsewhere not in {f.get("response_id") for f in other.received}


async def test_the_newest_run_that_ended_is_told_with_those_that_go_on() -> None:
    speaker = Speaker(WHOLE, INSIDE)
    async with speaking(speaker) as (server, client):
        await client.hello()
        ended = [response_id(await client.run("stub-model", "0"))]
        for n in (1, 2):
            previous = {"previous_response_id": ended[-1]}
            ended.append(response_id(await client.run("antiphon/echo", str(n), **previous)))
        conversation = conversation_of(server, ended[0])
        await client.create("stub-model", "on", previous_response_id=ended[-1])
        running = await started(client)
        pushes = Pushes(client)
        reply = await attach(client, conversation)
        assert [state["response_id"] for state in reply["runs"]] == [running, ended[-1]]
        assert [state["state"] for state in reply["runs"]] == ["running", "completed"]
        assert (await pushes.next())["response_id"] == running
        speaker.release()
        await client.collect_run()


@pytest.mark.parametrize("store", [True, False])
async def test_between_two_turns_the_conversation_is_known_by_its_last_run(store: bool) -> None:
    async with running_server() as server, connected(server.ws_url) as client, connected(server.ws_url) as other:
        await other.hello()
        first = response_id(await client.run(store=store))
        pushes = Pushes(other)
        reply = await attach(other, conversation_of(server, first))
        assert [state["response_id"] for state in reply["runs"]] == [first]
        second = response_id(await client.run(store=store, previous_response_id=first))
        assert (await pushes.next())["response_id"] == second


async def test_a_conversation_is_found_after_a_restart(tmp_path) -> None:  # type: ignore[no-untyped-def]
    async with ServerProcess(tmp_path) as server:
        async with connected(server.ws_url) as client:
            await client.hello()
            first = response_id(await client.run())
            conversation = (await client.attach(first))["state"]["conversation_id"]
        await server.kill()
        await server.start()
        async with connected(server.ws_url) as client:
            await client.hello()
            pushes = Pushes(client)
            reply = await attach(client, conversation)
            assert [state["response_id"] for state in reply["runs"]] == [first]
            await client.run(previous_response_id=first)
            assert (await pushes.next())["mode"] == "replay"


async def test_the_successor_of_a_steered_run_comes_once_on_the_lane_of_its_target() -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with speaking(speaker) as (server, owner), connected(server.ws_url) as other:
        await owner.hello()
        await other.hello()
        await owner.create("stub-model", "first")
        target = await started(owner)
        await until(lambda: bool(speaker.inputs), "the model call")
        pushes = Pushes(other)
        await attach(other, conversation_of(server, target))
        lane = (await pushes.next())["stream_id"]
        await steer(owner, target)
        first, second = [await other.collect_attachment(lane) for _ in range(2)]
        assert first[-1]["response_id"] == target
        assert second[0]["type"] == "antiphon:run_attached"
        check_run(numbered(second))
        await owner.run("stub-model", "next", previous_response_id=second[0]["response_id"])
        assert (await pushes.next())["response_id"] == second[0]["response_id"]
        third = await pushes.next()
        assert third["response_id"] not in (target, second[0]["response_id"])


async def test_detach_ends_what_came_with_the_conversation_and_nothing_else() -> None:
    speaker = Speaker(INSIDE)
    async with speaking(speaker) as (server, owner), connected(server.ws_url) as other:
        await other.hello()
        await owner.create("stub-model", "first", stream_id="a")
        first = await started(owner, "a")
        conversation = conversation_of(server, first)
        own = await other.attach(first, stream_id="own")
        await attach(other, conversation)
        await owner.create("antiphon/echo", "x", stream_id="b")
        await owner.collect_run("b")
        refused = await other.command("antiphon:detach", conversation_id="conv_other")
        assert refused["code"] == "not_attached"
        assert (await other.command("antiphon:detach", conversation_id=conversation))["type"] == "antiphon:ok"
        assert (await other.command("antiphon:detach", conversation_id=conversation))["code"] == "not_attached"
        speaker.release()
        await owner.collect_run("a")
        check_run(numbered(await other.collect_attachment(own["stream_id"])))
        await owner.run("antiphon/echo", previous_response_id=first, stream_id="a")
        assert (await other.command("antiphon:ping"))["type"] == "antiphon:pong"
        assert "antiphon:run_attached" not in {f["type"] for f in other.received}


async def test_runs_that_no_longer_fit_come_when_there_is_a_place() -> None:
    speaker = Speaker(INSIDE)
    limits = {"attachments_per_connection": 2}
    async with speaking(speaker, limits=limits) as (server, owner), connected(server.ws_url) as other:
        await other.hello()
        first = response_id(await owner.run("antiphon/echo"))
        conversation = conversation_of(server, first)
        pushes = Pushes(other)
        await attach(other, conversation)
        runs = []
        for n in range(3):
            await owner.create("stub-model", "x", stream_id=f"l{n}", previous_response_id=first)
            runs.append(await started(owner, f"l{n}"))
        come = [await pushes.next() for _ in range(2)]
        assert [event["response_id"] for event in come] == runs[:2]
        assert (await other.command("antiphon:attach", response_id=runs[2]))["code"] == "too_many_attachments"
        await other.command("antiphon:detach", response_id=runs[0])
        assert (await pushes.next())["response_id"] == runs[2]
        async with connected(server.ws_url) as late:
            await late.hello()
            refused = await late.command("antiphon:attach", conversation_id=conversation)
            assert refused["code"] == "too_many_attachments"
            assert (await late.command("antiphon:detach", conversation_id=conversation))["code"] == "not_attached"
        speaker.release(3)
        for n in range(3):
            await owner.collect_run(f"l{n}")


async def test_what_a_client_may_not_see_is_no_part_of_the_conversation() -> None:
    keys = (
        key_of("a1", name="a1", tenant="a"),
        key_of("a2", name="a2", tenant="a"),
        key_of("b1", name="b1", tenant="b", role="operator"),
    )
    tenants = ({"id": "a"}, {"id": "b"})
    async with (
        running_server(auth="required", key=keys, tenant=tenants) as server,
        connected(server.ws_url, api_key="a1") as owner,
        connected(server.ws_url, api_key="a2") as colleague,
        connected(server.ws_url, api_key="b1") as stranger,
    ):
        await colleague.hello()
        await stranger.hello()
        private = {"antiphon": {"visibility": "private"}}
        hidden = response_id(await owner.run(**private))
        shared = await create_over_http(server, "x", key="a1")
        for client, run_id in ((colleague, hidden), (stranger, hidden), (stranger, shared["id"])):
            refused = await client.command("antiphon:attach", conversation_id=conversation_of(server, run_id))
            unknown = await client.command("antiphon:attach", conversation_id="conv_unknown")
            assert refused["code"] == unknown["code"] == "conversation_not_found"
        pushes = Pushes(colleague)
        await attach(colleague, conversation_of(server, shared["id"]))
        await owner.run(previous_response_id=shared["id"], **private)
        visible = response_id(await owner.run(previous_response_id=shared["id"]))
        assert (await pushes.next())["response_id"] == visible


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"conversation_id": "conv_1", "response_id": "resp_1"},
        {"conversation_id": "conv_1", "after": 3},
        {"conversation_id": "conv_1", "stream_id": "a"},
        {"conversation_id": ""},
    ],
)
async def test_an_attach_names_a_run_or_a_conversation(fields: dict[str, object]) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.hello()
        assert (await client.command("antiphon:attach", **fields))["code"] == "invalid_command"
