"""Steering by clients that did not start the run, and who follows the successor (PROTOCOL 7.3, 10.3.8)."""

from __future__ import annotations

import pytest

from tests.http.calling import begin, key_of
from tests.session.play import connected, log_bytes, numbered, response_id, started, until
from tests.session.speaking import AFTER, BEFORE, INSIDE, WHOLE, Speaker
from tests.session.test_steer import TWO_CALLS, answer, calling, code_of, speaking, steer, turn
from tests.support.gap_checker import check_run
from tests.support.ws_client import TERMINALS, Event, WsClient

KEYS = (
    key_of("a1", name="a1", tenant="a"),
    key_of("a2", name="a2", tenant="a"),
    key_of("watch", name="watch", tenant="a", role="viewer"),
    key_of("b1", name="b1", tenant="b", role="operator"),
)
TENANTS = {"auth": "required", "key": KEYS, "tenant": ({"id": "a"}, {"id": "b"})}


async def begun(client: WsClient, lane: str | None = None, **fields: object) -> list[Event]:
    """Start a run and read until its first words."""
    await client.create("stub-model", "first", **({"stream_id": lane} if lane else {}), **fields)
    return await client.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id=lane)


async def attached_frames(client: WsClient, lane: str) -> list[Event]:
    """Everything on the lane of an attachment until the second `antiphon:detached`."""
    frames = await client.collect_attachment(lane)
    return frames + await client.collect_attachment(lane)


async def test_a_plain_clients_run_is_steered_by_nobody_else() -> None:
    speaker = Speaker(INSIDE)
    async with speaking(speaker) as (server, owner), connected(server.ws_url) as other:
        seen = await begun(owner)
        await other.hello()
        assert code_of(await steer(other, response_id(seen))) == "steering_not_supported"
        assert (await steer(owner, response_id(seen)))["type"] == "response.steer.accepted"
        speaker.release()
        await owner.collect_run()


@pytest.mark.parametrize("store", [True, False])
async def test_anybody_who_sees_the_run_of_a_client_that_said_hello_may_steer_and_all_follow(store: bool) -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with (
        speaking(speaker) as (server, owner),
        connected(server.ws_url) as other,
        connected(server.ws_url) as third,
    ):
        for client in (owner, other, third):
            await client.hello()
        await owner.create("stub-model", "first", stream_id="main", store=store)
        target = await started(owner, "main")
        await until(lambda: bool(speaker.inputs), "the model call")
        lane = (await other.attach(target, stream_id="watch"))["stream_id"]
        accepted = await steer(third, target, "second")
        assert (accepted["type"], "stream_id" in accepted) == ("response.steer.accepted", False)
        live = [await owner.collect_run("main") for _ in range(2)]
        assert live[1][0]["response"]["previous_response_id"] == target
        assert speaker.said_by_user() == ["first", "second"]

        frames = await attached_frames(other, lane)
        kinds = [f["type"] for f in frames if f["type"].startswith("antiphon:")]
        assert kinds == [
            "antiphon:caught_up",
            "antiphon:detached",
            "antiphon:run_attached",
            "antiphon:caught_up",
            "antiphon:detached",
        ]
        cut = next(n for n, f in enumerate(frames) if f["type"] == "antiphon:run_attached")
        assert frames[cut]["response_id"] == response_id(live[1])
        assert frames[cut]["mode"] == "replay"
        assert log_bytes(frames[:cut])[1:] == log_bytes(live[0])
        assert log_bytes(frames[cut:]) == log_bytes(live[1])
        assert (await owner.command("antiphon:detach", response_id=target))["code"] == "not_attached"


async def test_an_attachment_made_after_the_end_does_not_follow_but_is_told_the_successor() -> None:
    speaker = Speaker(BEFORE, WHOLE)
    async with speaking(speaker) as (server, owner), connected(server.ws_url) as other:
        await other.hello()
        await owner.create("stub-model", "first")
        target = await started(owner)
        await until(lambda: bool(speaker.inputs), "the model call")
        await steer(owner, target)
        await owner.collect_run()
        successor = response_id(await turn(owner))
        attached = await other.attach(target)
        assert attached["state"]["terminal"]["successor"] == successor
        assert [row["stage"] for row in attached["state"]["steers"]] == ["applied"]
        frames = await other.collect_attachment(attached["stream_id"])
        assert frames[-1]["reason"] == "ended"
        assert (await other.attach(successor))["stream_id"] != attached["stream_id"]
        assert "antiphon:run_attached" not in {f["type"] for f in other.received}


async def test_the_lane_of_a_steered_attachment_is_kept_until_its_successor_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    speaker = Speaker(AFTER, WHOLE)
    async with speaking(speaker) as (server, owner), connected(server.ws_url) as other:
        await owner.hello()
        await other.hello()
        target = response_id(await begun(owner))
        await other.attach(target, stream_id="watch")
        taken: list[Event] = []
        start = server.app.engine.service.start

        async def slowly(*args, **fields):  # type: ignore[no-untyped-def]
            await until(lambda: bool(taken), "the refusals")
            return await start(*args, **fields)

        monkeypatch.setattr(server.app.engine.service, "start", slowly)
        await steer(other, target, lane="watch")
        await other.collect_attachment("watch")
        await other.create("antiphon/echo", stream_id="watch")
        assert (await other.recv_error("watch"))["error"]["code"] == "lane_in_use"
        taken.append(await other.command("antiphon:attach", response_id=target, stream_id="watch"))
        assert taken[0]["code"] == "lane_in_use"
        frames = await other.collect_attachment("watch")
        assert frames[0]["type"] == "antiphon:run_attached"
        check_run(numbered(frames))


async def test_when_the_plain_creator_has_gone_others_may_steer() -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with speaking(speaker) as (server, client), connected(server.ws_url) as owner:
        target = response_id(await begun(owner))
        await client.hello()
        attached = await client.attach(target)
        await owner.abort()
        await until(lambda: len(server.app.hub) == 1, "the end of the connection")
        assert (await steer(client, target, "second", attached["stream_id"]))["type"] == "response.steer.accepted"
        speaker.release()
        frames = await attached_frames(client, attached["stream_id"])
        assert [f["type"] for f in frames].count("antiphon:run_attached") == 1
        assert speaker.said_by_user() == ["first", "second"]


async def test_a_background_run_is_steered_from_a_socket_and_the_successor_is_one_too() -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with speaking(speaker) as (server, client):
        target = await begin(server, "first", "stub-model")
        await client.hello()
        lane = (await client.attach(target))["stream_id"]
        await client.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id=lane)
        await steer(client, target, "second", lane)
        speaker.release()
        frames = await attached_frames(client, lane)
        assert numbered(frames)[-1]["type"] == "response.completed"
        created = [f for f in client.received if f["type"] == "response.created"]
        assert [f["response"]["background"] for f in created] == [True, True]
        assert created[1]["response"]["previous_response_id"] == target


async def test_roles_and_tenants_hold_for_steering() -> None:
    speaker = Speaker(INSIDE)
    async with (
        speaking(speaker, api_key="watch", **TENANTS) as (server, viewer),
        connected(server.ws_url, api_key="a1") as owner,
        connected(server.ws_url, api_key="a2") as colleague,
        connected(server.ws_url, api_key="b1") as stranger,
    ):
        await owner.hello()
        shared = response_id(await begun(owner, "open"))
        private = response_id(await begun(owner, "mine", antiphon={"visibility": "private"}))
        unknown = (await steer(stranger, "resp_" + "0" * 32)).raw
        for run_id in (shared, private):
            answered = (await steer(stranger, run_id)).raw
            assert answered.replace(run_id[:80], "ID") == unknown.replace("resp_" + "0" * 32, "ID")
        assert code_of(await steer(colleague, private)) == "response_not_found"
        assert code_of(await steer(viewer, shared)) == "successor_creation_failed"
        assert server.app.registry.get(shared).steers == []
        accepted = await steer(colleague, shared, "from a colleague")
        rows = server.app.registry.get(shared).steers
        assert rows == [{"id": accepted["steer"]["id"], "stage": "accepted", "principal": "key:a2"}]
        speaker.release(3)
        assert [await owner.collect_run("open") for _ in range(2)]
        terminal = server.app.registry.get(shared).terminal or {}
        assert server.app.registry.get(terminal["successor"]).principal == "key:a1"


async def test_who_sent_a_steer_is_told_when_it_is_pending_and_when_it_failed() -> None:
    speaker = Speaker(TWO_CALLS, INSIDE)
    async with (
        speaking(speaker) as (server, owner),
        connected(server.ws_url) as other,
        connected(server.ws_url) as third,
    ):
        for client in (owner, other, third):
            await client.hello()
        target, ids = await calling(owner)
        lane = (await other.attach(target))["stream_id"]
        await steer(other, target, "one", lane)
        await steer(third, target, "two")
        speaker.release()
        pending = await answer(other, lane)
        assert [row["call_id"] for row in pending["required_input"]] == ids
        kinds = [f["type"] for f in other.received]
        assert kinds.index("response.completed") < kinds.index("response.steer.pending")
        assert (await answer(third))["type"] == "response.steer.pending"
        await owner.collect_run("a")
        assert not [f for f in owner.received if f["type"].startswith("response.steer.")]

        running = response_id(await begun(owner, "b"))
        await steer(third, running, "three")
        await owner.send({"type": "response.cancel", "response_id": running})
        failed = await answer(third)
        assert (code_of(failed), failed["steer"]["input"]) == ("response_not_active", "three")
        assert failed["sequence_number"] == server.app.registry.get(running).head


async def test_steering_shows_in_the_pushed_state_and_in_the_lifecycle_log() -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with speaking(speaker) as (server, owner):
        await owner.hello()
        target = response_id(await begun(owner, "a"))
        accepted = await steer(owner, target, "second", "a")
        steer_id = accepted["steer"]["id"]
        speaker.release()
        await owner.recv_until(lambda e: e["type"] in TERMINALS, stream_id="a")
        await turn(owner, "a")
        states = [f["state"] for f in owner.received if f["type"] == "antiphon:run" and f["response_id"] == target]
        stages = [row["stage"] for state in states for row in state["steers"]]
        assert list(dict.fromkeys(stages)) == ["accepted", "applied"]
        told = [e.data for e in server.app.lifecycle.since("default", 0) or [] if e.event == "run.steered"]
        assert told == [
            {"steer_id": steer_id, "by": "user:local", "stage": stage} for stage in ("accepted", "applied")
        ]
