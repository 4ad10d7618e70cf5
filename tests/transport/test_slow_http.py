"""The contract with uvicorn's HTTP protocol, on real sockets: heads and bodies that are slow, or too large."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn

from antiphon.settings.door import DoorSettings
from antiphon.transport.fast_websocket import FastWebSocketProtocol
from antiphon.transport.slow_http import bounded_http
from tests.transport.endpoint import WAIT_S, serving

SHORT_HEAD = {"head_s": 0.8, "body_idle_s": 60}
"""Long enough for a busy machine to send what it means to send."""

SHORT_BODY = {"head_s": 60, "body_idle_s": 0.2}
PATIENT = {"head_s": 60, "body_idle_s": 60}


@dataclass
class Answering:
    """An application that answers the body it was sent. bodies, gone: what it got, and whose client went away."""

    port: int = 0
    bodies: list[bytes] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            return
        body, more = b"", scope["path"] != "/early"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone.set()
                return
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def answering(**door: Any) -> AsyncIterator[Answering]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = Answering(listener.getsockname()[1])
    config = uvicorn.Config(
        app, http=bounded_http(DoorSettings(**door)), ws=FastWebSocketProtocol, lifespan="off", log_config=None,
        access_log=False, timeout_graceful_shutdown=2,
    )  # fmt: skip
    async with serving(config, listener):
        yield app


@contextlib.asynccontextmanager
async def connected(app: Answering) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", app.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def rest(reader: asyncio.StreamReader) -> str:
    """All up to the end of the connection."""
    return (await asyncio.wait_for(reader.read(), WAIT_S)).decode()


def code_of(answer: str) -> tuple[int, str]:
    """Status and code of the one answer, which has to be whole and the last one."""
    head, _, body = answer.partition("\r\n\r\n")
    assert "connection: close" in head.lower() and f"content-length: {len(body)}" in head.lower()
    return int(head.split(" ", 2)[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize(
    "begun", ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nhost: x\r\nx-long: ", "\r\n", "\r\n\r\n\r\n"]
)
async def test_a_head_that_does_not_end_is_answered_408(begun: str) -> None:
    async with answering(**SHORT_HEAD) as app, connected(app) as (reader, writer):
        writer.write(begun.encode())
        assert code_of(await rest(reader)) == (408, "request_timeout")


async def test_bytes_that_keep_coming_do_not_put_the_end_of_a_head_off() -> None:
    async with answering(head_s=0.8) as app, connected(app) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")

        async def go_on() -> None:
            while True:
                writer.write(b"x-a: b\r\n")
                await asyncio.sleep(0.02)

        going_on = asyncio.create_task(go_on())
        try:
            assert code_of(await rest(reader)) == (408, "request_timeout")
        finally:
            going_on.cancel()


async def test_a_connection_that_never_asks_is_closed_without_an_answer() -> None:
    async with answering(**SHORT_HEAD) as app, connected(app) as (reader, _):
        assert await rest(reader) == ""


async def test_the_second_request_of_a_connection_is_bounded_like_the_first() -> None:
    async with answering(**SHORT_HEAD) as app, connected(app) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        writer.write(b"GET / HT")
        assert code_of(await rest(reader)) == (408, "request_timeout")


@pytest.mark.parametrize("framing", ["content-length: 10", "transfer-encoding: chunked"])
async def test_a_body_that_does_not_go_on_is_answered_408_and_the_application_is_told(framing: str) -> None:
    async with answering(**SHORT_BODY) as app, connected(app) as (reader, writer):
        part = "4\r\nbody\r\n" if "chunked" in framing else "body"
        writer.write(f"POST / HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n{part}".encode())
        assert code_of(await rest(reader)) == (408, "request_timeout")
        await asyncio.wait_for(app.gone.wait(), WAIT_S)
        assert app.bodies == []


async def test_a_body_whose_answer_is_out_already_gets_no_second_one() -> None:
    async with answering(**SHORT_BODY) as app, connected(app) as (reader, writer):
        writer.write(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nbody")
        assert (await rest(reader)).count("HTTP/1.1") == 1


async def test_bodies_in_pieces_and_requests_in_a_row_are_served() -> None:
    async with answering(**PATIENT) as app, connected(app) as (reader, writer):
        for n in range(3):
            for piece in (b"POST / HTTP/1.1\r\nhos", b"t: x\r\ncontent-length: 6\r\n\r\n", b"bod", b"y-%d" % n):
                writer.write(piece)
                await writer.drain()
        for n in range(3):
            await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
            assert await asyncio.wait_for(reader.readexactly(6), WAIT_S) == b"body-%d" % n
        assert app.bodies == [b"body-0", b"body-1", b"body-2"]


@pytest.mark.parametrize("upgrade", ["", "connection: upgrade\r\nupgrade: websocket\r\n"])
async def test_a_head_above_its_limit_is_answered_431_complete_or_not(upgrade: str) -> None:
    async with answering(head_bytes=4096, **PATIENT) as app:
        for header in ("x-a: " + "a" * 4096 + "\r\n", "x-a: bc\r\n" * 400):
            for end in ("\r\n", ""):
                async with connected(app) as (reader, writer):
                    writer.write(f"GET / HTTP/1.1\r\nhost: x\r\n{upgrade}{header}{header}{end}".encode())
                    assert code_of(await rest(reader)) == (431, "headers_too_large")
        async with connected(app) as (reader, writer):
            writer.write(f"GET /{'a' * 9000}".encode())
            assert code_of(await rest(reader)) == (431, "headers_too_large")
        assert app.bodies == []


async def test_a_megabyte_of_headers_is_refused_and_the_answer_arrives() -> None:
    async with answering(**PATIENT) as app, connected(app) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nx-a: " + b"a" * (1 << 20) + b"\r\n\r\n")
        assert code_of(await rest(reader)) == (431, "headers_too_large")


async def test_a_body_larger_than_a_head_may_be_is_no_head() -> None:
    async with answering(head_bytes=1024, **PATIENT) as app, connected(app) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n" + b"a" * 100_000)
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        assert len(app.bodies[0]) == 100_000


async def test_an_upgraded_connection_is_not_bounded_by_any_of_this() -> None:
    async with answering(head_s=0.8, body_idle_s=0.8) as app, connected(app) as (reader, writer):
        writer.write(
            b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert b"101" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        with contextlib.suppress(TimeoutError):
            raise AssertionError(await asyncio.wait_for(reader.read(), 1.2))
