"""What it costs to find out who asks: sockets that never say so, and keys where there are many.

    python -m bench.identity [--sockets 2000] [--flood 10000] [--tenants 1000] [--keys 100]

Sockets: resident memory of the server per socket without credentials that says nothing, and after how long the
last one is gone, though none answers the close. Flood: so many of them at a server that holds as many as it does
by default; what the others are told, and how long a caller with a key waits meanwhile. Keys: rows in SQLite; the
first look-up of one reads the store, the next ones memory. Made-up keys: how long a good one that is new to the
server waits behind 10,000 of another address.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import tempfile
import time
from pathlib import Path

import httpx2

from antiphon.clock import SystemClock
from antiphon.governance.identity.failed_logins import FailedLogins
from antiphon.governance.identity.stored_keys import StoredKeys
from antiphon.settings.identity import IdentitySettings
from antiphon.store import api_keys
from antiphon.store.api_keys import ApiKey, ApiKeys
from antiphon.store.opening import open_store
from antiphon.store.reading import BoundedReader
from tests.support.server import ServerProcess, test_settings

UPGRADE = (
    "GET /v1/responses HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
OPENED_AT_ONCE = 100
WARM_UP = 50
SAMPLE = 2_000


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def silent_socket(host: str) -> Streams:
    name, port = host.split(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    writer.write(UPGRADE.format(host=host).encode())
    status = await reader.readline()
    assert b" 101 " in status, status
    return reader, writer  # a writer that nobody holds is closed


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


async def sockets(count: int) -> None:
    enough = count + WARM_UP
    env = {
        "ANTIPHON_AUTH": "required",
        "ANTIPHON_KEY": json.dumps([{"sha256": digest("x")}]),
        "ANTIPHON_IDENTITY": json.dumps({"max_unauthenticated": enough}),
        "ANTIPHON_DOOR": json.dumps(
            {"sockets_per_address": enough, "accepts_per_s": 1_000_000, "accept_burst": 1_000_000}
        ),
        "ANTIPHON_LOG_LEVEL": "warning",
    }
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        async with ServerProcess(Path(folder), env) as server:
            host = server.url.removeprefix("http://")
            warm = [await silent_socket(host) for _ in range(WARM_UP)]
            before = resident_bytes(server.pid)
            held: list[Streams] = []
            for _ in range(count // OPENED_AT_ONCE):
                held += await asyncio.gather(*(silent_socket(host) for _ in range(OPENED_AT_ONCE)))
            opened_at = time.monotonic()
            each = (resident_bytes(server.pid) - before) / len(held)
            await asyncio.gather(*(reader.read() for reader, _ in (*warm, *held)))
            gone_s = time.monotonic() - opened_at
    print(f"sockets without credentials: {each / 1000:.1f} KB each, all gone {gone_s:.1f} s after the last came")


async def flood(count: int) -> None:
    """Limits as they are by default, but for those of one address: here everybody has the same."""
    env = {
        "ANTIPHON_AUTH": "required",
        "ANTIPHON_KEY": json.dumps([{"sha256": digest("x")}]),
        "ANTIPHON_DOOR": json.dumps(
            {"sockets_per_address": 2 * count, "accepts_per_s": 1_000_000, "accept_burst": 1_000_000}
        ),
        "ANTIPHON_LOG_LEVEL": "error",
    }
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        async with ServerProcess(Path(folder), env) as server:
            host = server.url.removeprefix("http://")
            before, began = resident_bytes(server.pid), time.monotonic()
            waits_ms: list[float] = []
            over = asyncio.Event()
            caller = asyncio.create_task(call_often(server.url, over, waits_ms))
            held: list[Streams] = []
            told: dict[bytes, int] = {}
            for _ in range(count // OPENED_AT_ONCE):
                for status, streams in await asyncio.gather(*(attempt(host) for _ in range(OPENED_AT_ONCE))):
                    told[status] = told.get(status, 0) + 1
                    held.append(streams)
            grown_mb = (resident_bytes(server.pid) - before) / 1e6
            opened_s = time.monotonic() - began
            await asyncio.gather(*(reader.read() for reader, _ in held))
            over.set()
            await caller
            gone_s = time.monotonic() - began
    answers = ", ".join(f"{number:,} × {status.decode()}" for status, number in sorted(told.items()))
    print(f"{count:,} sockets that never authenticate, in {opened_s:.1f} s: {answers}; {grown_mb:.0f} MB more")
    print(f"  all gone after {gone_s:.1f} s; requests with a key meanwhile: {percentiles(waits_ms)}")


async def attempt(host: str) -> tuple[bytes, Streams]:
    """An upgrade without credentials: the status, and the connection."""
    name, port = host.split(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    writer.write(UPGRADE.format(host=host).encode())
    return (await reader.readline()).split()[1], (reader, writer)


async def call_often(url: str, over: asyncio.Event, waits_ms: list[float]) -> None:
    async with httpx2.AsyncClient(trust_env=False, headers={"authorization": "Bearer x"}) as client:
        while not over.is_set():
            began = time.perf_counter()
            assert (await client.get(f"{url}/v1/models")).status_code == 200
            waits_ms.append((time.perf_counter() - began) * 1000)


def percentiles(waits_ms: list[float]) -> str:
    ordered = sorted(waits_ms)
    return ", ".join(f"p{p} {ordered[len(ordered) * p // 100]:.1f} ms" for p in (50, 99)) + f" of {len(ordered):,}"


async def made_up(stored: StoredKeys, good: str) -> None:
    wrong = [asyncio.create_task(stored.find(digest(f"ak_made_up_{n}"), "192.0.2.1")) for n in range(10_000)]
    await asyncio.sleep(0)
    began = time.perf_counter()
    assert await stored.find(good, "192.0.2.2") is not None
    waited_ms = (time.perf_counter() - began) * 1000
    await asyncio.gather(*wrong)
    all_ms = (time.perf_counter() - began) * 1000
    print(f"a key behind 10,000 made-up ones of another address: {waited_ms:.1f} ms; all of those {all_ms:.0f} ms")


async def keys(tenants: int, each: int) -> None:
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
        store = open_store(test_settings(Path(folder)))
        await store.prepare()
        store.writer.start()
        names = [f"{tenant} {number}" for tenant in range(tenants) for number in range(each)]
        made = [
            ApiKey(f"key_{name}", digest(name), name, None, f"t{name.split()[0]}", "driver", 1.0) for name in names
        ]
        await asyncio.gather(*(store.writer.submit(api_keys.create(key)) for key in made))
        stored = new_stored(store.reader)
        sample = [digest(name) for name in names[:: max(1, len(names) // SAMPLE)]]
        for what in ("first look-up", "from memory"):
            began = time.perf_counter()
            for sha256 in sample:
                assert await stored.find(sha256) is not None
            spent_us = (time.perf_counter() - began) / len(sample) * 1e6
            print(f"one of {len(names):,} keys, {what:13}: {spent_us:7.1f} µs")
        await made_up(new_stored(store.reader), sample[0])
        await store.aclose()


def new_stored(reader: BoundedReader) -> StoredKeys:
    """That knows no key yet, and refuses none for what failed before it."""
    clock = SystemClock()
    return StoredKeys(ApiKeys(reader), clock, {}, IdentitySettings(), FailedLogins(None, clock))


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sockets", type=int, default=2_000)
    parser.add_argument("--flood", type=int, default=10_000)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=100)
    asked = parser.parse_args()
    await sockets(asked.sockets)
    await flood(asked.flood)
    for tenants in (asked.tenants // 10, asked.tenants):
        await keys(tenants, asked.keys)


if __name__ == "__main__":
    asyncio.run(main())
