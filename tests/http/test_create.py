"""POST /v1/responses: the whole response, a stream, or at once (PROTOCOL 5, 9.4, 11.1, 11.3)."""

from __future__ import annotations

import asyncio
import json

import httpx2

from antiphon_protocol.response import Response
from tests.http.calling import (
    MODEL,
    begin,
    body,
    create,
    ended,
    error_of,
    follow,
    get,
    http,
    script,
    slow,
    stub_server,
)
from tests.support import stub_upstream as stub
from tests.support.gap_checker import check_run
from tests.support.http_client import open_sse, read_sse
from tests.support.schemas import validate_open_responses, validate_own
from tests.support.server import running_server
from tests.support.ws_client import ws_client


async def test_a_create_waits_for_the_end_and_answers_with_the_whole_response() -> None:
    async with running_server() as server:
        response = await create(server, "one two three")
    Response.model_validate(response)
    assert response["status"] == "completed" and response["background"] is False
    assert response["output"][0]["content"][0]["text"] == "one two three"
    assert response["usage"]["total_tokens"] == 6
    assert response["completed_at"] >= response["created_at"]


async def test_the_answer_of_a_create_is_what_get_gives_afterwards() -> None:
    async with running_server() as server:
        response = await create(server, "hello", metadata={"a": "b"}, temperature=0.5)
        assert (await get(server, f"/v1/responses/{response['id']}")).json() == response


async def test_a_stream_holds_every_promise_and_ends_with_done() -> None:
    async with running_server() as server:
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body("one two", stream=True))
        run = check_run(stream.payloads, stream_id=None)
        stored = (await get(server, f"/v1/responses/{run.response_id}")).json()
    assert stream.done and run.text == "one two" and run.terminal == stored
    for event in stream.payloads:
        validate_own(event)
        validate_open_responses(event)


async def test_stream_ids_are_the_epoch_and_the_number() -> None:
    async with running_server() as server:
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(stream=True))
    epochs = {str(event.id).partition(".")[0] for event in stream.events}
    assert len(epochs) == 1 and len(epochs.pop()) == 16
    assert [str(event.id).partition(".")[2] for event in stream.events] == [
        str(event["sequence_number"]) for event in stream.payloads
    ]


async def test_done_is_last_also_after_a_failed_run() -> None:
    async with running_server() as server:
        model = script(
            server, "fails", "[[turns]]\n[[turns.steps]]\ntext='a b'\n[[turns.steps]]\nerror={code='own'}"
        )
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=model, stream=True))
        replay = await follow(server, stream.payloads[0]["response"]["id"])
    assert stream.done and stream.payloads[-1]["type"] == "response.failed"
    assert stream.payloads[-1]["response"]["error"]["code"] == "own"
    assert replay.done and replay.events == stream.events
    check_run(stream.payloads)


async def test_done_is_in_no_log_and_takes_no_number() -> None:
    async with running_server() as server:
        response = await create(server)
        whole = await follow(server, response["id"])
        nothing = await follow(server, response["id"], starting_after=whole.payloads[-1]["sequence_number"])
    assert nothing.events == [] and nothing.done


async def test_silence_on_a_stream_is_broken_by_comments_without_a_number() -> None:
    async with running_server(timeouts={"keepalive_s": 0.05}) as server:
        text = "[[turns]]\n[[turns.steps]]\ndelay_s=0.5\n[[turns.steps]]\ntext='late'"
        model = script(server, "silent", text)
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=model, stream=True))
    assert stream.comments >= 3 and check_run(stream.payloads).text == "late"


async def test_each_write_of_a_stream_holds_whole_events() -> None:
    async with running_server() as server:
        model = script(server, "paced", "[[turns]]\n[[turns.steps]]\ntext='w{n} '\nrate=100\nrepeat=40")
        async with (
            httpx2.AsyncClient(timeout=10, trust_env=False) as client,
            client.stream("POST", f"{server.url}/v1/responses", json=body(model=model, stream=True)) as answer,
        ):
            chunks = [chunk async for chunk in answer.aiter_raw()]
    assert len(chunks) > 20
    assert all(chunk.endswith(b"\n\n") and chunk.startswith((b"event: ", b"data: ", b": ")) for chunk in chunks)


async def test_stream_headers_keep_caches_and_proxies_from_holding_events_back() -> None:
    async with (
        running_server() as server,
        open_sse("POST", f"{server.url}/v1/responses", json=body(stream=True)) as stream,
    ):
        headers = stream.response.headers
        assert [event async for event in stream]
    assert headers["cache-control"] == "no-store" and headers["x-accel-buffering"] == "no"
    assert "openai-model" not in headers


async def test_a_background_create_answers_at_once_with_a_durable_queued_response() -> None:
    async with running_server() as server:
        model = script(server, "held", "[[turns]]\n[[turns.steps]]\ndelay_s=0.2\n[[turns.steps]]\ntext='done'")
        response = await create(server, model=model, background=True)
        Response.model_validate(response)
        assert response["status"] == "queued" and response["background"] is True and response["output"] == []
        rows = await server.app.backends.store.reader.find(response["id"])
        assert rows is not None and await server.app.backends.store.reader.head(response["id"]) >= 1
        events = (await follow(server, response["id"])).payloads
    assert [event["type"] for event in events[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert [event["response"]["status"] for event in events[:3]] == ["queued", "queued", "in_progress"]
    assert check_run(events).text == "done"


async def test_a_background_stream_may_be_lost_without_harm() -> None:
    async with running_server(timeouts={"http_abandon_s": 0.05}) as server:
        model = script(server, "talk", "[[turns]]\n[[turns.steps]]\ntext='w{n} '\nrate=100\nrepeat=60")
        async with open_sse(
            "POST", f"{server.url}/v1/responses", json=body(model=model, stream=True, background=True)
        ) as stream:
            first = await anext(aiter(stream))
        response = await ended(server, first.json()["response"]["id"])
    assert response["status"] == "completed"


async def test_background_in_a_frame_has_no_effect() -> None:
    async with running_server() as server, ws_client(server.ws_url) as socket:
        for fields in ({}, {"store": False}, {"idempotency_key": "k"}):
            events = await socket.run(input="one two", background=True, **fields)
            assert check_run(events).text == "one two"
            assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]


async def test_a_background_create_that_is_not_stored_is_refused() -> None:
    async with running_server() as server, http(server) as client:
        answer = await client.post("/v1/responses", json=body(background=True, store=False))
        error = error_of(answer)
    assert answer.status_code == 400
    assert (error["code"], error["param"]) == ("invalid_request", "background")


async def test_a_response_in_progress_is_shown_with_what_it_said_so_far() -> None:
    async with running_server() as server:
        response_id = await begin(server, model=slow(server))
        async with open_sse("GET", f"{server.url}/v1/responses/{response_id}?stream=true") as stream:
            async for event in stream:
                if event.event == "response.output_text.delta":
                    break
        response = (await get(server, f"/v1/responses/{response_id}")).json()
    assert response["status"] == "in_progress" and response["completed_at"] is None and response["usage"] is None
    assert response["output"][0]["status"] == "incomplete"
    assert response["output"][0]["content"][0]["text"].startswith("word0 ")


async def test_settings_are_echoed_as_asked_and_forwarded_to_the_upstream() -> None:
    asked = {
        "temperature": 0.25,
        "top_p": 0.5,
        "instructions": "Be brief.",
        "metadata": {"k": "v"},
        "max_output_tokens": 64,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "truncation": "auto",
        "user": "u1",
        "presence_penalty": 0.5,
    }
    async with stub_server(stub.text()) as (upstream, server):
        response = await create(server, model=MODEL, **asked, unknown_field={"x": 1})
        sent = (await upstream.request(0)).body
    for key, value in asked.items():
        assert sent[key] == value
        if key != "reasoning":
            assert response[key] == value
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert sent["store"] is False and sent["stream"] is True and "unknown_field" not in sent
    assert "antiphon" not in sent and "previous_response_id" not in sent


async def test_tools_are_echoed_whole_and_without_the_credentials_of_mcp_servers() -> None:
    tools = [
        {"type": "function", "name": "f"},
        {
            "type": "mcp",
            "server_label": "m",
            "server_url": "https://m.example/mcp?key=SECRET-3",
            "authorization": "SECRET-1",
            "headers": {"x": "SECRET-2"},
        },
    ]
    # An upstream that executes MCP tools itself has to get the credentials; nobody else sees them.
    async with stub_server(stub.text(), upstream={"native_tools": ["mcp"]}) as (upstream, server):
        response = await create(server, model=MODEL, tools=tools)
        sent = (await upstream.request(0)).body
        stored = (await get(server, f"/v1/responses/{response['id']}")).text
        log = await follow(server, response["id"])
    assert response["tools"] == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None},
        {"type": "mcp", "server_label": "m", "server_url": "https://m.example/mcp"},
    ]
    assert sent["tools"] == tools
    assert "SECRET" not in json.dumps(response) + stored + "".join(event.data for event in log.events)
    database = b"".join(path.read_bytes() for path in server.data_dir.glob("antiphon.db*") if path.exists())
    assert b"SECRET" not in database


async def test_two_runs_with_callers_own_tokens_show_the_upstream_each_its_own() -> None:
    async with stub_server(stub.text(20, rate=200), upstream={"caller_key": True, "key": "servers-own"}) as (
        upstream,
        server,
    ):

        async def one(token: str | None) -> str:
            headers = {"X-Upstream-Authorization": token} if token else {}
            async with http(server, **headers) as client:
                answer = await client.post("/v1/responses", json=body(token or "none", model=MODEL))
                assert answer.status_code == 200, answer.text
                return answer.text

        answers = await asyncio.gather(one("token-a"), one("token-b"), one(None))
        seen = {request.body["input"][0]["content"]: request.authorization for request in upstream.requests}
    assert seen == {"token-a": "Bearer token-a", "token-b": "Bearer token-b", "none": "Bearer servers-own"}
    assert not any("token-" in answer.replace('"text":"token-', "") for answer in answers)


async def test_a_callers_token_for_an_upstream_that_takes_none_is_refused() -> None:
    async with (
        stub_server(stub.text()) as (upstream, server),
        http(server, **{"X-Upstream-Authorization": "t"}) as c,
    ):
        answer = await c.post("/v1/responses", json=body(model=MODEL))
        assert answer.status_code == 400 and error_of(answer)["code"] == "invalid_request"
        assert upstream.requests == []


async def test_a_warm_up_is_continued_without_having_asked_the_model() -> None:
    async with stub_server(stub.text()) as (upstream, server):
        warm = await create(server, [{"role": "developer", "content": "Be brief."}], model=MODEL, generate=False)
        assert (warm["status"], warm["output"], warm["usage"]["total_tokens"]) == ("completed", [], 0)
        assert upstream.requests == []
        stream = await follow(server, warm["id"])
        await create(server, "go", model=MODEL, previous_response_id=warm["id"])
        sent = (await upstream.request(0)).body
    assert [event["type"] for event in stream.payloads] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    assert [item["content"] for item in sent["input"]] == ["Be brief.", "go"]


async def test_unknown_query_parameters_have_no_effect() -> None:
    async with running_server() as server, http(server) as client:
        for query in ("?beta=true", "?x=1&y"):
            answer = await client.post(f"/v1/responses{query}", json=body())
            assert answer.status_code == 200
            again = await client.get(f"/v1/responses/{answer.json()['id']}{query}")
            assert again.json() == answer.json()
