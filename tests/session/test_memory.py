"""What a connection remembers, and when it forgets (PROTOCOL 5.4, 5.5; field issue P-07)."""

from __future__ import annotations

import httpx2
import pytest

from tests.session.play import connected, response_id, started, stub_settings, text_of, words, write_script
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, text
from tests.support.ws_client import Refused, WsClient

WRONG_OUTPUT = [{"type": "function_call_output", "call_id": "call_nobody_made", "output": "x"}]


async def continues(client: WsClient, parent: str, **fields: object) -> bool:
    """Whether a create may continue this response; nothing else than `previous_response_not_found` says no."""
    try:
        await client.run(input="next", previous_response_id=parent, **fields)
    except Refused as refused:
        assert refused.event["error"]["code"] == "previous_response_not_found", refused.event.raw
        assert (refused.event["status"], refused.event["error"]["param"]) == (400, "previous_response_id")
        return False
    return True


@pytest.mark.parametrize("lane", [None, "main"])
async def test_a_refused_continuation_on_its_own_lane_evicts_an_unstored_parent(lane: str | None) -> None:
    on = {} if lane is None else {"stream_id": lane}
    async with running_server() as server, connected(server.ws_url) as client:
        parent = response_id(await client.run(store=False, **on))
        await client.create(previous_response_id=parent, input=WRONG_OUTPUT, **on)
        assert (await client.recv_error(lane))["error"]["code"] == "tool_output_unknown"
        assert not await continues(client, parent, **on)
        fresh = response_id(await client.run(store=False, **on))
        assert await continues(client, fresh, **on)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "gpt-9"},
        {"temperature": 9},
        {"include": ["x"]},
        {"conversation": "conv_x"},
        {"antiphon": {"x": 1}},
    ],
)
async def test_every_kind_of_refusal_evicts(wrong: dict[str, object]) -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        parent = response_id(await client.run(store=False))
        await client.create(**{"previous_response_id": parent, **wrong})
        await client.recv_error()
        assert not await continues(client, parent)


async def test_a_stored_parent_outlives_its_refused_continuations() -> None:
    async with running_server() as server, connected(server.ws_url) as client, connected(server.ws_url) as other:
        parent = response_id(await client.run(store=True))
        for wrong in ({"input": WRONG_OUTPUT}, {"model": "gpt-9"}, {"temperature": 9}):
            await client.create(**{"previous_response_id": parent, **wrong})
            await client.recv_error()
        assert await continues(client, parent)
        assert await continues(other, parent)


async def test_a_refused_fork_on_another_lane_keeps_the_parent() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        parent = response_id(await client.run(store=False, stream_id="source"))
        for lane in ({"stream_id": "fork"}, {}):
            await client.create(previous_response_id=parent, input=WRONG_OUTPUT, **lane)
            await client.recv_error(lane.get("stream_id"))
        assert await continues(client, parent, stream_id="source")


async def test_a_cancelled_continuation_keeps_the_parent() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        slow = write_script(server.data_dir, "slow", [words(1), {"delay_s": 30}])
        parent = response_id(await client.run(input="remember me", store=False))
        await client.create(slow, store=False, previous_response_id=parent)
        second = await started(client)
        await client.send({"type": "response.cancel", "response_id": second})
        assert (await client.collect_run())[-1]["response"]["status"] == "cancelled"
        assert await continues(client, second, stream_id="fork")
        assert await continues(client, parent)


async def test_a_failed_continuation_keeps_the_parent() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        failing = write_script(server.data_dir, "failing", [words(1), {"error": {}}])
        parent = response_id(await client.run(store=False))
        failed = await client.run(failing, store=False, previous_response_id=parent)
        assert failed[-1]["type"] == "response.failed"
        assert await continues(client, parent)


async def test_a_fresh_connection_knows_nothing_of_another_one() -> None:
    async with running_server() as server:
        async with connected(server.ws_url) as first:
            parent = response_id(await first.run(store=False))
            async with connected(server.ws_url) as second:
                assert not await continues(second, parent)
            assert await continues(first, parent)
        async with connected(server.ws_url) as third:
            assert not await continues(third, parent)
        async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
            body = {"model": "antiphon/echo", "input": "x", "previous_response_id": parent}
            answer = await http.post(f"{server.url}/v1/responses", json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "previous_response_not_found")


async def test_only_the_newest_response_of_a_lane_is_remembered() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        first = response_id(await client.run(store=False, stream_id="a"))
        other = response_id(await client.run(store=False, stream_id="b"))
        second = response_id(await client.run(store=False, stream_id="a", previous_response_id=first))
        assert not await continues(client, first, stream_id="c")
        assert await continues(client, other, stream_id="c")
        assert await continues(client, second, stream_id="a")


async def test_the_chain_goes_upstream_in_order_whoever_remembers_it() -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        parent, said = None, []
        for turn, store in enumerate((False, True, False, False)):
            said.append(f"turn {turn}")
            events = await client.run("stub-model", said[-1], store=store, previous_response_id=parent)
            parent = response_id(events)
            assert text_of(events) == "w0 "
            sent = stub.requests[-1].body["input"]
            assert [item["content"] for item in sent if item.get("role") == "user"] == said
            assert [item["role"] for item in sent] == ["user", "assistant"] * turn + ["user"]


async def test_a_stored_child_of_an_unstored_parent_stands_alone_after_the_connection() -> None:
    async with StubUpstream(text(1)) as stub, running_server(**stub_settings(stub)) as server:
        async with connected(server.ws_url) as client:
            parent = response_id(await client.run("stub-model", "secret", store=False))
            child = response_id(await client.run("stub-model", "kept", previous_response_id=parent))
        async with connected(server.ws_url) as later:
            await later.run("stub-model", "later", previous_response_id=child)
            sent = stub.requests[-1].body["input"]
            assert [item["content"] for item in sent if item.get("role") == "user"] == ["secret", "kept", "later"]
