"""Conversations that clients make: their items, and the turns that are said in them (PROTOCOL 11.9)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from antiphon_protocol.bodies import Conversation, ConversationDeleted, ConversationItemList
from tests.http.calling import MODEL, body, create, ended, error_of, get, http, key_of, slow, stub_server, until
from tests.support import stub_upstream as stub
from tests.support.compacting import compacting, said
from tests.support.server import RunningServer, running_server
from tests.support.ws_client import ws_client

TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]


def user(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": words, **fields}


async def post(server: RunningServer, path: str, key: str | None = None, **fields: Any) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.post(path, json=fields)


async def delete(server: RunningServer, path: str, key: str | None = None) -> httpx2.Response:
    async with http(server, key) as client:
        return await client.delete(path)


async def conversation(server: RunningServer, key: str | None = None, **fields: Any) -> str:
    answer = await post(server, "/v1/conversations", key, **fields)
    assert answer.status_code == 200, answer.text
    Conversation.model_validate(answer.json())
    return str(answer.json()["id"])


async def listed(server: RunningServer, conversation_id: str, **query: Any) -> list[dict[str, Any]]:
    answer = await get(server, f"/v1/conversations/{conversation_id}/items", **{"order": "asc", **query})
    assert answer.status_code == 200, answer.text
    ConversationItemList.model_validate(answer.json())
    items: list[dict[str, Any]] = answer.json()["data"]
    return items


def words(items: list[dict[str, Any]]) -> list[str]:
    """The texts of messages, and the types of everything else."""
    return [item["content"][0]["text"] if item["type"] == "message" else item["type"] for item in items]


def cut_short(events: list[bytes]) -> list[bytes]:
    """The same answer, ended by the limit of its tokens."""
    last = json.loads(events[-1])
    last["type"] = "response.incomplete"
    last["response"] |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return [*events[:-1], json.dumps(last).encode()]


async def test_a_conversation_is_made_read_changed_and_deleted() -> None:
    async with running_server() as server:
        made = (await post(server, "/v1/conversations", metadata={"topic": "demo"}, items=[user("hi")])).json()
        path = f"/v1/conversations/{made['id']}"
        assert (made["object"], made["metadata"]) == ("conversation", {"topic": "demo"})
        assert isinstance(made["created_at"], int) and made["id"].startswith("conv_")
        assert (await get(server, path)).json() == made
        changed = (await post(server, path, metadata={"topic": "other"})).json()
        assert changed == {**made, "metadata": {"topic": "other"}} == (await get(server, path)).json()
        assert words(await listed(server, made["id"])) == ["hi"]
        gone = (await delete(server, path)).json()
        ConversationDeleted.model_validate(gone)
        assert gone == {"id": made["id"], "object": "conversation.deleted", "deleted": True}
        for answer in (await get(server, path), await get(server, f"{path}/items"), await delete(server, path)):
            assert (answer.status_code, error_of(answer)["code"]) == (404, "conversation_not_found")


async def test_items_are_added_paged_and_deleted() -> None:
    async with running_server() as server:
        one = await conversation(server)
        path = f"/v1/conversations/{one}/items"
        added = (await post(server, path, items=[user(f"m{n}") for n in range(5)])).json()
        assert words(added["data"]) == ["m0", "m1", "m2", "m3", "m4"] and not added["has_more"]
        ids = [item["id"] for item in added["data"]]
        assert len(set(ids)) == 5 and all(i.startswith("msg_") for i in ids)
        assert all(item["status"] == "completed" and item["role"] == "user" for item in added["data"])
        page = (await get(server, path, limit=2)).json()
        assert (words(page["data"]), page["has_more"]) == (["m4", "m3"], True)
        assert (page["first_id"], page["last_id"]) == (ids[4], ids[3])
        page = (await get(server, path, limit=2, after=ids[1], order="desc")).json()
        assert (words(page["data"]), page["has_more"]) == (["m0"], False)
        assert words(await listed(server, one, after=ids[2])) == ["m3", "m4"]
        assert (await get(server, f"{path}/{ids[1]}")).json() == added["data"][1]
        assert (await delete(server, f"{path}/{ids[1]}")).json()["id"] == one
        assert (await get(server, f"{path}/{ids[1]}")).status_code == 404
        assert words(await listed(server, one)) == ["m0", "m2", "m3", "m4"]


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("", {"metadata": {"k": 1}}, "metadata.k"),
        ("", {"metadata": {str(n): "v" for n in range(17)}}, "metadata"),
        ("", {"items": [user("x")] * 21}, "items"),
        ("", {"items": [{"type": "message"}]}, "items[0].role"),
        ("/ID", {}, "metadata"),
        ("/ID/items", {}, "items"),
        ("/ID/items", {"items": []}, "items"),
        ("/ID/items", {"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0].type"),
        ("/ID/items", {"items": [user("again", id="mine")]}, "items"),
        ("/ID/items?include=everything", {"items": [user("x")]}, "include"),
    ],
)
async def test_what_does_not_fit_is_refused_by_name(path: str, fields: dict[str, Any], param: str) -> None:
    async with running_server() as server:
        one = await conversation(server, items=[user("first", id="mine")])
        answer = await post(server, f"/v1/conversations{path.replace('ID', one)}", **fields)
        assert (answer.status_code, error_of(answer)["param"]) == (400, param), answer.text
        assert words(await listed(server, one)) == ["first"]


@pytest.mark.parametrize(
    ("query", "param"), [({"limit": "0"}, "limit"), ({"order": "up"}, "order"), ({"after": "msg_no"}, "after")]
)
async def test_a_page_that_cannot_be_is_refused_by_name(query: dict[str, str], param: str) -> None:
    async with running_server() as server:
        answer = await get(server, f"/v1/conversations/{await conversation(server)}/items", **query)
        assert (answer.status_code, error_of(answer)["param"]) == (400, param)


async def test_a_turn_reads_what_was_said_before_and_leaves_what_it_said() -> None:
    async with stub_server(stub.in_turn(stub.text(1), stub.text(1), stub.text(1))) as (upstream, server):
        one = await conversation(server, items=[user("zero")])
        first = await create(server, "one", model=MODEL, conversation=one)
        assert first["conversation"] == {"id": one} and first["previous_response_id"] is None
        second = await create(server, [user("two")], model=MODEL, conversation={"id": one})
        items = await listed(server, one)
        assert words(items) == ["zero", "one", "w0 ", "two", "w0 "]
        assert [items[2], items[4]] == [first["output"][0], second["output"][0]]
        inputs = (await get(server, f"/v1/responses/{first['id']}/input_items")).json()["data"]
        assert inputs == [items[1]]
        assert said((await upstream.request(1)).body) == ["zero", "one", "w0 ", "two"]
        # Somebody edits it: the next turn reads what is there now, and nothing else.
        await delete(server, f"/v1/conversations/{one}/items/{items[1]['id']}")
        await post(server, f"/v1/conversations/{one}/items", items=[user("added")])
        await create(server, "three", model=MODEL, conversation=one)
        asked = (await upstream.request(2)).body
        assert said(asked) == ["zero", "w0 ", "two", "w0 ", "added", "three"]
        theirs = {item["id"] for item in asked["input"] if "id" in item}
        assert "conversation" not in asked and theirs == {"message_0"}, "no ids but those of the upstream itself"


@pytest.mark.parametrize("edited", [False, True], ids=["untouched", "edited"])
async def test_a_call_is_answered_in_the_next_turn_of_its_conversation(edited: bool) -> None:
    handler = stub.in_turn(stub.calls(("f", "{}")), stub.text(1))
    async with stub_server(handler) as (upstream, server):
        one = await conversation(server)
        first = await create(server, "go", model=MODEL, tools=TOOLS, conversation=one)
        call = first["output"][0]
        if edited:
            await post(server, f"/v1/conversations/{one}", metadata={})
            (asked, *_) = await listed(server, one)
            await delete(server, f"/v1/conversations/{one}/items/{asked['id']}")
        answer = await post(server, "/v1/responses", **body("on", model=MODEL, tools=TOOLS, conversation=one))
        assert error_of(answer)["code"] == "tool_output_missing"
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "done"}
        await create(server, [output], model=MODEL, tools=TOOLS, conversation=one)
        sent = (await upstream.request(1)).body["input"]
        pair = [item for item in sent if item["type"] != "message"]
        assert [item["type"] for item in pair] == ["function_call", "function_call_output"]
        assert pair[0]["call_id"] == pair[1]["call_id"]
        assert [i["type"] for i in await listed(server, one)][-3:] == [
            "function_call",
            "function_call_output",
            "message",
        ]


@pytest.mark.parametrize("edited", [False, True], ids=["untouched", "edited"])
async def test_a_compaction_in_a_conversation_is_what_the_next_turn_begins_with(edited: bool) -> None:
    async with stub_server(compacting("what was done", stub.text(1))) as (upstream, server):
        one = await conversation(server)
        await create(server, "one", model=MODEL, conversation=one)
        await create(server, [{"type": "compaction_trigger"}], model=MODEL, conversation=one)
        assert words(await listed(server, one)) == ["one", "w0 ", "compaction"]
        if edited:
            await post(server, f"/v1/conversations/{one}/items", items=[user("added")])
        await create(server, "two", model=MODEL, conversation=one)
        added = ["added"] if edited else []
        assert said(upstream.requests[-1].body) == ["one", "SUMMARY what was done", *added, "two"]


async def test_what_is_sent_again_with_its_id_is_in_the_conversation_once() -> None:
    async with running_server() as server:
        one = await conversation(server, items=[user("first", id="mine"), user("between")])
        await create(server, [user("first", id="mine"), user("second")], conversation=one)
        assert words(await listed(server, one)) == ["first", "between", "second", "second"]


@pytest.mark.parametrize("path", ["", "/input_items"])
async def test_what_nobody_knows_cannot_be_included_in_a_response(path: str) -> None:
    async with running_server() as server:
        made = await create(server, "x")
        good = await get(server, f"/v1/responses/{made['id']}{path}", include="reasoning.encrypted_content")
        bad = await get(server, f"/v1/responses/{made['id']}{path}", **{"include[]": "everything"})
        assert good.status_code == 200
        assert (bad.status_code, error_of(bad)["param"]) == (400, "include")


async def test_an_output_whose_call_was_deleted_is_named_before_any_model_is_asked() -> None:
    async with stub_server(stub.text(1)) as (upstream, server):
        items = [
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        ]
        one = await conversation(server, items=items)
        call = (await listed(server, one))[0]
        await delete(server, f"/v1/conversations/{one}/items/{call['id']}")
        answer = await post(server, "/v1/responses", **body("on", model=MODEL, conversation=one))
        assert (answer.status_code, error_of(answer)["code"]) == (400, "tool_output_unknown")
        assert not upstream.requests


async def test_a_second_writer_is_told_before_its_model_is_asked_and_everything_goes_on_afterwards() -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def first_waits(request: stub.StubRequest, conn: stub.StubConn) -> None:
        started.set()
        await go.wait()
        await stub.text(1)(request, conn)

    async with stub_server(first_waits) as (upstream, server):
        one = await conversation(server, items=[user("zero")])
        path = f"/v1/conversations/{one}"
        first = asyncio.create_task(create(server, "one", model=MODEL, conversation=one))
        await started.wait()
        item = (await listed(server, one))[0]["id"]
        second = {**body("two", model=MODEL), "conversation": one}
        for answer in (
            await post(server, "/v1/responses", **second),
            await post(server, "/v1/responses", **second, background=True),
            await post(server, f"{path}/items", items=[user("x")]),
            await delete(server, f"{path}/items/{item}"),
            await delete(server, path),
        ):
            assert (answer.status_code, error_of(answer)["code"]) == (409, "conversation_locked"), answer.text
            assert answer.headers["retry-after"] == "1"
        async with ws_client(server.ws_url) as client:
            await client.send({"type": "response.create", **second})
            refused = await client.recv_on()
            assert (refused["status"], refused["error"]["code"]) == (409, "conversation_locked")
        assert (await get(server, "/ready")).status_code == 200
        go.set()
        await first
        await create(server, "two", model=MODEL, conversation=one)
        assert len(upstream.requests) == 2
        assert words(await listed(server, one)) == ["zero", "one", "w0 ", "two", "w0 "]


async def test_of_many_writers_at_once_one_goes_on_and_pays() -> None:
    go = asyncio.Event()

    async def waits(request: stub.StubRequest, conn: stub.StubConn) -> None:
        await go.wait()
        await stub.text(1)(request, conn)

    async with stub_server(waits) as (upstream, server):
        one = await conversation(server)
        tries = [
            asyncio.create_task(post(server, "/v1/responses", **body(str(n), model=MODEL, conversation=one)))
            for n in range(8)
        ]
        await until(lambda: sum(task.done() for task in tries) == 7)
        go.set()
        answers = [await task for task in tries]
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
        assert len(upstream.requests) == 1
        assert len(await listed(server, one)) == 2


@pytest.mark.parametrize(
    ("how", "kept"),
    [("failed", []), ("cancelled", ["go"]), ("incomplete", ["go", "w0 "])],
)
async def test_a_turn_that_did_not_complete_leaves_what_can_be_gone_on_with(how: str, kept: list[str]) -> None:
    handlers: dict[str, stub.Handler] = {
        "failed": stub.answering(400, {"error": {"message": "no", "code": "context_length_exceeded"}}),
        "incomplete": stub.play(cut_short(stub.events_of_text(["w0 "]))),
    }
    async with stub_server(handlers.get(how, stub.text(1))) as (_, server):
        one = await conversation(server)
        if how == "cancelled":
            running = await create(server, "go", model=slow(server), conversation=one, background=True)
            await post(server, f"/v1/responses/{running['id']}/cancel")
            await ended(server, running["id"])
        else:
            await post(server, "/v1/responses", **body("go", model=MODEL, conversation=one))
        found = words(await listed(server, one))
        assert found[: len(kept)] == kept if how == "cancelled" else found == kept
        again = await create(server, "again", conversation=one)
        assert words(await listed(server, one))[-2:] == ["again", again["output"][0]["content"][0]["text"]]


async def test_a_warm_up_leaves_its_input_and_its_conversation_can_be_gone_on_with() -> None:
    async with running_server() as server:
        one = await conversation(server)
        async with ws_client(server.ws_url) as client:
            frame = {"type": "response.create", "generate": False, "conversation": one}
            await client.send({**frame, **body("prompt")})
            events = await client.recv_until(lambda event: event["type"] == "response.completed")
        assert events[-1]["response"]["conversation"] == {"id": one}
        await create(server, "go", conversation=one)
        assert words(await listed(server, one)) == ["prompt", "go", "go"]


async def test_a_response_that_is_deleted_leaves_the_items_of_its_conversation() -> None:
    async with stub_server(stub.text(1)) as (upstream, server):
        one = await conversation(server)
        first = await create(server, "one", model=MODEL, conversation=one)
        assert (await delete(server, f"/v1/responses/{first['id']}")).status_code == 200
        await create(server, "two", model=MODEL, conversation=one)
        assert said((await upstream.request(1)).body) == ["one", "w0 ", "two"]


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"previous_response_id": "resp_" + "0" * 32}, 400, "invalid_request", "conversation"),
        ({"store": False}, 400, "invalid_request", "store"),
        ({"antiphon": {"visibility": "private"}}, 400, "invalid_request", "antiphon.visibility"),
        ({"conversation": {}}, 400, "invalid_request", "conversation"),
        ({"conversation": "conv_" + "0" * 32}, 404, "conversation_not_found", "conversation"),
    ],
)
async def test_a_create_that_names_a_conversation_wrongly_is_refused(
    fields: dict[str, Any], status: int, code: str, param: str
) -> None:
    async with running_server() as server:
        one = await conversation(server)
        answer = await post(server, "/v1/responses", **{**body(conversation=one), **fields})
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
        assert await listed(server, one) == []


async def test_a_chain_goes_on_from_a_turn_of_a_conversation_and_leaves_it_alone() -> None:
    async with stub_server(stub.text(1)) as (upstream, server):
        one = await conversation(server)
        first = await create(server, "one", model=MODEL, conversation=one)
        fork = await create(server, "aside", model=MODEL, previous_response_id=first["id"])
        assert fork["conversation"] is None
        assert said((await upstream.request(1)).body) == ["one", "w0 ", "aside"]
        assert words(await listed(server, one)) == ["one", "w0 "]


async def test_what_a_stopped_server_had_is_there_for_the_next_one(tmp_path: Any) -> None:
    async with running_server(tmp_path) as server:
        one = await conversation(server, metadata={"k": "v"})
        await create(server, "one", conversation=one)
    async with running_server(tmp_path) as server:
        assert (await get(server, f"/v1/conversations/{one}")).json()["metadata"] == {"k": "v"}
        await create(server, "two", conversation=one)
        assert words(await listed(server, one)) == ["one", "one", "two", "two"]


async def test_another_device_attaches_before_the_first_turn_and_sees_it() -> None:
    async with running_server() as server:
        one = await conversation(server)
        assert (await get(server, f"/v1/conversations/{one}/runs")).json()["data"] == []
        async with ws_client(server.ws_url) as client:
            await client.hello()
            assert (await client.command("antiphon:attach", conversation_id=one))["runs"] == []
            first = await create(server, "one", conversation=one)
            pushed = lambda: [f["response_id"] for f in client.received if f["type"] == "antiphon:run_attached"]  # noqa: E731
            await until(lambda: pushed() == [first["id"]])
        runs = (await get(server, f"/v1/conversations/{one}/runs")).json()["data"]
        assert [(run["response_id"], run["conversation_id"]) for run in runs] == [(first["id"], one)]


async def test_a_turn_of_a_conversation_is_not_steered() -> None:
    async with running_server() as server:
        one = await conversation(server)
        running = await create(server, "go", model=slow(server), conversation=one, background=True)
        answer = await post(server, f"/v1/responses/{running['id']}/steer", input="more")
        assert (answer.status_code, error_of(answer)["code"]) == (409, "steering_not_supported")
        await post(server, f"/v1/responses/{running['id']}/cancel")


async def test_a_driver_of_the_tenant_writes_and_its_creator_or_an_operator_deletes() -> None:
    keys = [
        key_of(k, name=k, tenant="acme", role=k.rstrip("2")) for k in ("driver", "driver2", "operator", "viewer")
    ]
    async with running_server(auth="required", key=keys, tenant=[{"id": "acme"}]) as server:
        one = await conversation(server, "driver")
        await create(server, "one", key="driver2", conversation=one)
        path = f"/v1/conversations/{one}"
        assert (await delete(server, path, "driver2")).status_code == 403
        assert (await post(server, "/v1/conversations", "viewer")).status_code == 403
        assert len((await get(server, f"{path}/items", "viewer")).json()["data"]) == 2
        assert (await delete(server, path, "operator")).status_code == 200
