"""A node over TLS: it checks the certificate, and says what is wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from tests.bus.nodes import redis_node, started
from tests.bus.test_redis_start import refused
from tests.support.certificates import Certificate, self_signed
from tests.support.redis import RedisServer


@contextlib.asynccontextmanager
async def behind_tls(server: RedisServer, certificate: Certificate) -> AsyncIterator[int]:
    """The same server over TLS: its port."""
    links: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def link(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_redis = await asyncio.open_connection("127.0.0.1", server.port)
        for one in (pump(reader, to_redis[1]), pump(to_redis[0], writer)):
            links.add(asyncio.create_task(one))

    listener = await asyncio.start_server(link, "127.0.0.1", 0, ssl=certificate.of_server())
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await asyncio.wait_for(asyncio.gather(*links), 10)
        await listener.wait_closed()


async def test_a_node_joins_over_tls_and_checks_the_certificate(valkey: RedisServer, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    async with behind_tls(valkey, certificate) as port:
        node = redis_node(f"rediss://127.0.0.1:{port}?ssl_ca_certs={certificate.chain}", "n1")
        async with started(node):
            assert await node.bus.ask("n1", "q", b"", 5) == b"q: "
        assert "over TLS" in await refused(f"rediss://127.0.0.1:{port}")
        careless = redis_node(f"rediss://127.0.0.1:{port}?ssl_cert_reqs=none", "n2")
        async with started(careless):
            assert careless.bus.held


async def test_a_server_that_wants_tls_is_named_as_such(valkey: RedisServer, tmp_path: Path) -> None:
    async with behind_tls(valkey, self_signed(tmp_path)) as port:
        assert "perhaps it wants rediss://" in await refused(f"redis://127.0.0.1:{port}")
