"""`kind = "http"`: what is sent, what counts as an answer, and what does not come through."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from antiphon.errors import StartupError
from antiphon.ports import Tool
from antiphon.tools.toolbox import ServerTools
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream
from tests.tools.running import ANY, call, named, opened, toolbox

MIB = 1024 * 1024


def lookup(url: str, **more: Any) -> dict[str, Any]:
    return {"name": "lookup", "kind": "http", "url": url, "parameters": ANY, **more}


async def tool_of(box: ServerTools) -> Tool:
    async with opened(box, {"type": "mcp", "server_label": "antiphon", "allowed_tools": ["lookup"]}) as tools:
        return named(tools)["lookup"]


def answering(data: bytes, status: int = 200, head: str = "") -> Any:
    async def handler(request: StubRequest, conn: StubConn) -> None:
        conn.write(f"HTTP/1.1 {status} X\r\n{head}content-length: {len(data)}\r\n\r\n".encode() + data)

    return handler


async def test_the_arguments_are_posted_as_json_with_ids_and_secret_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOOKUP_KEY", "Bearer quite-secret")
    async with StubUpstream(answering(b'{"found": 1}')) as stub:
        async with toolbox(tool=[lookup(stub.url, headers_env={"Authorization": "LOOKUP_KEY"})]) as box:
            result = await call(await tool_of(box), {"city": "Bern"})
        request = stub.requests[0]
    assert result.output == '{"found": 1}'
    assert (request.method, request.body) == ("POST", {"city": "Bern"})
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-antiphon-run-id"] == "resp_1" and request.headers["x-antiphon-call-id"] == "call_1"
    assert request.authorization == "Bearer quite-secret"


async def test_another_status_than_2xx_is_an_error_with_a_bounded_part_of_the_body() -> None:
    async with StubUpstream(answering(b"out of order " + b"x" * 5000, 503)) as stub:
        async with toolbox(tool=[lookup(stub.url)]) as box:
            error = (await call(await tool_of(box))).error or ""
    assert error.startswith("The tool's server answered 503: out of order") and len(error) < 700


async def test_a_redirect_is_not_followed() -> None:
    async with StubUpstream() as elsewhere, StubUpstream() as stub:
        stub.handler = answering(b"", 307, f"location: {elsewhere.url}\r\n")
        async with toolbox(tool=[lookup(stub.url)]) as box:
            assert "answered 307" in ((await call(await tool_of(box))).error or "")
        assert not elsewhere.requests


async def test_a_secret_that_the_server_repeats_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOKUP_KEY", "Bearer quite-secret")
    async with StubUpstream(answering(b"bad key: quite-secret", 403)) as stub:
        async with toolbox(tool=[lookup(stub.url, headers_env={"Authorization": "LOOKUP_KEY"})]) as box:
            tool = await tool_of(box)
            refused = await call(tool)
            stub.handler = answering(b"you sent Bearer quite-secret")
            repeated = await call(tool)
            assert "quite-secret" not in repr(tool.spec) + repr(vars(tool))
    assert "quite-secret" not in f"{refused} {repeated}" and "[secret]" in (repeated.output or "")


async def test_of_an_answer_of_50_mb_only_the_limit_is_read() -> None:
    sent = 0

    async def flood(request: StubRequest, conn: StubConn) -> None:
        nonlocal sent
        conn.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n")
        for _ in range(800):
            if conn.transport.is_closing():
                return
            conn.write(b"x" * 65536)
            sent += 65536
            await conn.flushed()

    async with StubUpstream(flood) as stub, toolbox(tool=[lookup(stub.url, max_output_bytes=MIB)]) as box:
        result = await call(await tool_of(box))
        await asyncio.wait_for(stub.requests[0].closed, 10)
    assert f"larger than {MIB} bytes" in (result.error or "")
    assert sent < 30 * MIB, "the rest stayed where it was"


async def test_a_compressed_answer_is_refused_unread() -> None:
    data = gzip.compress(b"x" * MIB)
    async with StubUpstream(answering(data, head="content-encoding: gzip\r\n")) as stub:
        async with toolbox(tool=[lookup(stub.url)]) as box:
            assert "compressed" in ((await call(await tool_of(box))).error or "")
        assert stub.requests[0].headers["accept-encoding"] == "identity"


async def test_bytes_that_are_no_text_are_an_error() -> None:
    async with StubUpstream(answering(b"\xff\xfe\x00")) as stub, toolbox(tool=[lookup(stub.url)]) as box:
        assert "not text" in ((await call(await tool_of(box))).error or "")


@pytest.mark.parametrize("kind", ["application/json", "application/problem+json; charset=utf-8"])
@pytest.mark.parametrize("data", [b'{"found": 1', b"<html>", b""])
async def test_json_that_is_broken_is_an_error(kind: str, data: bytes) -> None:
    async with StubUpstream(answering(data, head=f"content-type: {kind}\r\n")) as stub:
        async with toolbox(tool=[lookup(stub.url)]) as box:
            result = await call(await tool_of(box))
    assert result.output is None and result.error == "The tool's server answered with JSON that is broken."


@pytest.mark.parametrize(
    ("kind", "data"),
    [("application/json", b' {"found": [1, "\xc3\xa4"]}\n'), ("text/plain", b'{"found": 1'), ("", b"{")],
)
async def test_whole_json_and_any_other_text_is_the_output_as_it_is(kind: str, data: bytes) -> None:
    async with StubUpstream(answering(data, head=f"content-type: {kind}\r\n" if kind else "")) as stub:
        async with toolbox(tool=[lookup(stub.url)]) as box:
            assert (await call(await tool_of(box))).output == data.decode()


async def test_no_content_is_an_empty_output() -> None:
    async with StubUpstream(answering(b"", 204, "content-type: application/json\r\n")) as stub:
        async with toolbox(tool=[lookup(stub.url)]) as box:
            assert (await call(await tool_of(box))).output == ""


async def test_a_server_that_hangs_costs_the_timeout_and_loses_its_connection() -> None:
    async def hang(request: StubRequest, conn: StubConn) -> None:
        await conn.held()

    async with StubUpstream(hang) as stub, toolbox(tool=[lookup(stub.url, timeout_s=0.2)]) as box:
        assert "within 0.2 s" in ((await call(await tool_of(box))).error or "")
        await asyncio.wait_for(stub.requests[0].closed, 5)


async def test_a_server_that_is_not_there_or_breaks_off_is_an_error_without_its_address() -> None:
    async def reset(request: StubRequest, conn: StubConn) -> None:
        conn.reset()

    async with toolbox(tool=[lookup("http://127.0.0.1:1/secret-path")]) as box:
        error = (await call(await tool_of(box))).error or ""
    assert "could not be reached" in error and "secret-path" not in error
    async with StubUpstream(reset) as stub, toolbox(tool=[lookup(stub.url)]) as box:
        assert "could not be reached" in ((await call(await tool_of(box))).error or "")


async def test_a_cookie_is_not_carried_to_the_next_call() -> None:
    async with StubUpstream(answering(b"ok", head="set-cookie: who=ann\r\n")) as stub:
        async with toolbox(tool=[lookup(stub.url)]) as box:
            tool = await tool_of(box)
            await call(tool)
            await call(tool)
        assert "cookie" not in stub.requests[1].headers


async def test_a_variable_that_is_not_set_stops_the_start_with_its_name() -> None:
    with pytest.raises(StartupError, match="needs the environment variable NO_SUCH_KEY"):
        async with toolbox(tool=[lookup("http://127.0.0.1:1", headers_env={"Authorization": "NO_SUCH_KEY"})]):
            pass
