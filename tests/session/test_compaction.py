"""Compaction inside a run: by a trigger, over a threshold, failing; blobs that survive a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from antiphon.core.compaction import SEAL_PREFIX
from tests.http.calling import key_of
from tests.session.play import checked, connected, response_id, stub_settings
from tests.support.compacting import LONG, asks_for_summary, compacting, said, text_of
from tests.support.server import running_server
from tests.support.stub_upstream import (
    StubUpstream,
    answering,
    calls,
    events_of_text,
    hang,
    play,
    text,
)
from tests.support.ws_client import Event, Refused, WsClient

MODEL = "stub-model"
TRIGGER = {"type": "compaction_trigger"}
AUTOMATIC = {"context_management": [{"type": "compaction", "compact_threshold": 1000}]}
TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]


def user(words: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": words}


def long_answer() -> Any:
    return play(events_of_text([LONG]))


def compaction_of(events: list[Event]) -> dict[str, Any]:
    (item,) = (item for item in events[-1]["response"]["output"] if item["type"] == "compaction")
    return {"type": "compaction", "encrypted_content": item["encrypted_content"]}


async def refused(client: WsClient, input: Any, **fields: Any) -> dict[str, Any]:
    await client.create(MODEL, input, **fields)
    error: dict[str, Any] = (await client.recv_error())["error"]
    return error


# The trigger


@pytest.mark.parametrize("store", [True, False])
async def test_a_trigger_gives_a_compaction_and_nothing_else_and_the_chain_goes_on_from_it(store: bool) -> None:
    async with (
        StubUpstream(compacting("what was done", text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        first = await client.run(MODEL, [user("one")], tools=TOOLS, instructions="Be brief.", store=store)
        events = await client.run(
            MODEL,
            [user("two"), TRIGGER],
            previous_response_id=response_id(first),
            tools=TOOLS,
            instructions="Be brief.",
            store=store,
        )
        checked(events)
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["compaction"]
        assert "response.compaction.compacting" in [event["type"] for event in events]
        assert events[-1]["response"]["usage"]["total_tokens"] == 4, "the compaction's call is charged"
        asked = (await stub.request(1)).body
        assert asks_for_summary(asked)
        assert said(asked)[:-1] == ["one", "w0 ", "two"]
        assert (asked["instructions"], "tools" in asked) == ("Be brief.", False)
        last = await client.run(MODEL, "three", previous_response_id=response_id(events), store=store)
        await client.run(MODEL, "four", previous_response_id=response_id(last), store=store)
        assert said((await stub.request(2)).body) == ["one", "SUMMARY what was done", "two", "three"]
        assert said((await stub.request(3)).body)[-3:] == ["three", "w0 ", "four"]


async def test_a_new_chain_whose_input_ends_with_the_compaction_reads_what_users_said_once() -> None:
    """As Codex does: it keeps the words of developer and user, and puts the compaction behind them."""
    async with (
        StubUpstream(compacting("what was done", text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        rules = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]}
        begun = await client.run(MODEL, [rules], generate=False, store=False)
        first = await client.run(MODEL, [user("one")], previous_response_id=response_id(begun), store=False)
        compacted = await client.run(MODEL, [TRIGGER], previous_response_id=response_id(first), store=False)
        history = [rules, user("one"), compaction_of(compacted)]
        await client.run(MODEL, [*history, user("two")], store=False)
        await client.run(MODEL, [compaction_of(compacted), user("two")], store=False)
        assert said((await stub.request(2)).body) == ["rules", "one", "SUMMARY what was done", "two"]
        assert said((await stub.request(3)).body) == ["rules", "one", "SUMMARY what was done", "two"]


async def test_a_compaction_is_compacted_again_with_its_summary_taken_up() -> None:
    async with (
        StubUpstream(compacting("what was done", text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run(MODEL, "one")
        for number in range(2):
            events = await client.run(MODEL, [TRIGGER], previous_response_id=response_id(events))
            events = await client.run(MODEL, f"on {number}", previous_response_id=response_id(events))
        assert said((await stub.request(3)).body)[:-1] == ["one", "SUMMARY what was done", "on 0", "w0 "]
        assert said((await stub.request(4)).body) == ["one", "on 0", "SUMMARY what was done", "on 1"]


async def test_a_blob_and_a_compacted_chain_survive_a_restart(tmp_path: Path) -> None:
    async with StubUpstream(compacting("what was done", text(1))) as stub:
        async with (
            running_server(tmp_path, **stub_settings(stub)) as server,
            connected(server.ws_url) as client,
        ):
            first = await client.run(MODEL, "one")
            compacted = await client.run(MODEL, [TRIGGER], previous_response_id=response_id(first))
            second = await client.run(MODEL, "two", previous_response_id=response_id(compacted))
        assert (tmp_path / "seal.key").stat().st_mode & 0o777 == 0o600
        async with (
            running_server(tmp_path, **stub_settings(stub)) as server,
            connected(server.ws_url) as client,
        ):
            await client.run(MODEL, [compaction_of(compacted), user("by blob")])
            await client.run(MODEL, "by chain", previous_response_id=response_id(second))
        summary = ["one", "SUMMARY what was done"]
        assert said((await stub.request(3)).body) == [*summary, "by blob"]
        assert said((await stub.request(4)).body) == [*summary, "two", "w0 ", "by chain"]


async def test_a_blob_is_read_on_every_machine_with_the_key_and_on_no_other(tmp_path: Path) -> None:
    async with StubUpstream(compacting("s", text(1))) as stub:
        compacted: list[Event] = []
        for folder, key, readable in (("a", "k" * 32, True), ("b", "k" * 32, True), ("c", "l" * 32, False)):
            (tmp_path / folder).mkdir()
            async with (
                running_server(tmp_path / folder, seal_key=key, **stub_settings(stub)) as server,
                connected(server.ws_url) as client,
            ):
                compacted = compacted or await client.run(MODEL, [user("one"), TRIGGER])
                again = [compaction_of(compacted), user("two")]
                if readable:
                    checked(await client.run(MODEL, again))
                else:
                    assert (await refused(client, again))["code"] == "invalid_compaction"
            assert not (tmp_path / folder / "seal.key").exists()


async def test_a_forged_blob_is_refused_and_a_foreign_one_passes_untouched() -> None:
    async with (
        StubUpstream(compacting("s", text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        blob = compaction_of(await client.run(MODEL, [user("one"), TRIGGER]))["encrypted_content"]
        middle = len(blob) // 2
        changed = blob[:middle] + ("A" if blob[middle] != "A" else "B") + blob[middle + 1 :]
        for forged in (changed, blob[:-8], f"{SEAL_PREFIX}1.", f"{SEAL_PREFIX}1.é", f"{SEAL_PREFIX}2.AAAA"):
            error = await refused(client, [user("x"), {"type": "compaction", "encrypted_content": forged}])
            assert (error["code"], error["param"]) == ("invalid_compaction", "input[1]")
        foreign = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAA"}
        await client.run(MODEL, [foreign, user("x")])
        assert (await stub.request(1)).body["input"] == [foreign, user("x")]


async def test_a_trigger_in_the_wrong_place_or_with_nothing_to_compact_is_refused() -> None:
    async with (
        StubUpstream(compacting("s", calls(("f", "{}")))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        assert (await refused(client, [TRIGGER, user("x")]))["param"] == "input[0]"
        assert (await refused(client, [TRIGGER]))["code"] == "invalid_request"
        assert (await refused(client, [user("x"), TRIGGER], generate=False))["param"] == "generate"
        opened = await client.run(MODEL, "one", tools=TOOLS)
        error = await refused(client, [TRIGGER], previous_response_id=response_id(opened))
        assert error["code"] == "tool_output_missing", "nothing is compacted while a call is open"
        assert len(stub.requests) == 1


# The threshold


async def test_a_history_over_the_threshold_is_compacted_and_the_answer_follows_in_the_same_stream() -> None:
    async with (
        StubUpstream(compacting("what was done", long_answer(), text(2), text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        first = await client.run(MODEL, "one", **AUTOMATIC)
        assert [item["type"] for item in first[-1]["response"]["output"]] == ["message"], "it was short"
        events = await client.run(MODEL, "two", previous_response_id=response_id(first), **AUTOMATIC)
        checked(events)
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["compaction", "message"]
        assert events[-1]["response"]["usage"]["total_tokens"] == 4 + 5, "both calls are charged"
        assert said((await stub.request(1)).body)[:2] == ["one", LONG]
        answered = (await stub.request(2)).body
        assert said(answered) == ["one", "SUMMARY what was done", "two"]
        assert "context_management" not in answered
        await client.run(MODEL, "three", previous_response_id=response_id(events), **AUTOMATIC)
        third = (await stub.request(3)).body
        assert said(third) == ["one", "SUMMARY what was done", "two", "w0 w1 ", "three"]


async def test_a_client_that_sends_everything_again_is_compacted_once() -> None:
    async with (
        StubUpstream(compacting("what was done", text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        history: list[dict[str, Any]] = [user("one"), {"role": "assistant", "content": LONG}, user("two")]
        events = await client.run(MODEL, history, store=False, **AUTOMATIC)
        history += events[-1]["response"]["output"]
        events = await client.run(MODEL, [*history, user("three")], store=False, **AUTOMATIC)
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]
        assert said((await stub.request(2)).body) == ["one", "SUMMARY what was done", "two", "w0 ", "three"]


async def test_words_of_users_alone_are_never_compacted_however_many_they_are() -> None:
    async with (
        StubUpstream(compacting("s", text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        events = await client.run(MODEL, LONG, **AUTOMATIC)
        await client.run(MODEL, "more", previous_response_id=response_id(events), **AUTOMATIC)
        assert len(stub.requests) == 2


async def test_an_answered_call_that_fills_the_context_is_compacted_before_the_next_call_of_the_model() -> None:
    async with (
        StubUpstream(compacting("what was done", calls(("f", "{}")), text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        first = await client.run(MODEL, "one", tools=TOOLS, **AUTOMATIC)
        call_id = first[-1]["response"]["output"][0]["call_id"]
        output = {"type": "function_call_output", "call_id": call_id, "output": LONG}
        events = await client.run(
            MODEL, [output], previous_response_id=response_id(first), tools=TOOLS, **AUTOMATIC
        )
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["compaction", "message"]
        assert said((await stub.request(1)).body)[:-1] == ["one", "function_call", "function_call_output"]
        assert said((await stub.request(2)).body) == ["one", "SUMMARY what was done"]


async def test_a_held_run_is_compacted_between_its_rounds() -> None:
    async with (
        StubUpstream(compacting("what was done", calls(("f", "{}")), text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        await client.create(MODEL, "one", tools=TOOLS, antiphon={"client_tools": "hold"}, **AUTOMATIC)
        events = await client.recv_until(lambda e: e["type"] == "response.output_item.done")
        call_id = events[-1]["item"]["call_id"]
        output = {"type": "function_call_output", "call_id": call_id, "output": LONG}
        await client.send({"type": "response.inject", "response_id": response_id(events), "input": [output]})
        events += [e for e in await client.collect_run() if e["type"] != "response.inject.created"]
        checked(events)
        kinds = [item["type"] for item in events[-1]["response"]["output"]]
        assert kinds == ["function_call", "function_call_output", "compaction", "message"]
        assert said((await stub.request(2)).body) == ["one", "SUMMARY what was done"]
        await client.run(MODEL, "two", previous_response_id=response_id(events), tools=TOOLS)
        assert said((await stub.request(3)).body) == ["one", "SUMMARY what was done", "w0 ", "two"]


# When it fails


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        (
            answering(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
            "context_length_exceeded",
        ),
        (play(events_of_text([" "])), "upstream_error"),
        (play(events_of_text(["cut"])[:-1]), "upstream_error"),
    ],
    ids=["refused", "empty", "broken off"],
)
async def test_a_failing_compaction_fails_the_run_and_the_history_stays(failing: Any, code: str) -> None:
    async with (
        StubUpstream(compacting(failing, long_answer(), text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        first = await client.run(MODEL, "one")
        for input, fields in (("two", AUTOMATIC), ([user("two"), TRIGGER], {})):
            events = await client.run(MODEL, input, previous_response_id=response_id(first), **fields)
            checked(events)
            assert events[-1]["type"] == "response.failed"
            assert events[-1]["response"]["error"]["code"] == code
            assert events[-1]["response"]["output"] == []
        await client.run(MODEL, "three", previous_response_id=response_id(first))
        assert said(stub.requests[-1].body) == ["one", LONG, "three"]


async def test_cancelling_a_compaction_closes_its_call() -> None:
    async with (
        StubUpstream(compacting(hang(), text(1))) as stub,
        running_server(**stub_settings(stub)) as server,
        connected(server.ws_url) as client,
    ):
        first = await client.run(MODEL, "one")
        await client.create(MODEL, [TRIGGER], previous_response_id=response_id(first))
        created = await client.recv_on()
        asked = await stub.request(1)
        await client.send({"type": "response.cancel", "response_id": created["response"]["id"]})
        events = await client.collect_run()
        assert events[-1]["response"]["status"] == "cancelled"
        await asked.closed


# Upstreams that compact by themselves


def native_compaction(encrypted: str) -> Any:
    item = {"type": "compaction", "id": "cmp_theirs", "encrypted_content": encrypted}
    done = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": None}
    return play(
        [
            b'{"type":"response.output_item.done","output_index":0,"item":%b}' % orjson.dumps(item),
            b'{"type":"response.completed","response":%b}' % orjson.dumps(done),
        ]
    )


async def test_an_upstream_with_compaction_of_its_own_is_left_to_it() -> None:
    async with (
        StubUpstream(long_answer()) as stub,
        running_server(**stub_settings(stub, native_compaction=True)) as server,
        connected(server.ws_url) as client,
    ):
        first = await client.run(MODEL, "one", **AUTOMATIC)
        await client.run(MODEL, "two", previous_response_id=response_id(first), **AUTOMATIC)
        second = (await stub.request(1)).body
        assert second["context_management"] == AUTOMATIC["context_management"]
        assert said(second) == ["one", LONG, "two"]
        stub.handler = native_compaction("gAAAA")
        compacted = await client.run(MODEL, [TRIGGER], previous_response_id=response_id(first))
        asked = (await stub.request(2)).body["input"]
        assert (asked[-1], [text_of(item) for item in asked[:-1]]) == (TRIGGER, ["one", LONG])
        assert compaction_of(compacted)["encrypted_content"] == "gAAAA"
        stub.handler = text(1)
        await client.run(MODEL, "three", previous_response_id=response_id(compacted))
        (one, blob, three) = (await stub.request(3)).body["input"]
        assert (text_of(one), blob["id"], blob["encrypted_content"]) == ("one", "cmp_theirs", "gAAAA")
        assert text_of(three) == "three"


async def test_blobs_of_another_tenant_are_refused() -> None:
    keys = [key_of("a", tenant="one"), key_of("b", tenant="two")]
    tenants = [{"id": "one"}, {"id": "two"}]
    async with (
        StubUpstream(compacting("s", text(1))) as stub,
        running_server(auth="required", key=keys, tenant=tenants, **stub_settings(stub)) as server,
    ):
        async with connected(server.ws_url, api_key="a") as client:
            compacted = await client.run(MODEL, [user("one"), TRIGGER])
        async with connected(server.ws_url, api_key="b") as client:
            with pytest.raises(Refused, match="invalid_compaction"):
                await client.run(MODEL, [compaction_of(compacted), user("two")])
