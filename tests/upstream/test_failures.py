"""Every way an upstream can fail, and the one error it becomes."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from pydantic import SecretStr

from antiphon.errors import UpstreamError
from antiphon.ports import ModelCall
from antiphon.upstream.responses import ResponsesUpstream
from tests.support import stub_upstream as stub
from tests.support.stub_upstream import Handler, StubConn, StubRequest, StubUpstream
from tests.upstream.calling import WAIT_S, events_of, model_call, raw_events, responses_upstream

EVENTS = stub.events_of_text(["a ", "b ", "c "])


async def failure(upstream: ResponsesUpstream, call: ModelCall | None = None) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await raw_events(upstream, call)
    return caught.value


async def failure_of(handler: Handler, *, token: str | None = None, **settings: Any) -> UpstreamError:
    async with StubUpstream(handler) as server, responses_upstream(server.url, **settings) as upstream:
        return await failure(upstream, model_call(token=token))


NESTED = {"error": {"message": "No such thing.", "type": "t", "code": "own_code"}}


@pytest.mark.parametrize("status", [400, 404, 413, 422, 429])
async def test_refusals_the_caller_can_mend_keep_status_code_and_message(status: int) -> None:
    error = await failure_of(stub.answering(status, NESTED))
    assert (error.status, error.code, error.http_status) == (status, "own_code", status)
    assert error.message == f"Upstream 'local' answered {status}: No such thing."


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"plain words",
        b"{}",
        b"[1]",
        b'{"error":{"code":null}}',
        b'{"error":{"code":7}}',
        b"{\"error\":'x y'}",
    ],
)
async def test_refusals_without_a_code_of_their_own_are_upstream_error(body: bytes) -> None:
    error = await failure_of(stub.answering(429, body))
    assert (error.status, error.code) == (429, "upstream_error")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Why not."}},
        {"error": "Why not."},
        {"object": "error", "message": "Why not.", "code": 400},
        {"detail": "Why not."},
        {"message": "Why not."},
        b"Why\nnot.\r\n",
    ],
)
async def test_the_upstreams_words_are_found_in_every_shape(body: bytes | dict[str, Any]) -> None:
    error = await failure_of(stub.answering(400, body))
    assert error.message == "Upstream 'local' answered 400: Why not."


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_of_ours_are_a_bad_gateway_and_not_the_callers_fault(status: int) -> None:
    error = await failure_of(stub.answering(status, NESTED), key=SecretStr("sk-1"))
    assert (error.status, error.code, error.http_status) == (502, "upstream_error", status)
    assert "No such thing" not in error.message


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_of_the_caller_are_told_to_the_caller(status: int) -> None:
    error = await failure_of(stub.answering(status, NESTED), token="theirs")
    assert (error.status, error.code) == (status, "own_code")


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
async def test_faults_of_the_upstream_are_unavailable(status: int) -> None:
    error = await failure_of(stub.answering(status, NESTED))
    assert (error.status, error.code, error.http_status) == (503, "upstream_unavailable", status)
    assert error.retryable


@pytest.mark.parametrize("status", [204, 302, 307, 402, 405, 409, 418])
async def test_other_statuses_are_a_bad_gateway_and_redirects_are_not_followed(status: int) -> None:
    async with StubUpstream() as server:
        server.handler = stub.answering(status, b"", location=f"{server.url}/responses")
        async with responses_upstream(server.url) as upstream:
            error = await failure(upstream)
        assert len(server.requests) == 1
    assert (error.status, error.code, error.http_status) == (502, "upstream_error", status)


async def test_retry_hints_are_kept_and_other_headers_are_not() -> None:
    handler = stub.answering(429, NESTED, retry_after="7", retry_after_ms="7000", set_cookie="a=b")
    assert (await failure_of(handler)).headers == {"retry-after": "7", "retry-after-ms": "7000"}


async def test_a_key_that_the_upstream_quotes_is_blotted_out() -> None:
    for token, settings in ((None, {"key": SecretStr("sk-secret")}), ("sk-secret", {})):
        for status in (400, 200):
            handler = stub.answering(status, {"error": {"message": "Bad key sk-secret.", "code": "c"}})
            error = await failure_of(handler, token=token, **settings)
            assert error.message.endswith(": Bad key ***.")


async def test_at_most_500_characters_of_the_upstreams_words_are_passed_on() -> None:
    error = await failure_of(stub.answering(400, {"error": {"message": "漢" * 100_000}}))
    assert error.message.count("漢") == 500


async def test_a_refusal_whose_body_never_ends_is_still_a_refusal() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.head(400, "text/plain")
        for _ in range(20):
            conn.chunk(b"x" * 10_000)
        await conn.held()

    error = await asyncio.wait_for(failure_of(handler), WAIT_S)
    assert (error.status, error.code) == (400, "upstream_error")


# No answer


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def test_a_refused_connection_is_unavailable() -> None:
    async with responses_upstream(f"http://127.0.0.1:{closed_port()}/v1") as upstream:
        error = await failure(upstream)
    assert (error.status, error.code, error.http_status) == (503, "upstream_unavailable", None)
    assert error.message == "Upstream 'local' cannot be reached: connection refused."


async def test_an_unknown_host_is_unavailable() -> None:
    async with responses_upstream("http://no-such-host.invalid/v1") as upstream:
        error = await failure(upstream)
    assert error.code == "upstream_unavailable"
    assert "no-such-host" not in error.message


async def test_a_connection_that_is_not_made_in_time_is_unavailable() -> None:
    # A listener whose queue of connections is full answers no SYN.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        try:
            async with responses_upstream(f"http://127.0.0.1:{address[1]}/v1", connect_s=0.2) as upstream:
                error = await asyncio.wait_for(failure(upstream), WAIT_S)
        finally:
            for filler in fillers:
                filler.close()
    assert (error.status, error.code) == (503, "upstream_unavailable")


async def test_a_peer_that_does_not_speak_tls_is_unavailable() -> None:
    async def answer_in_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer_in_clear, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with responses_upstream(f"https://127.0.0.1:{port}/v1") as upstream:
            error = await failure(upstream)
    assert (error.status, error.code) == (503, "upstream_unavailable")


@pytest.mark.parametrize("close", [StubConn.fin, StubConn.reset])
async def test_a_connection_closed_before_any_answer_is_unavailable(close: Any) -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        close(conn)

    error = await failure_of(handler)
    assert (error.status, error.code, error.http_status) == (503, "upstream_unavailable", None)


async def test_a_peer_that_does_not_speak_http_is_named() -> None:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    error = await failure_of(handler)
    assert (error.status, error.code) == (502, "upstream_error")
    assert "HTTP" in error.message


async def test_an_upstream_that_never_begins_is_a_timeout_and_its_connection_is_closed() -> None:
    async with StubUpstream(stub.hang()) as server, responses_upstream(server.url, idle_s=0.5) as upstream:
        error = await failure(upstream)
        assert (error.status, error.code) == (504, "upstream_timeout")
        await asyncio.wait_for(server.requests[0].closed, 0.5)


# 200, and yet a failure (S-07)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"error": {"message": "m", "code": "own_code"}}, 502, "own_code"),
        ({"error": {"message": "m", "code": 429}}, 429, "upstream_error"),
        ({"error": {"message": "m", "type": "rate_limit_error", "code": "slow_down"}}, 429, "slow_down"),
        ({"error": {"message": "m", "type": "invalid_request_error"}}, 400, "upstream_error"),
        ({"error": {"message": "m", "code": 500}}, 503, "upstream_unavailable"),
        ({"error": {"message": "m", "code": "401", "type": "authentication_error"}}, 502, "upstream_error"),
        ({"error": "m"}, 502, "upstream_error"),
        ({"object": "error", "message": "m", "type": "NotFoundError", "code": 404}, 404, "upstream_error"),
        ({"detail": "m"}, 502, "upstream_error"),
        ({"detail": [{"loc": ["body"], "msg": "m"}]}, 502, "upstream_error"),
        ({"type": "error", "code": "own_code", "message": "m"}, 502, "own_code"),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_an_error_under_status_200_is_an_error(
    body: dict[str, Any], status: int, code: str, content_type: str
) -> None:
    error = await failure_of(stub.answering(200, body, content_type))
    assert (error.status, error.code, error.http_status) == (status, code, 200)
    assert len(error.message) < 600


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b"<!doctype html><title>Sign in</title>", "text/html; charset=utf-8", r"page \(text/html\)"),
        (b"<html>", "text/event-stream", "page"),
        (b"", "text/event-stream", "without sending anything"),
        (b"", "application/json", "without sending anything"),
        (b"  \n\n ", "text/event-stream", "without sending anything"),
        (b"ok", "text/plain", r"neither events nor a response \(text/plain\)"),
        (b'{"half":', "application/json", "neither events nor a response"),
        (b'{"id":"chatcmpl-1","choices":[]}', "application/json", "neither events nor a response"),
        (b"[]", "application/json", "neither events nor a response"),
    ],
)
async def test_an_answer_that_is_no_answer_is_an_error_that_says_what_it_was(
    body: bytes, content_type: str, words: str
) -> None:
    error = await failure_of(stub.answering(200, body, content_type))
    assert (error.status, error.code, error.http_status) == (502, "upstream_error", 200)
    with pytest.raises(UpstreamError, match=words):
        raise error


@pytest.mark.parametrize("last", [b"", b"\n", b"\n\n"])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'data: {"type":"error","error":{"code":"c","message":"m"}}', None),
        (b'data: {"type":"error","code":"c","message":"m"}', None),
        (b'data: {"error":{"code":"c","message":"m"}}', "m"),
        (b'data: {"error":"m"}', "m"),
        (b'data: {"object":"error","type":"BadRequestError","code":400,"message":"m"}', "m"),
        (b'data: {"detail":"m"}', "m"),
        (b'event: error\ndata: {"type":"server_error","message":"m"}', "m"),
        (b'event: error\ndata: {"message":"m"}', "m"),
        (b"event: error\ndata: m", "m"),
    ],
)
async def test_an_error_inside_the_stream_reaches_the_assembler_in_every_shape(
    line: bytes, message: str | None, last: bytes
) -> None:
    async with StubUpstream(stub.raw_body(line + last)) as server, responses_upstream(server.url) as upstream:
        (event,) = await events_of(upstream)
    assert event["type"] == "error"
    if message is None:
        assert (event.get("error") or event)["code"] == "c"
    else:
        assert event["error"]["message"] == message
