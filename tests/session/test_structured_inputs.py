"""Structured inputs are passed, stored and echoed as they came: images, files, references, reasoning, tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from tests.http.calling import key_of
from tests.session.play import checked, connected, response_id, stub_settings
from tests.support.compacting import said
from tests.support.server import RunningServer, running_server
from tests.support.stub_upstream import StubUpstream, calls, events_of_calls, in_turn, play, text
from tests.support.ws_client import Event, WsClient

MODEL = "stub-model"
Item = dict[str, Any]

IMAGE = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "what is this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "high"},
    ],
}
FILE = {
    "role": "user",
    "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}],
}
REASONING = {"type": "reasoning", "id": "rs_theirs", "summary": [], "encrypted_content": "gAAAA-\u00e9/+="}
ADDITIONAL = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [
        {
            "type": "namespace",
            "name": "functions",
            "description": "all",
            "tools": [
                {
                    "type": "custom",
                    "name": "exec",
                    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"},
                }
            ],
        }
    ],
}
BIG = {
    "type": "function_call",
    "call_id": "c",
    "name": "f",
    "arguments": '{"id":9007199254740993,"n":18446744073709551616,"x":1.0}',
}
BIG_OUTPUT = {"type": "function_call_output", "call_id": "c", "output": '{"n":1e400, "x": 1.10}'}
UNKNOWN = {"type": "from_the_future", "n": 2**64 - 1, "m": -(2**63), "x": 1.0, "deep": [[[[{}]]]]}
CODEX = {**IMAGE, "id": "msg_codex-1", "internal_chat_message_metadata_passthrough": {"turn_id": "t"}}
INPUT: list[Item] = [IMAGE, FILE, REASONING, ADDITIONAL, BIG, BIG_OUTPUT, UNKNOWN, CODEX]

GRAMMAR = {
    "type": "custom",
    "name": "apply_patch",
    "description": "patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch" /.+/s'},
}
NAMESPACE = {
    "type": "namespace",
    "name": "shell",
    "description": "a shell",
    "tools": [{"type": "function", "name": "exec", "parameters": {"type": "object", "maximum": 9007199254740993}}],
}


def user(words: str) -> Item:
    return {"type": "message", "role": "user", "content": words}


def reference(item_id: str) -> Item:
    return {"type": "item_reference", "id": item_id}


async def input_items(server: RunningServer, run_id: str) -> list[Item]:
    async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as http:
        answer = await http.get(f"/v1/responses/{run_id}/input_items", params={"order": "asc"})
    found: list[Item] = orjson.loads(answer.content)["data"]
    return found


async def refused(client: WsClient, input: Any, **fields: Any) -> Event:
    await client.create(MODEL, input, **fields)
    return await client.recv_error()


def answer_with_reasoning() -> Any:
    """A reasoning item with its encrypted content, a call, as upstreams with `store: false` give them."""
    first, *rest = events_of_calls(("f", BIG["arguments"], "call_theirs"))
    item = {"type": "reasoning", "id": "rs_upstream", "summary": [], "encrypted_content": "gAAAA=="}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    later = []
    for raw in rest:
        event = orjson.loads(raw)
        if "output_index" in event:
            event["output_index"] += 1
        if event["type"] == "response.completed":
            event["response"]["output"].insert(0, item)
        later.append(orjson.dumps(event))
    return play([first, orjson.dumps(done), *later])


@pytest.mark.parametrize("store", [True, False])
async def test_structured_items_and_tools_reach_the_upstream_exactly_and_are_listed_and_echoed(
    store: bool,
) -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run(MODEL, INPUT, tools=[GRAMMAR, NAMESPACE], store=store)
        checked(events)
        sent = (await stub.request(0)).body
        assert sent["input"] == INPUT
        assert b'"n":18446744073709551615' in (await stub.request(0)).raw
        assert sent["tools"] == [GRAMMAR, NAMESPACE]
        assert events[-1]["response"]["tools"] == [GRAMMAR, NAMESPACE]
        if store:
            for listed, given in zip(await input_items(server, response_id(events)), INPUT, strict=True):
                assert {key: listed[key] for key in given} == given
        await client.run(MODEL, "on", previous_response_id=response_id(events), store=store)
        assert (await stub.request(1)).body["input"][: len(INPUT)] == INPUT


async def test_a_chain_of_structured_items_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async with StubUpstream(text(1)) as stub:
        async with running_server(tmp_path, **stub_settings(stub)) as server, connected(server.ws_url) as client:
            first = response_id(await client.run(MODEL, INPUT))
        async with running_server(tmp_path, **stub_settings(stub)) as server, connected(server.ws_url) as client:
            await client.run(MODEL, "on", previous_response_id=first)
        assert (await stub.request(1)).body["input"][: len(INPUT)] == INPUT


async def test_reasoning_that_a_client_sends_back_has_the_id_its_encryption_belongs_to() -> None:
    async with (
        StubUpstream(answer_with_reasoning()) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        for store, kept in ((True, {"id": "rs_upstream"}), (False, {})):
            events = await client.run(MODEL, [user("go")], include=["reasoning.encrypted_content"], store=store)
            reasoning, call = events[-1]["response"]["output"]
            assert reasoning["encrypted_content"] == "gAAAA=="
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
            await client.run(MODEL, [user("go"), reasoning, call, output], store=store)
            _, sent, sent_call, sent_output = stub.requests[-1].body["input"]
            assert sent == {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA==", **kept}
            assert sent_call["arguments"] == BIG["arguments"]
            assert sent_call["call_id"] == sent_output["call_id"]


async def test_calls_of_the_server_that_a_client_sends_back_are_calls_with_their_outputs() -> None:
    tools = [{"type": "mcp", "server_label": "antiphon", "allowed_tools": ["current_time"]}]
    async with (
        StubUpstream(in_turn(calls(("current_time", "{}", "call_theirs")), text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run(MODEL, [user("when?")], tools=tools)
        output = events[-1]["response"]["output"]
        assert [item["type"] for item in output] == ["mcp_list_tools", "mcp_call", "message"]
        await client.run(MODEL, [user("when?"), *output, user("and now?")], tools=tools)
        again = (await stub.request(2)).body["input"]
        assert [item.get("type") for item in again] == [
            "message",
            "function_call",
            "function_call_output",
            "message",
            "message",
        ]
        assert (again[1]["name"], again[2]["output"]) == ("current_time", output[1]["output"])
        assert again[1]["call_id"] == again[2]["call_id"]


# References


async def test_references_become_the_items_they_name_also_after_a_restart(tmp_path: Path) -> None:
    """A client that keeps ids instead of items names its whole history by them."""
    async with StubUpstream(answer_with_reasoning()) as stub:
        async with running_server(tmp_path, **stub_settings(stub)) as server, connected(server.ws_url) as client:
            events = await client.run(MODEL, [{**IMAGE, "id": "msg_mine"}, user("go")])
            reasoning, call = events[-1]["response"]["output"]
            listed = await input_items(server, response_id(events))
        stub.handler = text(1)
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
        named = [reference(item["id"]) for item in (*listed, reasoning, call)]
        async with running_server(tmp_path, **stub_settings(stub)) as server, connected(server.ws_url) as client:
            events = await client.run(MODEL, [*named, output])
            again = await input_items(server, response_id(events))
            image, go, thought, made, answered = (await stub.request(1)).body["input"]
            assert (image, go) == ({**IMAGE, "id": "msg_mine"}, user("go"))
            assert (thought["id"], thought["encrypted_content"]) == ("rs_upstream", "gAAAA==")
            assert (made["arguments"], made["call_id"]) == (BIG["arguments"], answered["call_id"])
            assert [item["type"] for item in again] == ["item_reference"] * 4 + ["function_call_output"]
            await client.run(MODEL, "on", previous_response_id=response_id(events))
            assert (await stub.request(2)).body["input"][:5] == (await stub.request(1)).body["input"]


async def test_what_the_chain_holds_is_not_said_twice() -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run(MODEL, [{**user("one"), "id": "msg_mine"}])
        named = [reference("msg_mine"), reference(events[-1]["response"]["output"][0]["id"])]
        await client.run(MODEL, [*named, user("two")], previous_response_id=response_id(events))
        await client.run(MODEL, [*named, user("two")])
        for index in (1, 2):
            assert said((await stub.request(index)).body) == ["one", "w0 ", "two"]


async def test_an_item_nobody_keeps_or_another_tenant_keeps_is_not_found() -> None:
    keys = [key_of("a", tenant="one"), key_of("p", tenant="one"), key_of("b", tenant="two")]
    settings: dict[str, Any] = {"auth": "required", "key": keys, "tenant": [{"id": "one"}, {"id": "two"}]}
    async with StubUpstream(text(1)) as stub, running_server(**settings, **stub_settings(stub)) as server:
        async with connected(server.ws_url, api_key="a") as client:
            stored = await client.run(MODEL, [{**user("one"), "id": "msg_mine"}])
            hidden = await client.run(MODEL, "secret", antiphon={"visibility": "private"})
            unstored = await client.run(MODEL, "one", store=False)
            names = [events[-1]["response"]["output"][0]["id"] for events in (stored, hidden, unstored)]
            for unknown in (names[2], "msg_unknown", "resp_1", f"msg_{'0' * 36}"):
                error = await refused(client, [user("x"), reference(unknown)])
                assert (error["status"], error["error"]["code"]) == (400, "item_not_found")
                assert error["error"]["param"] == "input[1]"
        async with connected(server.ws_url, api_key="p") as client:
            assert (await refused(client, [reference(names[1])]))["error"]["code"] == "item_not_found"
            await client.run(MODEL, [reference(names[0])])
        async with connected(server.ws_url, api_key="b") as client:
            derived = "msg_" + response_id(stored).removeprefix("resp_") + "0000"
            for foreign in (names[0], "msg_mine", derived):
                assert (await refused(client, [reference(foreign)]))["error"]["code"] == "item_not_found"


async def test_an_item_of_a_deleted_response_is_not_found() -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run(MODEL, [{**user("one"), "id": "msg_mine"}])
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as http:
            await http.delete(f"/v1/responses/{response_id(events)}")
        for gone in ("msg_mine", events[-1]["response"]["output"][0]["id"]):
            assert (await refused(client, [reference(gone)]))["error"]["code"] == "item_not_found"


async def test_items_referred_to_have_a_bound_together_and_one_named_twice_is_said_once() -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub), limits={"max_message_bytes": 100_000}) as server,
        connected(server.ws_url) as client,
    ):
        large = "x" * 60_000
        await client.run(MODEL, [{**user(large), "id": "msg_1"}])
        await client.run(MODEL, [{**user(large), "id": "msg_2"}])
        error = await refused(client, [reference("msg_1"), reference("msg_2")])
        assert (error["status"], error["error"]["code"]) == (413, "payload_too_large")
        await client.run(MODEL, [reference("msg_1")] * 300)
        assert said((await stub.request(2)).body) == [large]


async def test_an_item_with_nothing_but_an_id_is_a_reference() -> None:
    async with (
        StubUpstream(text(1)) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        await client.run(MODEL, [{**user("one"), "id": "msg_mine"}])
        await client.run(MODEL, [{"id": "msg_mine"}, user("two")])
        assert said((await stub.request(1)).body) == ["one", "two"]
