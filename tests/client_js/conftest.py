"""The TypeScript client, compiled once, and the versions of Node it runs on."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.sdk_processes import ROOT, Finished, missing, run_process

CLIENT = ROOT / "client_js"
SCRIPTS = Path(__file__).parent / "scripts"
NODE_S = 240.0
"""Bounds what hangs; a busy machine takes a quarter of it."""


def need_client() -> None:
    """The packages of client_js."""
    if not (CLIENT / "node_modules" / "typescript").is_dir():
        missing("client_js/node_modules", "make it with `make setup`")


async def in_client(*command: str | Path, env: dict[str, str] | None = None) -> Finished:
    """Run a command in client_js; what it said if it fails."""
    finished = await run_process(command, cwd=CLIENT, env=env, wait_s=NODE_S)
    assert finished.code == 0, f"{finished.stdout[-6000:]}\n{finished.stderr[-4000:]}"
    return finished


@pytest.fixture
async def build() -> Path:
    """Sources and tests as JavaScript; compiled anew if a source is newer. One process at a time does it."""
    need_client()
    folder = CLIENT / "build"
    folder.mkdir(exist_ok=True)
    done = folder / ".done"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for part in ("src", "test") for path in (CLIENT / part).rglob("*.ts"))
        if not done.exists() or done.stat().st_mtime < newest:
            await in_client("npm", "run", "--silent", "build:test")
            done.touch()
    return folder


@pytest.fixture(params=["20", "22"])
def node(request: pytest.FixtureRequest) -> str:
    """The `node` command: the machine's own, which is 20 or newer, and 22 of the npm package."""
    if request.param == "20":
        found = shutil.which("node")
    else:
        path = CLIENT / "node_modules" / "node" / "bin" / "node"
        found = str(path) if path.exists() else None
    if found is None:
        missing(f"Node {request.param}", "install Node 20 or newer, and `make setup`")
    return found


async def node_tests(node: str, files: Sequence[Path], env: dict[str, str] | None = None) -> None:
    """Run test files of Node; none may be empty."""
    finished = await in_client(node, "--test", "--test-concurrency=3", "--test-reporter=spec", *files, env=env)
    assert "pass 0" not in finished.stdout, finished.stdout
