"""HTTP/1.1 as servers and proxies really speak it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from antiphon.upstream.http1 import pool
from antiphon.upstream.transport import Answer, HttpRequest, HttpTransport
from tests.support.certificates import Certificate, self_signed

WAIT_S = 30.0
OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"content-length: 2\r\n\r\nhi"

Talk = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
"""What a server does with the head of each request."""


class Server:
    """Answers what a test scripts. heads: of the requests that came, in order. connections: how many came."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.heads: list[bytes] = []
        self.connections = 0
        self.port = 0
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def aclose(self) -> None:
        """End every connection, and wait for that."""
        for writer in self._serving.values():
            writer.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=WAIT_S)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving[task] = writer
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while not writer.is_closing():
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await self._talk(self.heads[-1], writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(talk: Talk, certificate: Certificate | None = None) -> AsyncIterator[Server]:
    server = Server(talk)
    context = certificate.of_server() if certificate is not None else None
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.aclose()


@contextlib.asynccontextmanager
async def proxying(status: bytes = b"200") -> AsyncIterator[Server]:
    """A proxy that carries what CONNECT asks for."""
    pumps: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.heads.append(await reader.readuntil(b"\r\n\r\n"))
        host, _, port = proxy.heads[-1].split()[1].decode().rpartition(":")
        writer.write(b"HTTP/1.1 " + status + b" Said\r\n\r\n")
        if status != b"200":
            writer.close()
            return
        target = await asyncio.open_connection(host, int(port))
        for one in (pump(reader, target[1]), pump(target[0], writer)):
            pumps.add(asyncio.create_task(one))

    proxy = Server(_silent)
    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        await asyncio.wait_for(asyncio.gather(*pumps), WAIT_S)


async def _silent(head: bytes, writer: asyncio.StreamWriter) -> None:
    """Nothing."""


def saying(*parts: bytes, close: bool = False) -> Talk:
    async def talk(head: bytes, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if close:
            writer.close()

    return talk


@contextlib.asynccontextmanager
async def transport(proxy: str | None = None) -> AsyncIterator[HttpTransport]:
    made = HttpTransport(connect_s=10, idle_s=10, proxy=proxy)
    try:
        yield made
    finally:
        await made.aclose()


async def ask(client: HttpTransport, url: str) -> Answer:
    async with asyncio.timeout(WAIT_S):
        return await client.ask(HttpRequest(b"POST", url, b"x-mine: 1\r\n", b"{}"))


async def body(answer: Answer) -> bytes:
    async with asyncio.timeout(WAIT_S):
        read = b"".join([chunk async for chunk in answer])
    await answer.aclose()
    return read


async def get(client: HttpTransport, server: Server) -> bytes:
    return await body(await ask(client, f"http://127.0.0.1:{server.port}/v1/x?y=z"))


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return self_signed(tmp_path)


@pytest.fixture
def trusted(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    context = ssl.create_default_context(cafile=str(certificate.chain))
    monkeypatch.setattr(pool, "tls_context", lambda: context)
    return certificate


async def test_a_request_goes_out_whole() -> None:
    async with serving(saying(WHOLE)) as server, transport() as client:
        assert await get(client, server) == b"hi"
        lines = server.heads[0].split(b"\r\n")
        assert lines[0] == b"POST /v1/x?y=z HTTP/1.1"
        assert {b"host: 127.0.0.1:%d" % server.port, b"x-mine: 1", b"content-length: 2"} <= set(lines)


@pytest.mark.parametrize("interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n"])
async def test_interim_answers_are_not_the_answer(interim: bytes) -> None:
    async with serving(saying(interim, WHOLE)) as server, transport() as client:
        answer = await ask(client, f"http://127.0.0.1:{server.port}/")
        assert (answer.status, answer.header(b"link"), await body(answer)) == (200, "", b"hi")


async def test_a_body_without_a_length_lasts_until_the_connection_ends() -> None:
    async with serving(saying(OK + b"\r\n", b"all ", b"of it", close=True)) as server, transport() as client:
        assert await get(client, server) == b"all of it"


@pytest.mark.parametrize(
    "length", [b"content-length: 9\r\n\r\nhi", b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n"]
)
async def test_a_body_that_is_cut_off_is_an_error_behind_what_came(length: bytes) -> None:
    async with serving(saying(OK + length, close=True)) as server, transport() as client:
        answer = await ask(client, f"http://127.0.0.1:{server.port}/")
        assert await anext(answer) == b"hi"
        with pytest.raises(httpx2.ReadError, match="closed"):
            await anext(answer)


@pytest.mark.parametrize(
    "answered",
    [
        b"SMTP ready\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 101 Up\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_told_so(answered: bytes) -> None:
    async with serving(saying(answered)) as server, transport() as client:
        with pytest.raises(httpx2.TransportError):
            await get(client, server)


async def test_a_head_without_end_is_not_kept() -> None:
    async def endless(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        for n in range(100_000):
            writer.write(b"x-%d: %b\r\n" % (n, b"v" * 1000))
            await writer.drain()

    async with serving(endless) as server, transport() as client:
        with pytest.raises(httpx2.RemoteProtocolError, match="too long"):
            await get(client, server)


async def test_a_connection_with_more_than_was_asked_for_is_not_used_again() -> None:
    async with serving(saying(WHOLE + WHOLE)) as server, transport() as client:
        assert [await get(client, server), await get(client, server)] == [b"hi", b"hi"]
        assert server.connections == 2


async def test_who_wants_to_close_is_not_asked_again_on_that_connection() -> None:
    closing = saying(OK + b"connection: close\r\ncontent-length: 2\r\n\r\nhi")
    async with serving(closing) as server, transport() as client:
        assert [await get(client, server), await get(client, server)] == [b"hi", b"hi"]
        assert server.connections == 2


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with serving(saying(WHOLE)) as server, transport() as client:
        assert [await get(client, server) for _ in range(3)] == [b"hi"] * 3
        assert server.connections == 1


async def test_an_unknown_host_is_told_without_its_url() -> None:
    async with transport() as client:
        with pytest.raises(httpx2.ConnectError, match="^its host name is not known$"):
            await ask(client, "http://nowhere.invalid/secret")


async def test_a_port_on_which_nobody_listens_is_told() -> None:
    async with serving(_silent) as server:
        port = server.port
    async with transport() as client:
        with pytest.raises(httpx2.ConnectError, match="refused"):
            await ask(client, f"http://127.0.0.1:{port}/")


async def test_tls_is_spoken_with_who_is_trusted(trusted: Certificate) -> None:
    async with serving(saying(WHOLE), trusted) as server, transport() as client:
        url = f"https://127.0.0.1:{server.port}/"
        assert [await body(await ask(client, url)) for _ in range(2)] == [b"hi", b"hi"]
        assert server.connections == 1


async def test_nobody_else_is_spoken_with(certificate: Certificate) -> None:
    async with serving(saying(WHOLE), certificate) as server, transport() as client:
        with pytest.raises(httpx2.ConnectError, match="its certificate is not trusted"):
            await ask(client, f"https://127.0.0.1:{server.port}/")
        assert not server.heads


async def test_a_proxy_carries_tls_and_sees_nothing_of_it(trusted: Certificate) -> None:
    async with serving(saying(WHOLE), trusted) as server, proxying() as proxy:
        async with transport(f"http://us%3Aer:pass@127.0.0.1:{proxy.port}") as client:
            url = f"https://127.0.0.1:{server.port}/secret"
            assert [await body(await ask(client, url)) for _ in range(2)] == [b"hi", b"hi"]
        assert len(proxy.heads) == 1
        lines = proxy.heads[0].split(b"\r\n")
        assert lines[0] == b"CONNECT 127.0.0.1:%d HTTP/1.1" % server.port
        assert b"proxy-authorization: Basic dXM6ZXI6cGFzcw==" in lines


async def test_a_proxy_that_refuses_is_told(trusted: Certificate) -> None:
    async with proxying(b"407") as proxy, transport(f"http://127.0.0.1:{proxy.port}") as client:
        with pytest.raises(httpx2.ProxyError, match="answered 407"):
            await ask(client, "https://127.0.0.1:1/")


async def test_closing_ends_what_runs_and_what_is_kept() -> None:
    async with serving(saying(OK + b"content-length: 9\r\n\r\nhi")) as server, transport() as client:
        answer = await ask(client, f"http://127.0.0.1:{server.port}/")
        assert await anext(answer) == b"hi"
        await client.aclose()
        with pytest.raises(httpx2.ReadError):
            async with asyncio.timeout(WAIT_S):
                await anext(answer)
