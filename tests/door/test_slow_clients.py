"""Clients that never finish what they began, and heads that are too long, against the whole server."""

from __future__ import annotations

import asyncio

import pytest

from tests.http.calling import until
from tests.http.test_door import KEYS, raw, upgrade
from tests.support.server import RunningServer, running_server

HALF: dict[str, tuple[str, dict[str, float]]] = {
    "a head": ("GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n", {"head_s": 0.8}),
    "a body": (
        "POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        'content-length: 100\r\n\r\n{"input":',
        {"body_idle_s": 0.2},
    ),
}


async def answer_to(server: RunningServer, sent: str) -> str:
    """What comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    try:
        writer.write(sent.encode())
        async with asyncio.timeout(40):
            return (await reader.read()).decode()
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("what", HALF)
async def test_half_a_request_is_answered_408_and_leaves_nothing_behind(what: str) -> None:
    sent, door = HALF[what]
    async with running_server(door=door) as server:
        answer = await answer_to(server, sent)
        assert answer.startswith("HTTP/1.1 408 ") and answer.count("HTTP/1.1") == 1
        assert '"code":"request_timeout"' in answer and "x-content-type-options: nosniff" in answer
        state = server.server._server.server_state
        await until(lambda: not state.connections and not state.tasks)
        assert list(server.app.registry) == []


async def test_a_head_above_64_kib_is_refused_on_requests_and_upgrades() -> None:
    async with running_server() as server:
        long = f"x-long: {'a' * 70_000}"
        for status, text in (
            await raw(server, "host: localhost", long),
            await upgrade(server, "host: localhost", long),
        ):
            assert status == 431 and '"code":"headers_too_large"' in text
        assert (await raw(server, "host: localhost", f"x-long: {'a' * 40_000}"))[0] == 200


async def test_a_compressed_body_is_refused_unread() -> None:
    async with running_server() as server:
        for coding in ("gzip", "deflate", "br", "zstd", "gzip, identity"):
            lines = ("host: localhost", "content-type: application/json", "content-length: 0")
            status, text = await raw(
                server, *lines, f"content-encoding: {coding}", method="POST", path="/v1/responses"
            )
            assert status == 415 and '"code":"unsupported_media_type"' in text, coding


@pytest.mark.parametrize("name", ["host", "origin", "authorization"])
async def test_a_header_that_decides_and_is_sent_twice_is_refused(name: str) -> None:
    values = {"host": "localhost", "origin": "http://localhost", "authorization": "Bearer sk-test-1"}
    async with running_server(**KEYS) as server:
        lines = [f"{header}: {value}" for header, value in values.items()]
        assert (await raw(server, *lines))[0] == 200
        assert (await raw(server, *lines, f"{name}: {values[name]}"))[0] in (400, 401, 403)
