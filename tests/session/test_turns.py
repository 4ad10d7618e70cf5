"""What a plain client sees of its own turns (PROTOCOL 3, 5, 6; field issues P-03, P-16, P-18, P-20)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.session.play import (
    attach_all,
    connected,
    judge,
    log_bytes,
    response_id,
    stub_settings,
    words,
    write_script,
)
from tests.support.gap_checker import check_run
from tests.support.server import running_server
from tests.support.stub_upstream import StubUpstream, events_of_text, play, text
from tests.support.ws_client import TERMINALS

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]


async def get(url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=10, trust_env=False) as http:
        return await http.get(url)


async def test_nothing_lies_between_a_terminal_event_and_the_next_created_of_a_lane() -> None:
    trailer = [b'{"type":"response.metadata","x":1}', b'{"type":"codex.rate_limits"}', events_of_text(["late"])[4]]
    async with (
        StubUpstream(play([*events_of_text(["a ", "b"]), *trailer])) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        lanes = ["a" if turn % 3 else "b" for turn in range(20)]
        for turn, lane in enumerate(lanes):
            await client.create("stub-model" if turn % 2 else "antiphon/echo", stream_id=lane)
        for lane in lanes:
            check_run(await client.collect_run(lane), stream_id=lane)
        for lane in ("a", "b"):
            types = [event["type"] for event in client.received if event["stream_id"] == lane]
            for before, after in zip(types, types[1:], strict=False):
                assert (before in TERMINALS) == (after == "response.created")


async def test_twenty_turns_in_a_row_stand_next_to_each_other_on_the_default_lane() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        for turn in range(20):
            await client.create(input=f"turn {turn}")
        for turn in range(20):
            events = await client.collect_run()
            assert check_run(events, stream_id=None).text == f"turn {turn}"
        assert [e["type"] for e in client.received].count("response.created") == 20


async def test_ids_are_the_same_in_the_stream_the_attachment_the_terminal_and_the_store() -> None:
    async with running_server() as server, connected(server.ws_url) as client, connected(server.ws_url) as other:
        calls = [{"call": {"name": "get_weather", "arguments": {"city": c}}} for c in ("Paris", "Tokyo")]
        model = write_script(server.data_dir, "calls", [words(3), *calls], [words(1)])
        live = await client.run(model, tools=TOOLS)
        run_id = response_id(live)
        await other.hello()
        attached = await attach_all(other, run_id)
        stored = (await get(f"{server.url}/v1/responses/{run_id}")).json()
        items = [event["item"] for event in live if event["type"] == "response.output_item.done"]
        assert log_bytes(live) == log_bytes(attached)
        assert live[-1]["response"] == stored
        assert live[-1]["response"]["output"] == items
        streamed = {event.get("item_id") for event in live} - {None}
        assert streamed <= {item["id"] for item in items}
        await client.create(
            model,
            previous_response_id=run_id,
            input=[
                {"type": "function_call_output", "call_id": call_id, "output": "4 degrees"}
                for call_id in (stored["output"][1]["call_id"], attached[-1]["response"]["output"][2]["call_id"])
            ],
        )
        assert (await client.collect_run())[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    "fields", [{}, {"stream_id": "x"}, {"store": False}, {"tools": TOOLS, "metadata": {"a": "b"}}]
)
async def test_created_in_progress_and_terminal_carry_the_whole_resource(fields: dict[str, Any]) -> None:
    wanted = {
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "background",
        "error",
        "incomplete_details",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "output",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "truncation",
        "usage",
    }
    async with running_server() as server, connected(server.ws_url) as client:
        events = await client.run(input="whole", **fields)
        for event in events:
            judge(event)
        for event in (events[0], events[1], events[-1]):
            assert wanted <= event["response"].keys()
            assert event["response"]["store"] is fields.get("store", True)
        for tool in events[0]["response"]["tools"]:
            assert tool.keys() >= {"name", "description", "parameters", "strict"}


async def test_headers_of_the_handshake_are_no_part_of_any_turn() -> None:
    headers = {
        "Idempotency-Key": "same",
        "OpenAI-Beta": "responses_websockets=2026-02-06",
        "X-Upstream-Authorization": "s",
        "Traceparent": "00-1-1-1",
        "Content-Type": "text/plain",
        "X-Unknown": "1",
    }
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub, key="ours", caller_key=True)) as server,
        connected(server.ws_url + "?beta=true&x=1", headers=headers) as client,
    ):
        ids = [response_id(await client.run("stub-model", said)) for said in ("one", "two", "same", "same")]
        assert len(set(ids)) == 4
        assert [request.authorization for request in stub.requests] == ["Bearer ours"] * 4
        keyed = [response_id(await client.run("stub-model", "k", idempotency_key="k1")) for _ in range(2)]
        assert keyed[0] == keyed[1]
        assert len(stub.requests) == 5


async def test_stream_and_background_have_no_effect_in_a_frame() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        for fields in ({"stream": True}, {"stream": False}, {"background": True}, {"stream_options": {"x": 1}}):
            events = await client.run(input="as ever", **fields)
            assert check_run(events).text == "as ever"
            assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]


async def test_response_processed_is_swallowed_and_unknown_fields_are_ignored() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.send({"type": "response.processed", "response_id": "resp_x"})
        await client.send({"type": "response.processed"})
        item = {
            "role": "user",
            "content": [{"type": "input_text", "text": "hi", "new": 1}],
            "from_the_future": {"a": [1]},
        }
        tool = {"type": "function", "name": "f", "parameters": {}, "colour": "red"}
        events = await client.run(
            input=[item], tools=[tool], event_id="e1", reasoning={"new": True}, unheard_of=[1, {}]
        )
        assert check_run(events).text == "hi"
        assert client.received == events


async def test_an_unknown_key_of_our_own_object_is_refused_by_name() -> None:
    async with running_server() as server, connected(server.ws_url) as client:
        await client.create(antiphon={"on_disconect": 30})
        refused = await client.recv_error()
        assert (refused["status"], refused["error"]["param"]) == (400, "antiphon.on_disconect")


async def test_a_client_that_offers_compression_is_served_without_it() -> None:
    async with running_server() as server, connected(server.ws_url, compression="deflate") as client:
        assert client.socket.response is not None
        assert "Sec-WebSocket-Extensions" not in client.socket.response.headers
        assert "openai-model" not in client.socket.response.headers
        assert check_run(await client.run(input="plain " * 1000)).text == "plain " * 1000


async def test_an_offered_subprotocol_is_not_selected() -> None:
    async with running_server() as server, connected(server.ws_url, subprotocols=["realtime"]) as client:
        assert client.socket.subprotocol is None
        await client.run()
