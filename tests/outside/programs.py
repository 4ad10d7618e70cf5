"""Programs of others: where they are, which version they have, and running them to their end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.outside.outcome import NotHereError

ROOT = Path(__file__).resolve().parents[2]
PYTHON_BIN = ROOT / ".venv-outside" / "bin"
NODE_FOLDER = Path(__file__).parent / "node"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PROGRAM_S = 1200.0
"""What a program may take before it counts as hanging."""


@dataclass(frozen=True)
class Ended:
    """A program that ended. output: what it wrote, errors included."""

    code: int
    output: str


def python_program(name: str) -> str:
    """A command line of `.venv-outside`. Raises NotHereError."""
    path = PYTHON_BIN / name
    if not path.exists():
        raise NotHereError(f"{name} is not installed: `make test-outside` installs it")
    return str(path)


def node_program(package: str, script: str) -> list[str]:
    """The words that start a script of an npm package. Raises NotHereError."""
    node = shutil.which("node")
    if node is None:
        raise NotHereError("there is no Node 20 or newer")
    path = NODE_FOLDER / "node_modules" / package / script
    if not path.exists():
        raise NotHereError(f"{package} is not installed: `make test-outside` installs it")
    return [node, str(path)]


def chromium() -> str:
    """The path of a Chromium. Raises NotHereError."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None or not Path(found).exists():
        raise NotHereError("there is no Chromium: install it, or name it in CHROMIUM")
    return found


def python_version(package: str, environment: Path = PYTHON_BIN.parent) -> str:
    """The version of a package in an environment; `-` if it is not there."""
    folders = environment.glob(f"lib/python*/site-packages/{package.replace('-', '_')}-*.dist-info")
    return next((folder.name.removesuffix(".dist-info").rpartition("-")[2] for folder in folders), "-")


def node_version(package: str, folder: Path = NODE_FOLDER) -> str:
    """The version of an npm package in a folder; `-` if it is not there."""
    path = folder / "node_modules" / package / "package.json"
    return str(json.loads(path.read_text(encoding="utf-8"))["version"]) if path.exists() else "-"


async def run(*words: str, cwd: Path | None = None, within_s: float = PROGRAM_S, **env: str) -> Ended:
    """Run a program to its end. One that hangs is killed, and its exit status is then -9."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=cwd or ROOT,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    reading = asyncio.ensure_future(process.communicate())
    try:
        await asyncio.wait([reading], timeout=within_s)
    finally:
        if process.returncode is None:
            process.kill()
    output, _ = await reading
    assert process.returncode is not None
    return Ended(process.returncode, output.decode(errors="replace"))


@contextlib.asynccontextmanager
async def running(*words: str, says: str, within_s: float = 60.0) -> AsyncIterator[re.Match[str]]:
    """Have a program run for as long as the block lasts; gives the match of what it says once it is ready."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    reading: asyncio.Task[bytes] | None = None
    try:
        async with asyncio.timeout(within_s):
            said = await _said(process.stdout, says)
        reading = asyncio.create_task(process.stdout.read())  # so that it never waits for a reader
        yield said
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def _said(output: asyncio.StreamReader, pattern: str) -> re.Match[str]:
    before = []
    while line := (await output.readline()).decode(errors="replace"):
        if found := re.search(pattern, line):
            return found
        before.append(line)
    raise NotHereError("the program ended at once: " + "".join(before).strip()[-500:])
