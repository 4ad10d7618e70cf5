"""Claims over sockets: lease, fence, who is asked, and who comes back (PROTOCOL 10.9)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.session.held import (
    TOOLS,
    Waiting,
    calling,
    hold,
    next_call,
    output,
    refused,
    state_of,
    taken,
    tenants,
    waits,
)
from tests.session.play import connected, until
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import Event, WsClient, ws_client


async def hello(client: WsClient, instance: str | None = None, **fields: Any) -> Event:
    named = {"name": "test", **({"instance_id": instance} if instance else {})}
    return await client.hello(client=named, **fields)


async def claim(client: WsClient, run: Waiting, n: int = 0, **fields: Any) -> Event:
    return await client.command("antiphon:claim", response_id=run.id, call_id=run.call_ids[n], **fields)


async def claimed(client: WsClient, run: Waiting, **fields: Any) -> int:
    """A claim that has to be granted; its fence."""
    reply = await claim(client, run, **fields)
    assert reply["type"] == "antiphon:ok", reply.raw
    fence: int = reply["fence"]
    return fence


async def attached(client: WsClient, run: Waiting, instance: str | None = None, **fields: Any) -> str:
    """Say hello, declare the tool, attach; the lane."""
    await hello(client, instance, tools=[{"name": "look"}], **fields)
    return str((await client.attach(run.id, after="now"))["stream_id"])


async def finish(client: WsClient, run: Waiting, stream_id: str | None = None, by: WsClient | None = None) -> None:
    """Answer what is left, so that the run ends."""
    for call_id in run.call_ids:
        await taken(by or client, run.id, output(call_id))
    await client.collect_run(stream_id)


def pending(server: RunningServer, run: Waiting, n: int = 0) -> dict[str, Any]:
    rows = {row["call_id"]: row for row in state_of(server, run.id)["pending_calls"]}
    row: dict[str, Any] = rows[run.call_ids[n]]
    return row


async def test_a_claim_keeps_the_call_for_its_holder_and_everybody_sees_it() -> None:
    async with (
        tenants() as server,
        connected(server.ws_url, api_key="anna") as anna,
        connected(server.ws_url, api_key="bob") as bob,
    ):
        welcome = await hello(anna, "tab-a")
        assert welcome["claim_lease_ms"] == 30_000
        assert "held_calls" in welcome["features"]
        run = await hold(anna, calling(server.data_dir, 1))
        lane = await attached(bob, run)
        assert await claimed(anna, run) == 1
        frames = await bob.recv_until(
            lambda e: e["type"] == "antiphon:run" and e["state"]["pending_calls"][0]["claim"] is not None
        )
        shown = frames[-1]["state"]["pending_calls"][0]["claim"]
        assert (shown["holder"], shown["instance"]) == ("key:anna", "tab-a")
        error = await refused(bob, run.id, output(run.call_ids[0]), stream_id=lane)
        assert (error["code"], error["holder"]) == ("claim_held", "key:anna")
        assert error["expires_at"] == shown["expires_at"]
        fence = await claimed(anna, run)
        await taken(anna, run.id, output(run.call_ids[0], fence=fence))
        await anna.collect_run()


async def test_when_the_lease_has_ended_another_may_claim_and_the_old_fence_is_stale() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        await hello(owner, "a")
        run = await hold(owner, calling(server.data_dir, 1))
        first = await claimed(owner, run, lease_ms=100)
        await owner.recv_until(
            lambda e: (
                e["type"] == "antiphon:run"
                and e["state"]["pending_calls"][0]["claim"] is None
                and e["state"]["revision"] > 4
            )  # fmt: skip
        )
        await until(lambda: pending(server, run)["claim"] is None, "the end of the lease")
        await hello(other, "a")
        await other.attach(run.id, after="now")
        second = await claimed(other, run, fence=first)
        assert second == first + 1
        renewed = await owner.command("antiphon:renew", response_id=run.id, call_id=run.call_ids[0], fence=first)
        assert renewed["code"] == "stale_fence"
        error = await refused(owner, run.id, output(run.call_ids[0], fence=first))
        assert error["code"] == "stale_fence"
        await taken(owner, run.id, output(run.call_ids[0], fence=second))
        await owner.collect_run()


async def test_renewing_keeps_a_short_lease_and_releasing_ends_it() -> None:
    async with running_server() as server, connected(server.ws_url) as owner, connected(server.ws_url) as other:
        await hello(owner, "a")
        run = await hold(owner, calling(server.data_dir, 1))
        fence = await claimed(owner, run, lease_ms=600)
        renewed = await owner.command(
            "antiphon:renew", response_id=run.id, call_id=run.call_ids[0], fence=fence, lease_ms=60_000
        )
        assert renewed["fence"] == fence
        assert (await refused(other, run.id, output(run.call_ids[0])))["expires_at"] == renewed["expires_at"]
        wrong = await owner.command(
            "antiphon:release", response_id=run.id, call_id=run.call_ids[0], fence=fence + 1
        )
        assert wrong["code"] == "stale_fence"
        released = await owner.command(
            "antiphon:release", response_id=run.id, call_id=run.call_ids[0], fence=fence
        )
        assert released.keys() == {"type", "id"}
        assert pending(server, run)["claim"] is None
        await finish(owner, run, by=other)


async def test_the_same_instance_comes_back_on_a_new_connection_and_goes_on_with_its_fence() -> None:
    async with running_server() as server, ws_client(server.ws_url) as owner, connected(server.ws_url) as other:
        await hello(owner, "tab")
        run = await hold(owner, calling(server.data_dir, 1))
        lane = await attached(other, run)
        fence = await claimed(owner, run)
        await owner.abort()
        assert (await claim(other, run))["code"] in ("not_eligible", "claim_held")
        async with connected(server.ws_url) as back:
            await hello(back, "tab")
            again = await claim(back, run)
            assert again["fence"] == fence
            await taken(back, run.id, output(run.call_ids[0], fence=fence))
        await other.collect_run(lane)


async def test_ownership_follows_the_instance_while_the_old_socket_is_not_noticed_dead_yet() -> None:
    """T-07, R-11: both sockets are there for a moment; closing the old one takes nothing from the new one."""
    async with running_server() as server, connected(server.ws_url) as other:
        model = calling(server.data_dir, 1, 1)
        for _ in range(20):
            async with ws_client(server.ws_url) as old, ws_client(server.ws_url) as new:
                await hello(old, "tab")
                run = await hold(old, model)
                welcome = await hello(new, "tab")
                lane = (await new.attach(run.id, after="now"))["stream_id"]
                await old.abort()
                await taken(other, run.id, output(run.call_ids[0]))
                second = [await next_call(new, lane)]
                run.call_ids = second
                await until(lambda: len(state_of(server, run.id)["participants"]) == 1, "the old one leaving")  # noqa: B023
                assert pending(server, run)["eligible"] == [welcome["connection_id"]]
                fence = await claimed(new, run)
                await taken(new, run.id, output(second[0], fence=fence), stream_id=lane)
                await new.collect_run(lane)


async def test_the_creator_is_asked_first_and_others_that_declared_the_tool_when_it_has_left() -> None:
    async with (
        running_server() as server,
        connected(server.ws_url) as other,
        connected(server.ws_url) as bystander,
    ):
        async with connected(server.ws_url) as owner:
            mine = (await hello(owner))["connection_id"]
            run = await hold(owner, calling(server.data_dir, 1))
            lane = await attached(other, run)
            theirs = (await hello(other, tools=[{"name": "look"}]))["connection_id"]
            await hello(bystander, tools=[{"name": "listen"}])
            await bystander.attach(run.id, after="now")
            await until(lambda: len(state_of(server, run.id)["participants"]) == 3, "three participants")
            assert pending(server, run)["eligible"] == [mine]
            assert (await claim(other, run))["code"] == "not_eligible"
        await until(lambda: pending(server, run)["eligible"] == [theirs], "the other being asked")
        assert (await claim(bystander, run))["code"] == "not_eligible"
        await claimed(other, run)
        await taken(other, run.id, output(run.call_ids[0]), stream_id=lane)
        await other.collect_run(lane)


async def test_a_call_with_side_effects_stays_with_its_creator_when_that_one_has_left() -> None:
    async with running_server() as server, connected(server.ws_url) as other:
        async with connected(server.ws_url) as owner:
            await hello(owner, "ide-1")
            run = await hold(owner, calling(server.data_dir, 1), antiphon={"side_effects": ["look"]})
            lane = await attached(other, run)
            await hello(other, tools=[{"name": "look"}])
            await waits(server, run)
        await until(lambda: len(state_of(server, run.id)["participants"]) == 1, "the creator being gone")
        assert pending(server, run)["eligible"] == []
        assert (await claim(other, run))["code"] == "not_eligible"
        async with connected(server.ws_url) as again:
            back = await attached(again, run, "ide-1")
            await claimed(again, run)
            await taken(again, run.id, output(run.call_ids[0]), stream_id=back)
        await other.collect_run(lane)


async def test_labels_of_tool_and_connection_target_the_run_that_has_them_too() -> None:
    async with running_server() as server, connected(server.ws_url) as blue, connected(server.ws_url) as red:
        async with connected(server.ws_url) as owner:
            labels = {"labels": {"workspace": "blue"}}
            run = await hold(owner, calling(server.data_dir, 1), antiphon=labels)
            await hello(red, tools=[{"name": "look", "labels": {"workspace": "red"}}])
            await red.attach(run.id, after="now")
            chosen = await hello(blue, tools=[{"name": "look"}], labels={"workspace": "blue", "seat": "4"})
            lane = (await blue.attach(run.id, after="now"))["stream_id"]
        await until(lambda: pending(server, run)["eligible"] == [chosen["connection_id"]], "blue being asked")
        assert (await claim(red, run))["code"] == "not_eligible"
        await claimed(blue, run)
        await taken(blue, run.id, output(run.call_ids[0]), stream_id=lane)
        await blue.collect_run(lane)


async def test_the_answer_to_an_attach_says_who_is_asked_from_that_moment_on() -> None:
    async with running_server() as server, connected(server.ws_url) as other:
        async with connected(server.ws_url) as owner:
            run = await hold(owner, calling(server.data_dir, 1), antiphon={"labels": {"workspace": "blue"}})
            await waits(server, run)
        await until(lambda: state_of(server, run.id)["participants"] == [], "the creator being gone")

        async def asked(workspace: str) -> tuple[Any, Any]:
            await hello(other, tools=[{"name": "look", "labels": {"workspace": workspace}}])
            state = (await other.attach(run.id, after="now"))["state"]
            return state["pending_calls"][0]["eligible"], [row["connection"] for row in state["participants"]]

        mine = (await hello(other))["connection_id"]
        assert await asked("blue") == ([mine], [mine])
        assert await asked("red") == ([], [mine])
        assert await asked("blue") == ([mine], [mine])
        assert len(server.app.engine.directory.live_runs()[0].roster) == 1
        await other.command("antiphon:detach", response_id=run.id)
        assert state_of(server, run.id)["participants"] == []
        await taken(other, run.id, output(run.call_ids[0]))


async def test_with_nobody_to_ask_the_run_waits_and_says_so() -> None:
    async with running_server() as server:
        async with connected(server.ws_url) as owner:
            run = await hold(owner, calling(server.data_dir, 1))
            await waits(server, run)
        await until(lambda: pending(server, run)["eligible"] == [], "nobody being asked")
        state = state_of(server, run.id)
        assert (state["state"], state["participants"]) == ("waiting_for_tool", [])
        async with connected(server.ws_url) as helper:
            lane = await attached(helper, run)
            await claimed(helper, run)
            await taken(helper, run.id, output(run.call_ids[0]), stream_id=lane)
            await helper.collect_run(lane)


@pytest.mark.parametrize(
    ("command", "fields", "code"),
    [
        ("antiphon:claim", {"response_id": "resp_x", "call_id": "c"}, "response_not_found"),
        ("antiphon:claim", {"call_id": "call_x"}, "unknown_call"),
        ("antiphon:claim", {"fence": 9}, "stale_fence"),
        ("antiphon:claim", {"lease_ms": 10}, "invalid_command"),
        ("antiphon:claim", {"call_id": None}, "invalid_command"),
        ("antiphon:renew", {}, "invalid_command"),
        ("antiphon:renew", {"fence": 0}, "stale_fence"),
        ("antiphon:release", {"fence": 1}, "stale_fence"),
    ],
)
async def test_claims_that_cannot_be_are_refused_by_their_code(
    command: str, fields: dict[str, Any], code: str
) -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        await hello(owner)
        run = await hold(owner, calling(server.data_dir, 1))
        given = {"response_id": run.id, "call_id": run.call_ids[0], **fields}
        reply = await owner.command(command, **{key: value for key, value in given.items() if value is not None})
        assert (reply["type"], reply["code"]) == ("antiphon:error", code)
        await finish(owner, run)
        if code == "unknown_call":
            ended = await owner.command(command, response_id=run.id, call_id=run.call_ids[0])
            assert ended["code"] in ("already_resolved", "response_already_completed")


async def test_claims_before_hello_are_refused_and_a_tool_that_returns_has_no_call_to_claim() -> None:
    async with running_server() as server, connected(server.ws_url) as owner:
        for command in ("claim", "renew", "release", "presence"):
            assert (await owner.command(f"antiphon:{command}"))["code"] == "hello_required"
        await hello(owner)
        events = await owner.run(calling(server.data_dir, 1), tools=TOOLS)
        call_id = events[-1]["response"]["output"][0]["call_id"]
        reply = await owner.command("antiphon:claim", response_id=events[-1]["response"]["id"], call_id=call_id)
        assert reply["code"] == "response_already_completed"
