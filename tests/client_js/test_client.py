"""client_js: its own tests on Node 20 and 22, against the real server where they need one."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.client_js.conftest import CLIENT, SCRIPTS, in_client, need_client, node_tests
from tests.http.calling import key_of
from tests.support.sdk_processes import clean_env
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.clients

MOST_BYTES = 12_288
"""Of the client without React, minified and packed with gzip: what a page loads before it can do anything."""

LOADED_LATER = {"fallback", "tools", "commands"}
"""Loaded when there is no socket, with the first held call, and with the first steer or answer."""
MOST_BYTES_LATER = 4_500
"""Of all of these."""


async def test_the_parts_keep_their_promises(build: Path, node: str) -> None:
    await node_tests(node, sorted((build / "test" / "unit").glob("*.test.js")))


async def test_against_the_server_the_client_keeps_its_promises(build: Path, node: str, tmp_path: Path) -> None:
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    files = [path for path in sorted((build / "test" / "e2e").glob("*.test.js")) if path.name != "keys.test.js"]
    async with running_server(tmp_path, timeouts={"claim_lease_s": 1.0}) as server:
        drops = "200" if "node_modules" in node else "20"  # seconds, which once are enough
        await node_tests(node, files, {"ANTIPHON_TEST_URL": server.url, "ANTIPHON_TEST_DROPS": drops})


async def test_keys_and_roles(build: Path, node: str, tmp_path: Path) -> None:
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    keys = [
        key_of("client-key", name="client", tenant="acme"),
        key_of("viewer-key", name="viewer", tenant="acme", role="viewer"),
    ]
    env = {"ANTIPHON_TEST_KEY": "client-key", "ANTIPHON_TEST_VIEWER_KEY": "viewer-key"}
    async with running_server(tmp_path, auth="required", key=keys, tenant=[{"id": "acme"}]) as server:
        await node_tests(node, [build / "test" / "e2e" / "keys.test.js"], {**env, "ANTIPHON_TEST_URL": server.url})


async def test_a_killed_server_loses_the_reader_no_number_and_no_held_call(build: Path, tmp_path: Path) -> None:
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    server = ServerProcess(tmp_path)
    await server.start("--port", port)
    try:
        script = await asyncio.create_subprocess_exec(
            "node",
            build / "test" / "restart" / "restart.js",
            env={**clean_env(), "ANTIPHON_TEST_URL": server.url},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert script.stdout is not None
            async with asyncio.timeout(120):
                assert await script.stdout.readline() == b"ready\n"
                await server.kill()
                await server.start("--port", port)
                result = json.loads(await script.stdout.readline())
                await script.wait()
        finally:
            if script.returncode is None:
                script.send_signal(signal.SIGKILL)
                await script.wait()
    finally:
        await server.kill()
    assert result["kept"] == list(range(len(result["kept"])))
    assert (result["status"], result["code"]) == ("failed", "server_lost")
    assert result["held"] == "Found."
    told, forks = result["told"], result["resets"]
    again = [number for place, number in enumerate(told[1:], 1) if number != told[place - 1] + 1]
    assert told[0] == 0
    assert again == [fork for fork in forks if fork <= max(told)][: len(again)]


async def test_the_types_of_the_wire_are_those_of_the_schema() -> None:
    need_client()
    await in_client("node", "scripts/wire.mjs", "--check")


def _packed_bytes(folder: Path) -> dict[str, int]:
    """Sizes of the bundles of a folder by name, as they are sent."""
    return {path.stem: len(gzip.compress(path.read_bytes(), 9)) for path in folder.glob("*.js")}


async def test_the_client_is_small_and_needs_no_other_package(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    need_client()
    assert "dependencies" not in json.loads((CLIENT / "package.json").read_text())
    flags = ["--bundle", "--splitting", "--minify", "--format=esm", "--target=es2022", "--log-level=error"]
    names = ["--chunk-names=[name]", f"--outdir={tmp_path}"]
    await in_client("node_modules/.bin/esbuild", "src/index.ts", *flags, *names)
    packed = _packed_bytes(tmp_path)
    for name, size in packed.items():
        record_property(f"bytes_of_{name}", size)
    at_first = packed.pop("index")
    # With no file that both share, nothing but the entry is loaded at first.
    assert packed.keys() == LOADED_LATER
    assert at_first <= MOST_BYTES, packed
    assert sum(packed.values()) <= MOST_BYTES_LATER, packed


async def test_the_package_has_its_entries_with_their_types(tmp_path: Path) -> None:
    need_client()
    await in_client("npx", "--no-install", "tsc", "-p", "tsconfig.build.json", "--outDir", tmp_path / "dist")
    entries = json.loads((CLIENT / "package.json").read_text())["exports"]
    for entry in entries.values():
        for path in entry.values():
            assert (tmp_path / path).is_file()
    assert "@internal" not in (tmp_path / "dist" / "shell" / "run.d.ts").read_text()
