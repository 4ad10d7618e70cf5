"""The IDE example mends its workspace through lost connections, each tool run once, and its tools stay inside."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.browser.playing import run_scenarios
from tests.support.relay import DOWN, Relay
from tests.support.sdk_processes import ROOT, missing, run_process
from tests.support.server import running_server

EXAMPLE = ROOT / "examples" / "vscode-like"
CLIENT = ROOT / "client_js"
NODE_S = 240.0
"""Bounds what hangs."""
DROPS = 5
pytestmark = pytest.mark.clients


@pytest.fixture
async def node() -> str:
    """The `node` command, with the packages of the example installed and client_js compiled."""
    found = shutil.which("node")
    if found is None:
        missing("node", "install Node 20 or newer")
    for folder in (EXAMPLE / "node_modules" / "diff", CLIENT / "node_modules" / "typescript"):
        if not folder.is_dir():
            missing(str(folder.relative_to(ROOT)), "make it with `make setup`")
    index = CLIENT / "dist" / "index.js"
    with (CLIENT / "node_modules" / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in (CLIENT / "src").rglob("*.ts"))
        if not index.exists() or index.stat().st_mtime < newest:
            built = await run_process(["npm", "run", "--silent", "build"], cwd=CLIENT, wait_s=NODE_S)
            assert built.code == 0, built.stdout + built.stderr
    return found


async def test_the_workspace_is_mended_once_through_a_connection_that_drops(node: str, tmp_path: Path) -> None:
    workspace, data = tmp_path / "workspace", tmp_path / "data"
    shutil.copytree(EXAMPLE / "sample", workspace)
    shutil.copytree(EXAMPLE / "scripts", data / "scripts")
    async with running_server(data) as server, Relay("127.0.0.1", urlsplit(server.url).port or 0) as relay:
        url = f"http://127.0.0.1:{relay.port}"
        command: list[str | Path] = [node, EXAMPLE / "main.mjs", "--workspace", workspace]
        work = asyncio.create_task(run_process(command, env={"ANTIPHON_URL": url}, wait_s=NODE_S))
        for _ in range(DROPS):
            await relay.wait_forwarded(relay.paths[DOWN].forwarded_bytes + 4_000, DOWN, NODE_S)
            relay.reset()
        finished = await work
        assert finished.code == 0, finished.stdout + finished.stderr
        assert relay.accepted > DROPS
        run_id = re.findall(r"--- (resp_\w+) is completed ---", finished.stderr)[0]
        async with httpx2.AsyncClient(trust_env=False) as client:
            response = (await client.get(f"{server.url}/v1/responses/{run_id}")).json()
    assert "return price - (price * percent) / 100;" in (workspace / "price.mjs").read_text()
    assert (workspace / "CHANGES.md").read_text() == "# Changes\n- A discount is taken off the price.\n"
    names = {item["call_id"]: item["name"] for item in response["output"] if item["type"] == "function_call"}
    given = [item for item in response["output"] if item["type"] == "function_call_output"]
    assert [names[item["call_id"]] for item in given] == ["read_file", "run_tests", "apply_patch", "run_tests"]
    before, patched, after = (json.loads(item["output"]) for item in given[1:])
    assert (before["passed"], after["passed"]) == (False, True)
    assert patched == {"patched": ["price.mjs", "CHANGES.md"]}
    assert "Done: discounts are taken off again, and the tests pass." in finished.stdout
    assert f"watch it in a browser: {url}/?conversation=conv_" in finished.stderr


@pytest.mark.browser
async def test_the_same_run_is_watched_in_a_browser(node: str, tmp_path: Path) -> None:
    workspace, data = tmp_path / "workspace", tmp_path / "data"
    shutil.copytree(EXAMPLE / "sample", workspace)
    shutil.copytree(EXAMPLE / "scripts", data / "scripts")
    async with running_server(data) as server:
        command: list[str | Path] = [node, EXAMPLE / "main.mjs", "--workspace", workspace]
        work = asyncio.create_task(run_process(command, env={"ANTIPHON_URL": server.url}, wait_s=NODE_S))
        conversation = await _conversation(server.url)
        await run_scenarios(
            "chat.mjs",
            server.url,
            ["the_run_of_an_ide_is_watched_in_the_page"],
            env={"CONVERSATION": conversation},
        )
        finished = await work
    assert finished.code == 0, finished.stdout + finished.stderr


async def _conversation(url: str) -> str:
    """That of the one run, as soon as it is there."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        for _ in range(round(NODE_S / 0.02)):
            if runs := (await client.get(f"{url}/v1/runs")).json()["data"]:
                return str(runs[0]["conversation_id"])
            await asyncio.sleep(0.02)
    raise TimeoutError("the program began no run")


async def test_the_tools_touch_nothing_outside_of_the_workspace_and_end_in_time(node: str, tmp_path: Path) -> None:
    checks = Path(__file__).with_name("vscode_like_checks.mjs")
    finished = await run_process([node, checks, EXAMPLE, tmp_path], wait_s=NODE_S)
    assert (finished.code, finished.stdout) == (0, "checked\n"), finished.stderr


async def test_it_says_how_it_is_called_and_that_nobody_answers(node: str) -> None:
    helped = await run_process([node, str(EXAMPLE / "main.mjs"), "--help"], cwd=ROOT, wait_s=NODE_S)
    assert helped.code == 0 and "--workspace FOLDER" in helped.stdout and helped.stderr == ""
    wrong = await run_process([node, str(EXAMPLE / "main.mjs"), "--wrkspace", "x"], cwd=ROOT, wait_s=NODE_S)
    assert wrong.code == 2 and "--wrkspace" in wrong.stderr and "    at " not in wrong.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    alone = await asyncio.create_subprocess_exec(
        *(node, str(EXAMPLE / "main.mjs")),
        env={**os.environ, "ANTIPHON_URL": url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert alone.stderr is not None
        async with asyncio.timeout(NODE_S):
            while f"no server answers at {url}" not in (await alone.stderr.readline()).decode():
                continue
    finally:
        alone.kill()
        await alone.communicate()
