"""Playing scenarios in a real Chromium: a program of Node that is given the server's address and their names."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.sdk_processes import NODE_FOLDER, missing

HERE = Path(__file__).parent
Restart = Callable[[], Awaitable[str]]
"""Kills the server, starts it again, gives its new address."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCENARIO_S = 120.0
"""A scenario waits at most 30 s for each thing; nearly all end within 5 s on an idle machine."""


def chromium() -> str:
    """The path of a Chromium; without one the test is skipped."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found or not Path(found).exists():
        missing("Chromium", "install it, or name it in CHROMIUM")
    return found


def node() -> str:
    """The path of Node; without it and the packages of these tests the test is skipped."""
    found = shutil.which("node")
    if found is None:
        missing("node", "install Node 20 or newer")
    if not all((HERE / "node_modules" / name).is_dir() for name in ("playwright-core", "axe-core")):
        missing("tests/browser/node_modules", "make it with `make setup`")
    if not (NODE_FOLDER / "node_modules" / "ws").is_dir():
        missing("tests/clients/node/node_modules", "make it with `make setup`")
    return found


async def run_scenarios(
    program: str,
    url: str,
    scenarios: Sequence[str],
    restart: Restart | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Play scenarios of a program in this folder; `restart` is called when one asks for it."""
    process = await asyncio.create_subprocess_exec(
        node(),
        str(HERE / program),
        url,
        *scenarios,
        env={**os.environ, **(env or {}), "CHROMIUM": chromium()},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    limit_s = SCENARIO_S * len(scenarios)
    try:
        output = await asyncio.wait_for(_listen(process, restart), limit_s)
    except TimeoutError:
        # Asked to end, Playwright takes its browser along.
        process.terminate()
        await process.wait()
        pytest.fail(f"{', '.join(scenarios)} did not end within {limit_s} s")
    assert process.returncode == 0, output


async def _listen(process: asyncio.subprocess.Process, restart: Restart | None) -> str:
    assert process.stdin is not None and process.stdout is not None
    said = []
    while line := (await process.stdout.readline()).decode():
        if line == "restart\n" and restart is not None:
            process.stdin.write(f"{await restart()}\n".encode())
            await process.stdin.drain()
        else:
            said.append(line)
    await process.wait()
    return "".join(said)
