"""How an upstream's failure reaches the caller: status, code and body, over JSON and SSE (PROTOCOL 8.3, 11.4)."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from antiphon_protocol.response import Response
from tests.http.calling import MODEL, body, get, http, script, stub_server
from tests.support import stub_upstream as stub
from tests.support.gap_checker import check_run
from tests.support.http_client import read_sse
from tests.support.server import running_server
from tests.support.stub_upstream import Handler, StubConn, StubRequest

OWN = {"error": {"message": "Not like this.", "type": "t", "code": "own_code"}}
EVENTS = stub.events_of_text(["a ", "b ", "c "])


async def broken(request: StubRequest, conn: StubConn) -> None:
    """Half an answer, then a reset."""
    conn.head()
    for event in EVENTS[:6]:
        conn.sse(event)
    await conn.flushed()
    conn.reset()


async def fin_in_mid_answer(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    for event in EVENTS[:6]:
        conn.sse(event)
    conn.fin()


async def silent(request: StubRequest, conn: StubConn) -> None:
    conn.head()
    for event in EVENTS[:5]:
        conn.sse(event)
    await conn.held()


async def dropped(request: StubRequest, conn: StubConn) -> None:
    conn.reset()


SAID_FAILED = [
    *EVENTS[:5],
    json.dumps(
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "own_code", "message": "No."}},
        }
    ).encode(),
]
SAID_ERROR = [*EVENTS[:5], json.dumps({"type": "error", "code": "own_code", "message": "No."}).encode()]
JSON_TYPE = "application/json"

FAILURES: dict[str, tuple[Handler, int, str]] = {
    "400": (stub.answering(400, OWN), 400, "own_code"),
    "404": (stub.answering(404, OWN), 404, "own_code"),
    "413": (stub.answering(413, OWN), 413, "own_code"),
    "422": (stub.answering(422, {"detail": "bad"}), 422, "upstream_error"),
    "429": (stub.answering(429, OWN, retry_after="7"), 429, "own_code"),
    "401": (stub.answering(401, OWN), 502, "upstream_error"),
    "403": (stub.answering(403, OWN), 502, "upstream_error"),
    "418": (stub.answering(418, OWN), 502, "upstream_error"),
    "redirect": (stub.answering(302, b"", location="http://example.com/"), 502, "upstream_error"),
    "500": (stub.answering(500, OWN), 503, "upstream_unavailable"),
    "502 html": (stub.answering(502, b"<html>", "text/html"), 503, "upstream_unavailable"),
    "dropped": (dropped, 503, "upstream_unavailable"),
    "broken": (broken, 502, "upstream_error"),
    "fin": (fin_in_mid_answer, 502, "upstream_error"),
    "silent": (silent, 504, "upstream_timeout"),
    "never answers": (stub.hang(), 504, "upstream_timeout"),
    "truncated politely": (stub.play(EVENTS[:7]), 502, "upstream_error"),
    "truncated before the terminal": (stub.play(EVENTS[:-1]), 502, "upstream_error"),
    "empty 200": (stub.raw_body(b""), 502, "upstream_error"),
    "done only": (stub.raw_body(b"data: [DONE]\n\n"), 502, "upstream_error"),
    "html 200": (stub.answering(200, b"<!doctype html><p>hi", "text/html"), 502, "upstream_error"),
    "json error 200": (stub.answering(200, OWN), 502, "own_code"),
    "sse error 200": (stub.raw_body(b"data: " + json.dumps(OWN).encode() + b"\n\n"), 502, "own_code"),
    "not json": (stub.raw_body(b"data: {oops\n\n"), 502, "upstream_error"),
    "says failed": (stub.play(SAID_FAILED), 502, "own_code"),
    "says error": (stub.play(SAID_ERROR), 502, "own_code"),
}
TIMEOUTS = {"upstream_idle_s": 0.3, "upstream_connect_s": 0.3}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_failure_has_its_status_and_code_and_is_failed_everywhere(name: str) -> None:
    handler, status, code = FAILURES[name]
    async with stub_server(handler, timeouts=TIMEOUTS) as (_, server), http(server) as client:
        answer = await client.post("/v1/responses", json=body(model=MODEL))
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True))
        stored = (await get(server, f"/v1/responses/{answer.json()['id']}")).json()
    Response.model_validate(answer.json())
    failed = answer.json()
    assert (answer.status_code, failed["status"], failed["error"]["code"]) == (status, "failed", code)
    assert failed["error"]["message"] and failed["completed_at"] is None
    assert stored == failed
    run = check_run(stream.payloads)
    assert stream.done and stream.payloads[-1]["type"] == "response.failed"
    assert run.terminal is not None and run.terminal["error"] == failed["error"]
    assert [item.get("content") for item in run.terminal["output"]] == [i.get("content") for i in failed["output"]]


async def test_retry_hints_of_an_upstream_are_passed_on() -> None:
    async with stub_server(stub.answering(429, OWN, retry_after="7")) as (_, server), http(server) as client:
        answer = await client.post("/v1/responses", json=body(model=MODEL))
    assert answer.headers["retry-after"] == "7"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_that_no_other_model_may_mend_says_so_without_the_words_of_the_provider(
    stream: bool,
) -> None:
    async with stub_server(stub.answering(503, OWN)) as (_, server), http(server) as client:
        if stream:
            told = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True))
            error = told.payloads[-1]["response"]["error"]
        else:
            answer = await client.post("/v1/responses", json=body(model=MODEL))
            assert answer.status_code == 503
            error = answer.json()["error"]
    assert (error["code"], error["message"]) == (
        "upstream_unavailable",
        "strict_fallbacks: upstream: Upstream 'stub' answered 503.",
    )


async def test_a_passing_fault_before_output_is_not_noticed() -> None:
    handler = stub.in_turn(stub.answering(503, {}), dropped, stub.text())
    async with stub_server(handler) as (upstream, server):
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True))
        assert len(upstream.requests) == 3
    assert check_run(stream.payloads).text == "w0 w1 w2 "


async def test_an_upstream_that_keeps_failing_is_left_alone_and_the_caller_is_told_for_how_long() -> None:
    async with stub_server(stub.answering(503, {}), retry={"max_attempts": 1}) as (upstream, server):
        async with http(server) as client:
            answers = [await client.post("/v1/responses", json=body(model=MODEL)) for _ in range(6)]
        assert len(upstream.requests) == 5
    assert {(answer.status_code, answer.json()["error"]["code"]) for answer in answers} == {
        (503, "upstream_unavailable")
    }
    assert ["retry-after" in answer.headers for answer in answers] == [False] * 5 + [True]


async def test_an_upstream_that_cannot_be_reached_is_unavailable() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        async with (
            running_server(upstream=[{"name": "gone", "url": url, "models": ["m"]}]) as server,
            http(server) as client,
        ):
            answer = await client.post("/v1/responses", json=body(model="m"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "upstream_unavailable")


async def test_refused_credentials_are_the_callers_business_only_if_they_were_the_callers() -> None:
    async with stub_server(stub.answering(401, OWN), upstream={"caller_key": True}) as (_, server):
        async with http(server, **{"X-Upstream-Authorization": "callers-secret"}) as client:
            own = await client.post("/v1/responses", json=body(model=MODEL))
        async with http(server) as client:
            ours = await client.post("/v1/responses", json=body(model=MODEL))
    assert (own.status_code, own.json()["error"]["code"]) == (401, "own_code")
    assert (ours.status_code, ours.json()["error"]["code"]) == (502, "upstream_error")
    assert "callers-secret" not in own.text


async def test_what_an_upstream_said_before_it_broke_is_kept() -> None:
    async with stub_server(broken) as (_, server), http(server) as client:
        failed = (await client.post("/v1/responses", json=body(model=MODEL))).json()
    assert failed["output"][0]["status"] == "incomplete"
    assert failed["output"][0]["content"][0]["text"] == "a b "


async def test_an_answer_that_is_not_streamed_is_a_whole_run() -> None:
    handler = stub.answering(200, stub.whole(EVENTS))
    async with stub_server(handler) as (_, server):
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=MODEL, stream=True))
    assert check_run(stream.payloads).text == "a b c "


async def test_an_incomplete_run_is_no_error() -> None:
    async with running_server() as server, http(server) as client:
        text = "[[turns]]\n[[turns.steps]]\ntext='cut'\n[[turns.steps]]\nincomplete='max_output_tokens'"
        answer = await client.post("/v1/responses", json=body(model=script(server, "cut", text)))
    assert (answer.status_code, answer.json()["status"]) == (200, "incomplete")
    assert answer.json()["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_a_crash_inside_a_run_ends_it_failed_without_details_and_takes_nobody_along() -> None:
    async with running_server() as server, http(server) as client:
        text = "[[turns]]\n[[turns.steps]]\ntext='one '\n[[turns.steps]]\ncrash='SECRET-DETAIL'"
        model = script(server, "crash", text)
        stream = await read_sse("POST", f"{server.url}/v1/responses", json=body(model=model, stream=True))
        answer = await client.post("/v1/responses", json=body(model=model))
        assert (await client.post("/v1/responses", json=body())).status_code == 200
    run: Any = check_run(stream.payloads).terminal
    assert run["error"]["code"] == "server_error" and answer.status_code == 500
    assert "SECRET-DETAIL" not in answer.text
    assert stream.payloads[-1]["sequence_number"] == len(stream.payloads) - 1
