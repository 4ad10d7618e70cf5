"""Every verb reaches a run of another node, and is answered as if it were here (PROTOCOL 9.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.elsewhere.two_nodes import AUTH, owns, two_nodes
from tests.http.calling import UNKNOWN_ID, begin, ended, error_of, get, http, until
from tests.session.held import (
    Waiting,
    calling,
    hold,
    inject,
    output,
    outputs,
    refused,
    taken,
    waits,
)
from tests.session.play import attach_all, connected, log_bytes, response_id, started, words, write_script
from tests.support.gap_checker import check_run
from tests.support.ws_client import Event, WsClient

LONG = words(2000, rate=100)


async def test_a_run_is_cancelled_from_another_node_over_a_socket_and_over_http(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, connected(nodes.there.ws_url) as other:
        model = write_script(nodes.folder, "long", [LONG])
        await other.hello()
        first, second, third = [await begin(nodes.here, model=model) for _ in range(3)]
        reply = await other.command("antiphon:cancel", response_id=first)
        assert (reply["type"], reply["result"]) == ("antiphon:ok", "accepted")
        assert (await ended(nodes.there, first))["status"] == "cancelled"

        async with http(nodes.there) as client:
            answer = await client.post(f"/v1/responses/{second}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        assert answer.json() == (await get(nodes.here, f"/v1/responses/{second}")).json()

        await other.send({"type": "response.cancel", "response_id": third})
        assert (await ended(nodes.here, third))["status"] == "cancelled"
        reply = await other.command("antiphon:cancel", response_id=first)
        assert (reply["type"], reply["result"]) == ("antiphon:ok", "already_terminal")
        reply = await other.command("antiphon:cancel", response_id=UNKNOWN_ID)
        assert reply["code"] == "response_not_found"


async def test_who_may_not_see_or_cancel_a_run_is_told_the_same_on_every_node(postgres_url: str) -> None:
    async with two_nodes(postgres_url, **AUTH) as nodes:
        run = await begin(nodes.here, model=write_script(nodes.folder, "long", [LONG]), key="anna")
        for key, status, code in (("foreign", 404, "response_not_found"), ("bob", 403, "forbidden")):
            for server in (nodes.here, nodes.there):
                async with http(server, key) as client:
                    answer = await client.post(f"/v1/responses/{run}/cancel")
                assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        async with http(nodes.there, "anna") as client:
            assert (await client.post(f"/v1/responses/{run}/cancel")).json()["status"] == "cancelled"


async def test_a_live_response_is_read_and_not_deleted_from_another_node(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes:
        run = await begin(nodes.here, model=write_script(nodes.folder, "long", [LONG]))

        async def has_words() -> bool:
            seen = (await get(nodes.there, f"/v1/responses/{run}")).json()
            return seen["status"] == "in_progress" and bool(seen["output"])

        await until(has_words)
        async with http(nodes.there) as client:
            answer = await client.delete(f"/v1/responses/{run}")
            assert (answer.status_code, error_of(answer)["code"]) == (409, "response_in_progress")
            await client.post(f"/v1/responses/{run}/cancel")
            assert (await client.delete(f"/v1/responses/{run}")).json()["deleted"] is True
        assert (await get(nodes.here, f"/v1/responses/{run}")).status_code == 404


async def test_an_unstored_run_is_followed_and_cancelled_but_not_read_from_another_node(postgres_url: str) -> None:
    async with (
        two_nodes(postgres_url) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        await owner.create(write_script(nodes.folder, "long", [LONG]), store=False)
        run = await started(owner)
        await other.hello()
        await other.attach(run, stream_id="watch")
        await other.recv_until(lambda e: e["type"] == "response.output_text.delta", stream_id="watch")
        assert (await get(nodes.there, f"/v1/responses/{run}")).status_code == 404
        await other.command("antiphon:cancel", response_id=run)
        mine = await owner.collect_run()
        theirs = await other.collect_attachment("watch")
        assert log_bytes(theirs)[-1] == log_bytes(mine)[-1]
        reply = await other.command("antiphon:cancel", response_id=run)
        assert reply["result"] == "already_terminal"


async def test_a_held_call_is_answered_on_another_node_and_the_run_goes_on(postgres_url: str) -> None:
    async with (
        two_nodes(postgres_url) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        await other.hello()  # an instance, or the connection, is who repeats
        run = await hold(owner, calling(nodes.folder, 2), calls=2)
        await waits(nodes.here, run)
        error = await refused(other, run.id, output("call_nobody_made"))
        assert error["code"] == "unknown_call"
        await taken(other, run.id, output(run.call_ids[0], "first"))
        repeated = await inject(other, run.id, output(run.call_ids[0], "first"))
        assert repeated["duplicate"] is True
        error = await refused(owner, run.id, output(run.call_ids[0], "mine"))
        assert (error["code"], error["winner"]["by"]) == ("already_resolved", "user:local")
        await taken(owner, run.id, output(run.call_ids[1], "second"))
        events = run.events + await owner.collect_run()
        check_run(events)
        assert outputs(events) == [(run.call_ids[0], "first"), (run.call_ids[1], "second")]
        late = await refused(other, run.id, output(run.call_ids[1]))
        assert late["code"] == "already_resolved"


async def test_a_held_call_is_answered_over_http_on_another_node(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as nodes, connected(nodes.here.ws_url) as owner:
        run = await hold(owner, calling(nodes.folder, 1))
        path = f"/v1/responses/{run.id}/inject"
        async with http(nodes.there, **{"x-antiphon-instance": "worker"}) as client:
            answer = await client.post(path, json={"input": [output("call_x")]})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_call")
            assert answer.json()["input"] == [output("call_x")]
            answer = await client.post(path, json={"input": [output(run.call_ids[0])]})
            assert (answer.status_code, answer.json()["response_id"]) == (200, run.id)
            assert "duplicate" not in answer.json()
            assert (await client.post(path, json={"input": [output(run.call_ids[0])]})).json()["duplicate"] is True
        await owner.collect_run()


async def claim(client: WsClient, run: Waiting, kind: str = "claim", **fields: Any) -> Event:
    return await client.command(f"antiphon:{kind}", response_id=run.id, call_id=run.call_ids[0], **fields)


async def test_a_client_of_another_node_claims_renews_releases_and_keeps_others_out(postgres_url: str) -> None:
    async with two_nodes(postgres_url, **AUTH) as nodes, connected(nodes.there.ws_url, api_key="bob") as bob:
        model = calling(nodes.folder, 1)
        held = {"client_tools": "hold"}
        tool = {"type": "function", "name": "look", "parameters": {"type": "object"}}
        run_id = await begin(nodes.here, model=model, key="anna", tools=[tool], antiphon=held)
        run = Waiting(run_id, [])
        state = await waits(nodes.here, run)
        run.call_ids.append(state["pending_calls"][0]["call_id"])
        await bob.hello(tools=[{"name": "look"}])
        assert (await claim(bob, run))["code"] == "not_eligible"
        attached = await bob.attach(run.id, after="now")
        # The state in the answer knows the new client, though the owner is another node.
        mine = attached["state"]["pending_calls"][0]["eligible"]
        assert len(mine) == 1 and attached["state"]["participants"][0]["connection"] == mine[0]
        granted = await claim(bob, run, lease_ms=60_000)
        assert (granted["type"], granted["fence"]) == ("antiphon:ok", 1)
        async with connected(nodes.here.ws_url, api_key="anna") as anna:
            error = await refused(anna, run.id, output(run.call_ids[0]))
            assert (error["code"], error["holder"]) == ("claim_held", "key:bob")
        renewed = await claim(bob, run, "renew", fence=1, lease_ms=70_000)
        assert renewed["expires_at"] > granted["expires_at"]
        assert (await claim(bob, run, "renew", fence=7))["code"] == "stale_fence"
        assert (await claim(bob, run, "release", fence=1))["type"] == "antiphon:ok"
        assert (await claim(bob, run))["fence"] == 2
        await taken(bob, run.id, output(run.call_ids[0]), stream_id=attached["stream_id"])
        assert (await ended(nodes.there, run.id, "anna"))["status"] == "completed"


async def test_a_replay_on_another_node_is_the_log_byte_for_byte(postgres_url: str) -> None:
    async with (
        two_nodes(postgres_url) as nodes,
        connected(nodes.here.ws_url) as owner,
        connected(nodes.there.ws_url) as other,
    ):
        await owner.create(write_script(nodes.folder, "short", [words(200, rate=400)]))
        begun = [await owner.recv(), await owner.recv()]
        await other.hello()
        theirs = await attach_all(other, response_id(begun))
        mine = begun + await owner.collect_run()
        assert log_bytes(theirs) == log_bytes(mine)
        assert not owns(nodes.there, response_id(begun))


@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_create_on_another_node_waits_for_or_streams_the_one_run(
    postgres_url: str, stream: bool
) -> None:
    async with two_nodes(postgres_url) as nodes:
        model = write_script(nodes.folder, "slow", [words(60, rate=100)])
        run = await begin(nodes.here, "x", model, idempotency_key="k")
        async with http(nodes.there) as client:
            given = {"model": model, "input": "x", "idempotency_key": "k", "background": True}
            again = (await client.post("/v1/responses", json=given)).json()
            assert again["id"] == run
            if stream:
                answer = await client.post("/v1/responses", json={**given, "stream": True})
                assert answer.text.endswith("data: [DONE]\n\n") and run in answer.text
        done = await ended(nodes.there, run)
        assert done["status"] == "completed"
