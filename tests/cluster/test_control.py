"""Cancel, inject, claim, steer, GET, create and delete from a node that does not have the run (PROTOCOL 7, 8)."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from tests.session.held import calling, hold, output, outputs, refused, taken
from tests.session.play import (
    connected,
    log_bytes,
    numbered,
    response_id,
    started,
    stub_settings,
    words,
    write_script,
)
from tests.session.speaking import INSIDE, WHOLE, Speaker
from tests.support.cluster import Cluster, LocalNode, cluster
from tests.support.follower import read_whole
from tests.support.gap_checker import check_run
from tests.support.stub_upstream import StubUpstream, text
from tests.support.ws_client import WsClient


def http(node: LocalNode) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=node.url, timeout=10, trust_env=False)


def endless(c: Cluster[LocalNode]) -> str:
    return write_script(c.folder, "endless", [words(3), {"delay_s": 60}])


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("way", ["socket", "http"])
async def test_a_cancel_from_the_other_node_ends_the_run(postgres_url: str, way: str, store: bool) -> None:
    async with cluster(postgres_url) as c, connected(c.a.ws_url) as owner, connected(c.b.ws_url) as other:
        await other.hello()
        await owner.create(endless(c), store=store)
        seen = await owner.recv_until(lambda e: e.get("delta") == "w2 ")
        run_id = response_id(seen)
        if way == "socket":
            reply = await other.command("antiphon:cancel", response_id=run_id)
            assert reply["result"] == "accepted"
        else:
            async with http(c.b) as client:
                answer = await client.post(f"/v1/responses/{run_id}/cancel")
            assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        live = seen + await owner.collect_run()
        assert live[-1]["response"]["status"] == "cancelled"
        again = await other.command("antiphon:cancel", response_id=run_id)
        assert again["result"] == "already_terminal"
        assert await read_whole(c.b.ws_url, run_id) == log_bytes(live)


async def test_answers_from_every_node_are_taken_once_and_losers_are_told_who_won(postgres_url: str) -> None:
    async with cluster(postgres_url, nodes=3) as c:
        model = calling(c.folder, 3)
        async with (
            connected(c.a.ws_url) as owner,
            connected(c.b.ws_url) as second,
            connected(c.nodes[2].ws_url) as third,
        ):
            await second.hello(client={"name": "t", "instance_id": "second"})
            run = await hold(owner, model, calls=3)
            await taken(second, run.id, output(run.call_ids[0], "from b"))
            error = await refused(third, run.id, output(run.call_ids[0], "from c"))
            assert (error["code"], error["winner"]["instance"]) == ("already_resolved", "second")
            again = await taken(second, run.id, output(run.call_ids[0], "from b"))
            assert again["duplicate"] is True
            assert (await refused(third, run.id, output("call_unknown")))["code"] == "unknown_call"
            await taken(third, run.id, output(run.call_ids[1], "from c"), output(run.call_ids[2], "from c"))
            events = run.events + await owner.collect_run()
            assert outputs(events) == list(zip(run.call_ids, ["from b", "from c", "from c"], strict=True))
            error = await refused(third, run.id, output(run.call_ids[0], "late"))
            assert error["code"] == "already_resolved"


async def test_one_of_two_answers_given_at_once_on_two_nodes_wins(postgres_url: str) -> None:
    async with cluster(postgres_url) as c:
        model = calling(c.folder, 1)
        async with connected(c.a.ws_url) as owner, connected(c.a.ws_url) as here, connected(c.b.ws_url) as there:
            for _ in range(20):
                run = await hold(owner, model)
                answers = [(here, "here"), (there, "there")]
                got = await asyncio.gather(*(_answer(who, run.id, run.call_ids[0], said) for who, said in answers))
                assert sorted(got) == [False, True]
                events = run.events + await owner.collect_run()
                assert outputs(events) == [(run.call_ids[0], answers[got.index(True)][1])]


async def _answer(client: WsClient, run_id: str, call_id: str, said: str) -> bool:
    await client.send({"type": "response.inject", "response_id": run_id, "input": [output(call_id, said)]})
    frames = await client.recv_until(lambda e: e["type"].startswith("response.inject."))
    return bool(frames[-1]["type"] == "response.inject.created")


async def test_claims_are_one_book_over_all_nodes(postgres_url: str) -> None:
    async with cluster(postgres_url) as c:
        model = calling(c.folder, 1)
        async with connected(c.b.ws_url) as far, connected(c.a.ws_url) as near:
            for client in (far, near):
                await client.hello(tools=[{"name": "look"}])
            # Its creator goes, so that whoever declared the tool is asked.
            async with connected(c.a.ws_url) as owner:
                run = await hold(owner, model)
            for client in (far, near):
                await client.attach(run.id, stream_id="watch")
            await far.recv_until(lambda e: e["type"] == "antiphon:run" and len(e["state"]["participants"]) == 2)
            named = {"response_id": run.id, "call_id": run.call_ids[0]}
            claim = await far.command("antiphon:claim", **named)
            assert claim["type"] == "antiphon:ok", claim.raw
            held = await near.command("antiphon:claim", **named)
            assert (held["code"], held["expires_at"]) == ("claim_held", claim["expires_at"])
            assert (await refused(near, run.id, output(run.call_ids[0]), stream_id="watch"))[
                "code"
            ] == "claim_held"
            renewed = await far.command("antiphon:renew", **named, fence=claim["fence"])
            assert (renewed["type"], renewed["fence"]) == ("antiphon:ok", claim["fence"])
            released = await far.command("antiphon:release", **named, fence=claim["fence"])
            assert released["type"] == "antiphon:ok"
            stale = await far.command("antiphon:renew", **named, fence=claim["fence"])
            assert stale["code"] == "stale_fence"
            second = await near.command("antiphon:claim", **named)
            assert second["fence"] > claim["fence"]
            await taken(near, run.id, output(run.call_ids[0], "mine", fence=second["fence"]), stream_id="watch")
            assert outputs(numbered(await far.collect_attachment("watch"))) == [(run.call_ids[0], "mine")]


async def test_a_steer_from_the_other_node_is_heard_and_its_sender_is_told_what_became_of_it(
    postgres_url: str,
) -> None:
    speaker = Speaker(INSIDE, WHOLE)
    async with (
        StubUpstream(speaker) as stub,
        cluster(postgres_url, **stub_settings(stub)) as c,
        connected(c.a.ws_url) as owner,
        connected(c.b.ws_url) as other,
    ):
        await owner.hello()
        await other.hello()
        await owner.create("stub-model", "first", stream_id="main")
        target = await started(owner, "main")
        await owner.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id="main")
        lane = (await other.attach(target, stream_id="watch"))["stream_id"]
        said = [{"type": "message", "role": "user", "content": "second"}]
        await other.send({"type": "response.steer", "previous_response_id": target, "input": said})
        first = await _steer_answer(other)
        assert first["type"] == "response.steer.accepted", first.raw
        speaker.release()
        live = [numbered(await owner.collect_run("main")) for _ in range(2)]
        assert live[1][0]["response"]["previous_response_id"] == target
        assert speaker.said_by_user() == ["first", "second"]
        frames = await other.collect_attachment(lane)
        frames += await other.collect_attachment(lane)
        mine = [e for e in numbered(frames) if not e["type"].startswith("response.steer.")]
        assert log_bytes(mine) == log_bytes([e for run in live for e in run])[-len(mine) :]
        assert mine[-1]["response"]["id"] == live[1][0]["response"]["id"]


async def _steer_answer(client: WsClient) -> dict[str, object]:
    while True:
        frame = await client.recv()
        if frame["type"].startswith("response.steer."):
            return frame


async def test_get_on_the_other_node_shows_the_run_as_it_stands_and_as_it_ended(postgres_url: str) -> None:
    async with cluster(postgres_url) as c, connected(c.a.ws_url) as owner, http(c.b) as client:
        await owner.create(endless(c))
        seen = await owner.recv_until(lambda e: e.get("delta") == "w2 ")
        run_id = response_id(seen)
        live = (await client.get(f"/v1/responses/{run_id}")).json()
        assert (live["status"], live["id"]) == ("in_progress", run_id)
        assert (await client.delete(f"/v1/responses/{run_id}")).json()["error"]["code"] == "response_in_progress"
        await owner.send({"type": "response.cancel", "response_id": run_id})
        terminal = (await owner.collect_run())[-1]
        assert (await client.get(f"/v1/responses/{run_id}")).json() == terminal["response"]
        assert (await client.delete(f"/v1/responses/{run_id}")).status_code == 200
        for node in c.nodes:
            async with http(node) as again:
                assert (await again.get(f"/v1/responses/{run_id}")).status_code == 404
        async with connected(c.a.ws_url) as other:
            await other.hello()
            gone = await other.command("antiphon:attach", response_id=run_id)
            assert gone["code"] == "response_not_found"


async def test_a_turn_goes_on_from_a_response_of_the_other_node(postgres_url: str) -> None:
    async with (
        StubUpstream(text(2)) as stub,
        cluster(postgres_url, **stub_settings(stub)) as c,
        connected(c.a.ws_url) as here,
        connected(c.b.ws_url) as there,
    ):
        parent = response_id(await here.run("stub-model", "one"))
        child = await there.run("stub-model", "two", previous_response_id=parent)
        assert check_run(child).text == "w0 w1 "
        said = [item.get("content") for item in stub.requests[1].body["input"] if item.get("role") == "user"]
        assert said == ["one", "two"]
        await here.create("stub-model", "x", previous_response_id="resp_" + "0" * 32)
        assert (await here.recv_error())["error"]["code"] == "previous_response_not_found"


@pytest.mark.parametrize("store", [True, False])
async def test_one_key_on_two_nodes_at_once_is_one_run_in_every_round(postgres_url: str, store: bool) -> None:
    async with (
        StubUpstream(text(5, rate=100)) as stub,
        cluster(postgres_url, **stub_settings(stub)) as c,
        connected(c.a.ws_url) as here,
        connected(c.b.ws_url) as there,
    ):
        for n in range(20):
            fields = {"idempotency_key": f"key-{n}", "store": store}
            one, two = await asyncio.gather(
                here.run("stub-model", "once", **fields), there.run("stub-model", "once", **fields)
            )
            assert log_bytes(one) == log_bytes(two), f"two runs in round {n}"
            assert len(stub.requests) == n + 1
        await there.create("stub-model", "another body", idempotency_key="key-0", store=store)
        conflict = await there.recv_error()
        assert (conflict["status"], conflict["error"]["code"]) == (409, "idempotency_conflict")


async def test_one_key_over_http_on_two_nodes_at_once_is_one_run(postgres_url: str) -> None:
    async with (
        StubUpstream(text(5, rate=100)) as stub,
        cluster(postgres_url, **stub_settings(stub)) as c,
        http(c.a) as here,
        http(c.b) as there,
    ):
        body = {"model": "stub-model", "input": "once"}
        answers = await asyncio.gather(
            *(
                client.post("/v1/responses", json=body, headers={"idempotency-key": "k"})
                for client in (here, there)
            )
        )
        assert [answer.status_code for answer in answers] == [200, 200]
        assert json.loads(answers[0].content) == json.loads(answers[1].content)
        assert len(stub.requests) == 1
