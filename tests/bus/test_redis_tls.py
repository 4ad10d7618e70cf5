"""A node over TLS: it checks the certificate, and says what is wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.bus.nodes import redis_node, started
from tests.bus.test_redis_start import refused
from tests.support.redis import RedisServer


@contextlib.asynccontextmanager
async def behind_tls(server: RedisServer, certificate: Certificate) -> AsyncIterator[int]:
    """The same server over TLS: its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.chain, certificate.key)
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

    listener = await asyncio.start_server(link, "127.0.0.1", 0, ssl=context)
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


@dataclass(frozen=True)
class Certificate:
    chain: Path
    key: Path


def self_signed(folder: Path) -> Certificate:
    """A certificate for 127.0.0.1 that only those trust who are told to."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate = Certificate(folder / "chain.pem", folder / "key.pem")
    certificate.chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    certificate.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate
