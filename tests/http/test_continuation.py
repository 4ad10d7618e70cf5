"""What can be continued and what cannot, over HTTP (PROTOCOL 5.4, 5.6; field issue G-07)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from tests.http.calling import MODEL, begin, body, create, ended, error_of, http, script, slow, stub_server
from tests.support import stub_upstream as stub
from tests.support.http_client import read_sse
from tests.support.server import RunningServer, running_server

EXACT = '{"id":9007199254740993,"n":18446744073709551616,"x":1.0}'


async def go_on(server: RunningServer, parent: str, input: Any = "on", **fields: Any) -> httpx2.Response:
    async with http(server) as client:
        return await client.post("/v1/responses", json=body(input, previous_response_id=parent, **fields))


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, error_of(answer)["code"]


async def test_what_each_status_of_the_parent_means_for_its_continuation() -> None:
    async with running_server() as server:
        completed = (await create(server))["id"]
        text = "[[turns]]\n[[turns.steps]]\ntext='cut'\n[[turns.steps]]\nincomplete='max_output_tokens'"
        incomplete = (await create(server, model=script(server, "cut", text)))["id"]
        failed = (await ended(server, await begin(server, model="antiphon/script:fail")))["id"]
        endless = slow(server)  # once: writing its file again would cut the run that is reading it
        running = await begin(server, model=endless)
        cancelled = await begin(server, model=endless)
        async with http(server) as client:
            await client.post(f"/v1/responses/{cancelled}/cancel")
        assert (await go_on(server, completed)).status_code == 200
        assert (await go_on(server, incomplete)).status_code == 200
        assert (await go_on(server, cancelled)).status_code == 200
        assert code(await go_on(server, failed)) == (400, "response_not_continuable")
        in_progress = await go_on(server, running)
        assert code(in_progress) == (409, "response_in_progress")
        assert in_progress.headers["x-should-retry"] == "false"
        assert code(await go_on(server, "resp_" + "0" * 32)) == (404, "previous_response_not_found")
        assert code(await go_on(server, "")) == (404, "previous_response_not_found")


async def test_the_same_answers_come_after_a_restart(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        completed = (await create(server))["id"]
        failed = (await ended(server, await begin(server, model="antiphon/script:fail")))["id"]
        cancelled = await begin(server, model=slow(server))
        async with http(server) as client:
            await client.post(f"/v1/responses/{cancelled}/cancel")
    async with running_server(tmp_path) as server:
        assert (await go_on(server, completed)).status_code == 200
        assert (await go_on(server, cancelled)).status_code == 200
        assert code(await go_on(server, failed)) == (400, "response_not_continuable")


async def test_the_history_is_the_parents_then_its_input_then_its_output_then_the_new_input(
    tmp_path: Path,
) -> None:
    async with stub_server(stub.text(1), data_dir=tmp_path) as (upstream, server):
        first = (await create(server, "one", model=MODEL, instructions="not inherited"))["id"]
        second = (await create(server, "two", model=MODEL, previous_response_id=first))["id"]
    async with stub_server(stub.text(1), data_dir=tmp_path) as (upstream, server):
        await create(server, "three", model=MODEL, previous_response_id=second)
        await create(server, "other", model=MODEL, previous_response_id=first)
        long, fork = (await upstream.request(0)).body, (await upstream.request(1)).body

    def said(sent: dict[str, Any]) -> list[str]:
        return [i["content"] if isinstance(i["content"], str) else i["content"][0]["text"] for i in sent["input"]]

    assert said(long) == ["one", "w0 ", "two", "w0 ", "three"]
    assert said(fork) == ["one", "w0 ", "other"]
    assert "instructions" not in long


async def test_an_unstored_response_cannot_be_continued_over_http() -> None:
    async with running_server() as server:
        unstored = (await create(server, store=False))["id"]
        assert code(await go_on(server, unstored)) == (404, "previous_response_not_found")


async def test_tool_outputs_that_miss_are_unknown_or_come_twice_are_refused_naming_the_calls() -> None:
    async with stub_server(stub.in_turn(stub.calls(("f", "{}"), ("g", "{}")), stub.text())) as (upstream, server):
        parent = await create(server, model=MODEL)
        one, two = [item["call_id"] for item in parent["output"]]
        assert all(call_id.startswith("call_") for call_id in (one, two))

        def output(call_id: str, text: str = "ok") -> dict[str, Any]:
            return {"type": "function_call_output", "call_id": call_id, "output": text}

        for items, wanted, named in (
            ([output(one)], "tool_output_missing", two),
            ("just talk", "tool_output_missing", one),
            ([output(one), output(two), output("call_x")], "tool_output_unknown", "call_x"),
            ([output(one), output(two), output(one)], "tool_output_duplicate", one),
            ([output(one), {**output(two), "type": "custom_tool_call_output"}], "invalid_request", two),
        ):
            answer = await go_on(server, parent["id"], items, model=MODEL)
            assert code(answer) == (400, wanted) and named in error_of(answer)["message"]
        assert len(upstream.requests) == 1
        child = await go_on(
            server,
            parent["id"],
            [output(one, "1"), output(two, "2"), {"role": "user", "content": "?"}],
            model=MODEL,
        )
        assert child.status_code == 200
        again = await go_on(server, child.json()["id"], [output(one)], model=MODEL)
        assert code(again) == (400, "tool_output_duplicate")
        sent = (await upstream.request(1)).body["input"]
    calls = {item["call_id"]: item["name"] for item in sent if item.get("type") == "function_call"}
    outputs = {item["call_id"]: item["output"] for item in sent if item.get("type") == "function_call_output"}
    assert sorted(calls.values()) == ["f", "g"] and outputs.keys() == calls.keys()
    assert [outputs[call_id] for call_id, name in sorted(calls.items(), key=lambda c: c[1])] == ["1", "2"]


async def test_tool_arguments_and_outputs_pass_byte_for_byte_in_every_direction(tmp_path: Path) -> None:
    handler = stub.in_turn(stub.calls(("f", EXACT, "upstreams_own")), stub.text())
    async with stub_server(handler, data_dir=tmp_path) as (upstream, server):
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True))
        events = stream.payloads
        response_id = events[0]["response"]["id"]
        async with http(server) as client:
            stored = (await client.get(f"/v1/responses/{response_id}")).json()
        deltas = "".join(e["delta"] for e in events if e["type"] == "response.function_call_arguments.delta")
        done = next(e["arguments"] for e in events if e["type"] == "response.function_call_arguments.done")
        assert deltas == done == events[-1]["response"]["output"][0]["arguments"] == EXACT
        assert stored["output"][0]["arguments"] == EXACT
        call_id = stored["output"][0]["call_id"]
        assert call_id != "upstreams_own"
    answering = [{"type": "function_call_output", "call_id": call_id, "output": EXACT}]
    async with stub_server(stub.text(), data_dir=tmp_path) as (upstream, server):
        child = await go_on(server, response_id, answering, model=MODEL)
        assert child.status_code == 200, child.text
        sent = (await upstream.request(0)).body["input"]
        async with http(server) as client:
            listed = (await client.get(f"/v1/responses/{child.json()['id']}/input_items")).json()
    assert sent[1]["arguments"] == EXACT and sent[2]["output"] == EXACT
    assert sent[1]["call_id"] == sent[2]["call_id"] == "upstreams_own"
    assert listed["data"][0]["output"] == EXACT and listed["data"][0]["call_id"] == call_id


async def test_a_client_that_sends_its_whole_history_is_held_to_the_same_rules() -> None:
    call = {"type": "function_call", "call_id": "mine", "name": "f", "arguments": "{}"}
    answer = {"type": "function_call_output", "call_id": "mine", "output": "ok"}
    async with running_server() as server, http(server) as client:

        async def post(*items: Any) -> httpx2.Response:
            return await client.post("/v1/responses", json=body([{"role": "user", "content": "hi"}, *items]))

        assert (await post(call, answer)).status_code == 200
        assert code(await post(call)) == (400, "tool_output_missing")
        assert code(await post(answer)) == (400, "tool_output_unknown")
        assert code(await post(call, answer, answer)) == (400, "tool_output_duplicate")


async def test_many_agents_are_said_not_to_be_offered() -> None:
    async with running_server() as server, http(server) as client:
        answer = await client.post("/v1/responses", json=body(multi_agent={"enabled": True}))
        assert code(answer) == (400, "unsupported_parameter") and error_of(answer)["param"] == "multi_agent"
        assert (await client.post("/v1/responses", json=body(multi_agent={"enabled": False}))).status_code == 200
